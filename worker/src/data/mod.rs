//! Bars: read from files, turned into features, split into folds, scaled.
//!
//! A bar's `start_ns` is the *start* of its interval, as in Databento's files; it is known at its end. Intervals
//! without trades have no bar. Whatever is computed for bar `t` uses bars up to `t` only.

pub mod books;
mod error;
pub mod features;
mod folds;
mod given;
mod problems;
mod readers;
mod scaler;

pub use error::{DataError, Place};
pub use folds::{Fold, Part, Purged, purged, walk_forward};
pub use problems::Problems;
pub(crate) use readers::moment;
pub use readers::{SAMPLE_NAME, load, read_bytes, survey};
pub use scaler::Scaler;

use foxlaunch_shared::answers::InstrumentSummary;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Nanoseconds in a year of 365.25 days.
pub(crate) const YEAR_NS: f64 = 365.25 * 86_400e9;

/// The bars of one instrument, column by column, in strictly rising time.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Bars {
    /// The instrument's name.
    pub symbol: String,
    /// Length of a bar in nanoseconds; 0 where it is unknown because there is one bar only.
    pub interval_ns: i64,
    /// Start of each bar in nanoseconds since 1970 (UTC).
    pub start_ns: Vec<i64>,
    /// First price.
    pub open: Vec<f64>,
    /// Highest price.
    pub high: Vec<f64>,
    /// Lowest price.
    pub low: Vec<f64>,
    /// Last price.
    pub close: Vec<f64>,
    /// Traded units; 0 in every bar where the source has none.
    pub volume: Vec<f64>,
}

impl Bars {
    /// How many bars.
    pub fn len(&self) -> usize {
        self.start_ns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.start_ns.is_empty()
    }

    /// Feeds everything that these bars are into `digest`, to the last bit.
    fn feed(&self, digest: &mut Sha256) {
        // lengths come first, so that no two lists of bars run together into the same bytes
        digest.update((self.symbol.len() as u64).to_le_bytes());
        digest.update(self.symbol.as_bytes());
        digest.update(self.interval_ns.to_le_bytes());
        digest.update((self.len() as u64).to_le_bytes());
        digest.update(bytemuck::cast_slice(&self.start_ns));
        for column in [&self.open, &self.high, &self.low, &self.close, &self.volume] {
            digest.update(bytemuck::cast_slice(column));
        }
    }

    /// Says what is wrong with the columns, if anything is: unequal lengths, falling time, impossible prices.
    fn fault(&self) -> Option<String> {
        let n = self.len();
        let columns = [&self.open, &self.high, &self.low, &self.close, &self.volume];
        if columns.iter().any(|c| c.len() != n) {
            return Some(format!("{}: the columns differ in length", self.symbol));
        }
        if let Some(t) = (1..n).find(|&t| self.start_ns[t] <= self.start_ns[t - 1]) {
            return Some(format!("{}: bar {t} does not start after bar {}", self.symbol, t - 1));
        }
        let fault = |t| readers::bar_fault([self.open[t], self.high[t], self.low[t], self.close[t]], self.volume[t]);
        (0..n).find_map(|t| fault(t).map(|(_, reason)| format!("{}: bar {t}: {reason}", self.symbol)))
    }
}

/// One instrument: its bars and what the agent sees of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Instrument {
    /// The bars.
    pub bars: Bars,
    /// Features, row-major `[bars][features]`; rows before the first usable bar are zeros.
    pub features: Vec<f32>,
    /// The first bar whose features have their whole past; the number of bars where there is none.
    pub first_usable: usize,
}

/// Instruments with their features. A clone shares them.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Where the bars come from, as a person would say it.
    pub source: String,
    instruments: Arc<[Instrument]>,
    feature_names: Arc<[String]>,
    feature_digest: String,
    content_digest: String,
    problems: Problems,
    zone: String,
    warm_up: usize,
}

impl Dataset {
    /// Bars with all features of [`features`].
    pub fn new(source: impl Into<String>, bars: Vec<Bars>) -> Result<Dataset, DataError> {
        let joined = bars.into_iter().map(|bars| readers::Joined { bars, own: Vec::new() }).collect();
        Dataset::chosen(source.into(), joined, &[], Problems::default())
    }

