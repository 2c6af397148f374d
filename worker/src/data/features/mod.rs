//! Features of a bar, each a function of that bar and earlier ones: the set `fox51-v1`; and own ones of the data.
//!
//! Everything is computed in f64, column by column, and stored in f32. A value depends on the bars in its window alone,
//! down to the last bit: so the future leaves no trace in it, and bars can be worked on in blocks, side by side.

mod columns;
mod rolling;

use super::Bars;
use columns::Stretch;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

/// The name of this set. A change of any formula is a new name.
pub const NAME: &str = "fox51-v1";

/// Bars that are worked on together: their columns fit into a core's cache.
const BLOCK: usize = 2048;

/// A column: what it is called, what it is, and from how many earlier bars.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Its value at bar t, with o, h, l, c, v for open, high, low, close, volume, s for the start of the bar,
    /// r(t) = ln(c(t) / c(t-1)), and means, sums, extremes over windows that end at t unless said. What would be divided
    /// by 0 is 0.
    pub formula: &'static str,
    /// Bars that must come before.
    pub warm_up: usize,
    column: fn(&Stretch<'_>) -> Vec<f64>,
}

macro_rules! table {
    ($($name:literal, $formula:literal, $warm_up:literal, $column:expr;)+) => {
        /// The columns, in order.
        pub const TABLE: &[Feature] =
            &[$(Feature { name: $name, formula: $formula, warm_up: $warm_up, column: $column }),+];
    };
}

