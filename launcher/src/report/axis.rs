//! An axis that knows its marks and what to write at each; plotters chooses neither well for dates.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// From `low` to `high`, with a text at each mark.
pub(super) struct Axis {
    low: f64,
    high: f64,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis over `(low, high)` with `marks`.
    pub(super) fn new((low, high): (f64, f64), marks: impl IntoIterator<Item = (f64, String)>) -> Axis {
        Axis { low, high, marks: marks.into_iter().collect() }
    }

    /// The same axis without texts.
    pub(super) fn silent(&self) -> Axis {
        Axis::new((self.low, self.high), self.marks.iter().map(|mark| (mark.0, String::new())))
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        let place = f64::from(limit.0) + share * f64::from(limit.1 - limit.0);
        // Far outside is as good as just outside, and fits the type.
        place.round().clamp(-1e6, 1e6) as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.marks.iter().map(|mark| mark.0).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.marks.iter().find(|mark| mark.0 == *value).map(|mark| mark.1.clone()).unwrap_or_default()
    }
}