    /// Bars with the features called `columns`, of [`features`] or own ones; all of [`features`] where none is named.
    fn chosen(
        source: String,
        joined: Vec<readers::Joined>,
        columns: &[String],
        problems: Problems,
    ) -> Result<Dataset, DataError> {
        let chosen = features::Chosen::new(columns);
        let short = |one: &&readers::Joined| one.own.len() != chosen.own();
        if let Some(one) = joined.iter().find(short) {
            let reason = format!(
                "{} has no columns {}, which features.columns names; names of the set {} are {}",
                one.bars.symbol,
                features::own_columns(columns).join(", "),
                features::NAME,
                features::TABLE.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
            );
            return Err(DataError::Mismatch { origin: source, reason });
        }
        let matrices: Vec<Vec<f32>> = joined.par_iter().map(|one| chosen.compute(&one.bars, &one.own)).collect();
        let bars: Vec<Bars> = joined.into_iter().map(|one| one.bars).collect();
        // features that follow from the bars need no word of their own: the bars say what the data are
        let given = digest_of(&bars, if chosen.own() == 0 { &[] } else { &matrices });
        let digests = [chosen.digest(), given];
        let dataset = Dataset::assemble(source, bars, chosen.names(), matrices, chosen.warm_up(), digests)?;
        Ok(Dataset { problems, ..dataset })
    }

    /// The same, whose days are those of `zone`, as the setting `data.zone` has it.
    pub fn in_zone(self, zone: &str) -> Dataset {
        Dataset { zone: zone.to_owned(), ..self }
    }

    /// The zone whose days its days are; empty for UTC.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// How many bars at the start of an instrument lack a part of some feature's past.
    pub fn warm_up(&self) -> usize {
        self.warm_up
    }

    /// What was met when the bars were read.
    pub fn problems(&self) -> &Problems {
        &self.problems
    }

    /// Bars with features computed elsewhere: for each instrument a row-major matrix `[bars][names]`. Every bar is
    /// usable.
    pub fn with_features(bars: Vec<Bars>, names: Vec<String>, matrices: Vec<Vec<f32>>) -> Result<Dataset, DataError> {
        let digest = features::digest_of(names.iter().map(String::as_str));
        let given = digest_of(&bars, &matrices);
        Dataset::assemble("given bars".to_owned(), bars, names, matrices, 0, [digest, given])
    }

    fn assemble(
        source: String,
        bars: Vec<Bars>,
        names: Vec<String>,
        matrices: Vec<Vec<f32>>,
        warm_up: usize,
        [feature_digest, content_digest]: [String; 2],
    ) -> Result<Dataset, DataError> {
        let mismatch = |reason: String| DataError::Mismatch { origin: source.clone(), reason };
        if bars.len() != matrices.len() {
            return Err(mismatch(format!("{} instruments but {} feature matrices", bars.len(), matrices.len())));
        }
        if bars.len() > usize::from(u16::MAX) {
            return Err(mismatch(format!("{} instruments; at most {} can be numbered", bars.len(), u16::MAX)));
        }
        let mut instruments = Vec::with_capacity(bars.len());
        for (bars, features) in bars.into_iter().zip(matrices) {
            if let Some(fault) = bars.fault() {
                return Err(mismatch(fault));
            }
            if features.len() != bars.len() * names.len() {
                let (symbol, got) = (&bars.symbol, features.len());
                let shape = format!("{} bars x {} features", bars.len(), names.len());
                return Err(mismatch(format!("{symbol}: {got} feature values do not make {shape}")));
            }
            if let Some(at) = features.iter().position(|x| !x.is_finite()) {
                let (bar, name) = (at / names.len(), &names[at % names.len()]);
                let (symbol, value, at) = (&bars.symbol, features[at], moment(bars.start_ns[bar]));
                let reason =
                    "correct numbers that are too large or too far apart, or leave the feature out (features.columns)";
                return Err(mismatch(format!("{symbol}: bar {bar} of {at}: {name} is {value}; {reason}")));
            }
            let first_usable = warm_up.min(bars.len());
            instruments.push(Instrument { bars, features, first_usable });
        }
        let (instruments, feature_names) = (instruments.into(), names.into());
        let problems = Problems::default();
        let zone = String::new();
        Ok(Dataset { source, instruments, feature_names, feature_digest, content_digest, problems, zone, warm_up })
    }