table! {
    "return_1", "ln(c(t) / c(t-1))", 1, |s| s.log_return(1);
    "return_2", "ln(c(t) / c(t-2))", 2, |s| s.log_return(2);
    "return_3", "ln(c(t) / c(t-3))", 3, |s| s.log_return(3);
    "return_5", "ln(c(t) / c(t-5))", 5, |s| s.log_return(5);
    "return_10", "ln(c(t) / c(t-10))", 10, |s| s.log_return(10);
    "return_20", "ln(c(t) / c(t-20))", 20, |s| s.log_return(20);
    "return_60", "ln(c(t) / c(t-60))", 60, |s| s.log_return(60);
    "range", "ln(h / l)", 0, |s| s.range();
    "body", "ln(c / o)", 0, |s| s.body();
    "upper_shadow", "ln(h / max(o, c))", 0, |s| s.upper_shadow();
    "lower_shadow", "ln(min(o, c) / l)", 0, |s| s.lower_shadow();
    "close_location", "(c - l) / (h - l) - 0.5", 0, |s| s.close_location();
    "true_range_14", "mean of ln(max(h, c(t-1)) / min(l, c(t-1))) over 14 bars", 14, |s| s.true_range(14);
    "parkinson_20", "sqrt(mean of ln(h / l)^2 over 20 bars / (4 ln 2)) (Parkinson 1980)", 19, |s| s.parkinson(20);
    "garman_klass_20", "sqrt(mean of 0.5 ln(h / l)^2 - (2 ln 2 - 1) ln(c / o)^2 over 20 bars) (Garman, Klass 1980)", 19,
        |s| s.garman_klass(20);
    "rogers_satchell_20", "sqrt(mean of ln(h / c) ln(h / o) + ln(l / c) ln(l / o) over 20 bars) (Rogers, Satchell 1991)",
        19, |s| s.rogers_satchell(20);
    "volatility_5", "sqrt(mean of r^2 over 5 bars)", 5, |s| s.volatility(5);
    "volatility_10", "sqrt(mean of r^2 over 10 bars)", 10, |s| s.volatility(10);
    "volatility_20", "sqrt(mean of r^2 over 20 bars)", 20, |s| s.volatility(20);
    "volatility_60", "sqrt(mean of r^2 over 60 bars)", 60, |s| s.volatility(60);
    "volatility_ratio", "volatility_5 / volatility_60", 60, |s| s.volatility_ratio(5, 60);
    "downside_20", "sqrt(mean of min(r, 0)^2 over 20 bars)", 20, |s| s.downside(20);
    "skewness_20", "mean of r^3 over 20 bars / volatility_20^3", 20, |s| s.skewness(20);
    "volume_change", "ln((1 + v(t)) / (1 + v(t-1)))", 1, |s| s.volume_change();
    "volume_surprise", "ln((1 + v(t)) / (1 + mean of v over 20 bars before))", 20, |s| s.volume_surprise(20);
    "volume_trend", "ln((1 + mean of v over 5 bars) / (1 + mean of v over 20 bars))", 19, |s| s.volume_trend(5, 20);
    "volume_spread_20", "standard deviation of ln(1 + v) over 20 bars", 19, |s| s.volume_spread(20);
    "signed_volume_20", "sum of sign(r) v over 20 bars / sum of v over 20 bars", 20, |s| s.signed_volume(20);
    "vwap_distance_20", "ln(c / (sum of p v / sum of v over 20 bars)), p = (h + l + c) / 3; mean of p where v is 0", 19,
        |s| s.vwap_distance(20);
    "distance_5", "ln(c(t) / mean of c over 5 bars)", 4, |s| s.distance(5);
    "distance_10", "ln(c(t) / mean of c over 10 bars)", 9, |s| s.distance(10);
    "distance_20", "ln(c(t) / mean of c over 20 bars)", 19, |s| s.distance(20);
    "distance_60", "ln(c(t) / mean of c over 60 bars)", 59, |s| s.distance(60);
    "z_score_20", "(ln c - mean of ln c) / standard deviation of ln c, over 20 bars", 19, |s| s.z_score(20);
    "relative_strength_14", "sum of max(r, 0) / sum of |r| over 14 bars - 0.5 (Cutler's RSI)", 14,
        |s| s.relative_strength(14);
    "channel_14", "(c - min l) / (max h - min l) over 14 bars - 0.5", 13, |s| s.channel(14);
    "channel_20", "(c - min l) / (max h - min l) over 20 bars - 0.5", 19, |s| s.channel(20);
    "channel_60", "(c - min l) / (max h - min l) over 60 bars - 0.5", 59, |s| s.channel(60);
    "below_high_60", "ln(c / max h over 60 bars)", 59, |s| s.below_high(60);
    "above_low_60", "ln(c / min l over 60 bars)", 59, |s| s.above_low(60);
    "trend_5_20", "ln(mean of c over 5 bars / mean of c over 20 bars)", 19, |s| s.trend(5, 20);
    "trend_20_60", "ln(mean of c over 20 bars / mean of c over 60 bars)", 59, |s| s.trend(20, 60);
    "efficiency_20", "|ln(c(t) / c(t-20))| / sum of |r| over 20 bars (Kaufman)", 20, |s| s.efficiency(20);
    "autocorrelation_20", "sum of r(t) r(t-1) / sum of r^2 over 20 bars", 21, |s| s.autocorrelation(20);
    "up_share_20", "share of bars with r > 0 of 20 bars - 0.5", 20, |s| s.up_share(20);
    "gap", "ln(o(t) / c(t-1))", 1, |s| s.gap();
    "elapsed", "ln((s(t) - s(t-1)) / interval)", 1, |s| s.elapsed();
    "day_sin", "sin(2 pi x), x the share of the day (UTC) passed at s + interval", 0, |s| s.day(f64::sin);
    "day_cos", "cos(2 pi x), x the share of the day (UTC) passed at s + interval", 0, |s| s.day(f64::cos);
    "week_sin", "sin(2 pi x), x the share of the week from Monday (UTC) on passed at s + interval", 0,
        |s| s.week(f64::sin);
    "week_cos", "cos(2 pi x), x the share of the week from Monday (UTC) on passed at s + interval", 0,
        |s| s.week(f64::cos);
}

/// Bars at the start of the data whose features lack a part of their past.
pub const WARM_UP: usize = 60;

