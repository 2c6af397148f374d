//! Features of a bar, each a function of that bar and earlier ones: the set `fox16-v1`.
//!
//! Everything is computed in f64, column by column, and stored in f32. A window is summed anew for each bar, so a
//! value depends on the bars in its window alone, down to the last bit.

mod columns;

use super::Bars;
use sha2::{Digest, Sha256};

/// The name of this set. A change of any formula is a new name.
pub const NAME: &str = "fox16-v1";

/// A column: what it is called, what it is, and from how many earlier bars.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Its value at bar t, with o, h, l, c, v for open, high, low, close, volume, s for the start of the bar,
    /// r(t) = ln(c(t) / c(t-1)), and means over windows that end at t unless said.
    pub formula: &'static str,
    /// Bars that must come before.
    pub warm_up: usize,
    column: fn(&Bars) -> Vec<f64>,
}

macro_rules! table {
    ($($name:literal, $formula:literal, $warm_up:literal, $column:expr;)+) => {
        /// The columns, in order.
        pub const TABLE: &[Feature] =
            &[$(Feature { name: $name, formula: $formula, warm_up: $warm_up, column: $column }),+];
    };
}

table! {
    "return_1", "ln(c(t) / c(t-1))", 1, |b| columns::log_return(b, 1);
    "return_2", "ln(c(t) / c(t-2))", 2, |b| columns::log_return(b, 2);
    "return_3", "ln(c(t) / c(t-3))", 3, |b| columns::log_return(b, 3);
    "return_5", "ln(c(t) / c(t-5))", 5, |b| columns::log_return(b, 5);
    "return_10", "ln(c(t) / c(t-10))", 10, |b| columns::log_return(b, 10);
    "return_20", "ln(c(t) / c(t-20))", 20, |b| columns::log_return(b, 20);
    "range", "ln(h / l)", 0, columns::range;
    "body", "ln(c / o)", 0, columns::body;
    "upper_shadow", "ln(h / max(o, c))", 0, columns::upper_shadow;
    "lower_shadow", "ln(min(o, c) / l)", 0, columns::lower_shadow;
    "volatility_10", "sqrt(mean of r^2 over 10 bars)", 10, |b| columns::volatility(b, 10);
    "volatility_20", "sqrt(mean of r^2 over 20 bars)", 20, |b| columns::volatility(b, 20);
    "volume_surprise", "ln((1 + v(t)) / (1 + mean of v over 20 bars before))", 20, |b| columns::volume_surprise(b, 20);
    "distance_20", "ln(c(t) / mean of c over 20 bars)", 19, |b| columns::distance(b, 20);
    "gap", "ln(o(t) / c(t-1))", 1, columns::gap;
    "elapsed", "ln((s(t) - s(t-1)) / interval)", 1, columns::elapsed;
}

/// Bars at the start of the data whose features lack a part of their past.
pub const WARM_UP: usize = 20;

/// All features of `bars`, row-major `[bars][TABLE.len()]`; the first [`WARM_UP`] rows are zeros.
pub(super) fn compute(bars: &Bars) -> Vec<f32> {
    let width = TABLE.len();
    let mut rows = vec![0.0; bars.len() * width];
    for (j, feature) in TABLE.iter().enumerate() {
        let column = (feature.column)(bars);
        for (row, value) in rows.chunks_exact_mut(width).zip(&column).skip(WARM_UP) {
            row[j] = *value as f32;
        }
    }
    rows
}

/// A digest of names, formulas and warm-ups, as hex.
pub fn digest() -> String {
    let lines = TABLE.iter().map(|f| format!("{}: {} after {}", f.name, f.formula, f.warm_up));
    let lines: Vec<String> = std::iter::once(NAME.to_owned()).chain(lines).collect();
    digest_of(lines.iter().map(String::as_str))
}

/// A digest of lines of text, as hex.
pub(super) fn digest_of<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for line in lines {
        digest.update(line.as_bytes());
        digest.update(b"\n");
    }
    digest.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests;