    /// The instruments, in the order in which every other list has them.
    pub fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    /// The name of each feature column.
    pub fn feature_names(&self) -> &[String] {
        &self.feature_names
    }

    /// A digest of what the features are, as hex: a model is valid for data with the same one only.
    pub fn feature_digest(&self) -> &str {
        &self.feature_digest
    }

    /// A digest of what was given, as hex: SHA-256 over every instrument's name, bar length, times and columns, and
    /// over features that were computed elsewhere. A run goes on only with the data it began with.
    pub fn content_digest(&self) -> &str {
        &self.content_digest
    }

    /// The shortest bar length of any instrument in nanoseconds; 0 where none is known.
    pub fn interval_ns(&self) -> i64 {
        self.instruments.iter().map(|i| i.bars.interval_ns).filter(|&ns| ns > 0).min().unwrap_or(0)
    }

    /// Bars in a year by the data's own calendar: distinct start times over all instruments, counted over their
    /// span. Daily US stocks give about 252, bars around the clock give all. 1 where there are fewer than two.
    ///
    /// Bars of a single session count as if the market never closed: a calendar shows only in a longer span.
    pub fn periods_per_year(&self) -> f64 {
        let mut times: Vec<i64> = self.instruments.iter().flat_map(|i| i.bars.start_ns.iter().copied()).collect();
        times.sort_unstable();
        times.dedup();
        match times[..] {
            [first, .., last] => (times.len() - 1) as f64 / ((last - first) as f64 / YEAR_NS),
            _ => 1.0,
        }
    }

    /// What there is, for a plan.
    pub fn summary(&self) -> Vec<InstrumentSummary> {
        let summary = |i: &Instrument| InstrumentSummary {
            symbol: i.bars.symbol.clone(),
            bars: i.bars.len() - i.first_usable,
            first_ns: i.bars.start_ns.first().copied().unwrap_or(0),
            last_ns: i.bars.start_ns.last().copied().unwrap_or(0),
        };
        self.instruments.iter().map(summary).collect()
    }
}

/// SHA-256 over all bits of `bars` and `matrices`, as hex.
fn digest_of(bars: &[Bars], matrices: &[Vec<f32>]) -> String {
    let mut digest = Sha256::new();
    bars.iter().for_each(|bars| bars.feed(&mut digest));
    for matrix in matrices {
        digest.update((matrix.len() as u64).to_le_bytes());
        digest.update(bytemuck::cast_slice(matrix));
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars() -> Bars {
        let prices = vec![10.0, 11.0, 12.0];
        let [open, high, low, close] = std::array::from_fn(|_| prices.clone());
        let symbol = "A".to_owned();
        Bars { symbol, interval_ns: 1, start_ns: vec![1, 2, 3], open, high, low, close, volume: vec![0.0; 3] }
    }

    #[test]
    fn the_content_digest_hears_of_every_column_and_not_of_where_it_came_from() {
        let digest = |source: &str, bars: Bars| Dataset::new(source, vec![bars]).unwrap().content_digest().to_owned();
        let expected = digest("here", bars());
        assert_eq!(expected, digest("there", bars()));
        let changes: [fn(&mut Bars); 8] = [
            |b| b.symbol.push('B'),
            |b| b.interval_ns = 2,
            |b| b.start_ns[2] = 4,
            |b| b.open[1] = 11.5,
            |b| b.high[1] = 11.5,
            |b| b.low[1] = 10.5,
            |b| b.close[1] = 10.5,
            |b| b.volume[0] = 1.0,
        ];
        for (i, change) in changes.into_iter().enumerate() {
            let mut other = bars();
            change(&mut other);
            assert_ne!(expected, digest_of(&[other], &[]), "change {i}");
        }
        let given = |value: f32| {
            let names = vec!["f".to_owned()];
            Dataset::with_features(vec![bars()], names, vec![vec![value; 3]]).unwrap().content_digest().to_owned()
        };
        assert_ne!(given(0.0), given(1.0));
    }
}