/// Where a chosen column comes from.
#[derive(Clone, Copy, Debug)]
enum From {
    /// A feature of the set.
    Set(&'static Feature),
    /// An own column of the data.
    Own(usize),
}

/// Features, in an order.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    columns: Vec<(String, From)>,
    own: usize,
}

fn in_set(name: &str) -> Option<&'static Feature> {
    TABLE.iter().find(|feature| feature.name == name)
}

/// Those of `columns` that are own columns of the data, not features of the set.
pub(super) fn own_columns(columns: &[String]) -> Vec<String> {
    columns.iter().filter(|name| in_set(name).is_none()).cloned().collect()
}

impl Chosen {
    /// The features called `names`; the whole set if there are none.
    pub(super) fn new(names: &[String]) -> Chosen {
        if names.is_empty() {
            return Chosen { columns: TABLE.iter().map(|f| (f.name.to_owned(), From::Set(f))).collect(), own: 0 };
        }
        let mut own = 0;
        let column = |name: &String| {
            let from = in_set(name).map_or_else(
                || {
                    own += 1;
                    From::Own(own - 1)
                },
                From::Set,
            );
            (name.clone(), from)
        };
        let columns = names.iter().map(column).collect();
        Chosen { columns, own }
    }

    /// How many own columns of the data it takes.
    pub(super) fn own(&self) -> usize {
        self.own
    }

    /// Their names.
    pub(super) fn names(&self) -> Vec<String> {
        self.columns.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Bars at the start that lack a part of some feature's past.
    pub(super) fn warm_up(&self) -> usize {
        let of = |from: &From| if let From::Set(feature) = from { feature.warm_up } else { 0 };
        self.columns.iter().map(|(_, from)| of(from)).max().unwrap_or(0)
    }

    /// A digest of names, formulas and warm-ups, as hex.
    pub(super) fn digest(&self) -> String {
        let line = |(name, from): &(String, From)| match from {
            From::Set(f) => format!("{name}: {} after {}", f.formula, f.warm_up),
            From::Own(_) => format!("{name}: own"),
        };
        let lines: Vec<String> = std::iter::once(NAME.to_owned()).chain(self.columns.iter().map(line)).collect();
        digest_of(lines.iter().map(String::as_str))
    }

    /// The features of `bars`, whose own columns are `own`, row-major `[bars][features]`; the first
    /// [`Chosen::warm_up`] rows are zeros.
    pub(super) fn compute(&self, bars: &Bars, own: &[Vec<f64>]) -> Vec<f32> {
        let (width, warm_up) = (self.columns.len(), self.warm_up());
        let mut rows = vec![0.0f32; bars.len() * width];
        let usable = rows.get_mut(warm_up * width..).unwrap_or_default();
        usable.par_chunks_mut(BLOCK * width).enumerate().for_each(|(block, rows)| {
            let from = warm_up + block * BLOCK;
            let stretch = Stretch::new(bars, from - warm_up..from + rows.len() / width);
            for (j, (_, column)) in self.columns.iter().enumerate() {
                let cells = rows.iter_mut().skip(j).step_by(width);
                match column {
                    From::Set(feature) => {
                        let column = (feature.column)(&stretch);
                        cells.zip(&column[warm_up..]).for_each(|(cell, value)| *cell = *value as f32);
                    }
                    From::Own(k) => cells.zip(&own[*k][from..]).for_each(|(cell, value)| *cell = *value as f32),
                }
            }
        });
        rows
    }
}

/// All features of `bars`, row-major `[bars][TABLE.len()]`; the first [`WARM_UP`] rows are zeros.
pub fn compute(bars: &Bars) -> Vec<f32> {
    Chosen::new(&[]).compute(bars, &[])
}

/// A digest of the whole set: names, formulas and warm-ups, as hex.
pub fn digest() -> String {
    Chosen::new(&[]).digest()
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
