//! Walk-forward folds: learn on the past, choose on what follows, test on what follows that.
//!
//! ```text
//! time -->
//! fold 0: train train train . val . test
//! fold 1: train train train train . val . test
//! fold 2: train train train train train . val . test
//! ```
//!
//! With the scheme `rolling`, train and validation parts stay as long, in bars over all instruments, as those of the
//! first fold.
//!
//! Borders are moments, the same for all instruments. A dot is the embargo. An episode or a walk stays inside its
//! part, so no reward reaches over a border: that is the purge (Lopez de Prado 2018, chapter 7); for labels that look
//! further ahead, `label_bars` more bars of each instrument are left out. Features may look back over a border; scalers
//! may not.

use super::{DataError, Dataset};
use foxlaunch_shared::answers::FoldSummary;
use foxlaunch_shared::config::FoldsConfig;
use foxlaunch_shared::evaluation::Span;
use std::ops::Range;

/// A stretch of time: for each instrument of the data the bars that fall into it, perhaps none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Indices of bars, one range for each instrument.
    pub ranges: Vec<Range<usize>>,
}

impl Part {
    /// All usable bars of `dataset`.
    pub fn whole(dataset: &Dataset) -> Part {
        Part { ranges: dataset.instruments().iter().map(|i| i.first_usable..i.bars.len()).collect() }
    }

    /// Bars, summed over the instruments.
    pub fn bars(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// Its first and last bar; zeros where it has none.
    pub fn span(&self, dataset: &Dataset) -> Span {
        let parts = || dataset.instruments().iter().zip(&self.ranges).filter(|(_, range)| !range.is_empty());
        Span {
            first_ns: parts().map(|(i, range)| i.bars.start_ns[range.start]).min().unwrap_or(0),
            last_ns: parts().map(|(i, range)| i.bars.start_ns[range.end - 1]).max().unwrap_or(0),
            bars: self.bars(),
        }
    }

    /// The usable bars that start from `from` on and before `to`, less `embargo` bars at the end of each instrument.
    fn between(dataset: &Dataset, from: i64, to: i64, embargo: usize) -> Part {
        let range = |i: &super::Instrument| {
            let index = |time| i.bars.start_ns.partition_point(|&s| s < time).max(i.first_usable);
            let start = index(from);
            start..index(to).saturating_sub(embargo).max(start)
        };
        Part { ranges: dataset.instruments().iter().map(range).collect() }
    }

    /// Whether some instrument has a bar to decide on and one to be paid by.
    fn can_be_traded(&self) -> bool {
        self.ranges.iter().any(|range| range.len() >= 2)
    }
}

/// One fold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Which one, from 0.
    pub index: usize,
    /// To learn from.
    pub train: Part,
    /// To choose the best checkpoint by.
    pub validation: Part,
    /// To report on, once.
    pub test: Part,
}

impl Fold {
    /// Its sizes.
    pub fn summary(&self) -> FoldSummary {
        FoldSummary { train: self.train.bars(), validation: self.validation.bars(), test: self.test.bars() }
    }
}

/// Splits `dataset` into folds whose test parts follow each other without overlap up to the last bar.
///
/// Test parts together hold `test_fraction` of the usable bars, as nearly equal in bars as moments allow; fold k
/// learns from everything before its test part (or from as much as the first fold, where the scheme is `rolling`), of
/// which the last `validation_fraction` is its validation part.
pub fn walk_forward(dataset: &Dataset, config: &FoldsConfig) -> Result<Vec<Fold>, DataError> {
    let mut times: Vec<i64> = Vec::new();
    for i in dataset.instruments() {
        times.extend_from_slice(&i.bars.start_ns[i.first_usable..]);
    }
    times.sort_unstable();
    let total = times.len();
    let too_short = |reason: String| DataError::TooShort { origin: dataset.source.clone(), reason };
    let tested = (total as f64 * config.test_fraction).round() as usize;
    if tested < 2 * config.count || total - tested < 4 {
        return Err(too_short(format!(
            "{} are too few for folds.count = {} with folds.test_fraction = {}{}; use more bars or fewer folds",
            usable(dataset, total),
            config.count,
            config.test_fraction,
            wanted(config)
        )));
    }
    let fold = |index: usize| {
        let border = |k: usize| match total - tested + k * tested / config.count {
            at if at < total => times[at],
            _ => i64::MAX,
        };
        let (test_from, test_to) = (border(index), border(index + 1));
        let past = times.partition_point(|&t| t < test_from);
        // as many bars as the first fold has, the newest of them
        let skipped = if config.scheme == "rolling" { past.saturating_sub(total - tested) } else { 0 };
        let train_from = if skipped == 0 { i64::MIN } else { times[skipped] };
        let learned = skipped + (((past - skipped) as f64) * (1.0 - config.validation_fraction)).round() as usize;
        let validation_from = times[learned.min(total - 1)].min(test_from);
        let left_out = config.embargo_bars + config.label_bars;
        let fold = Fold {
            index,
            train: Part::between(dataset, train_from, validation_from, left_out),
            validation: Part::between(dataset, validation_from, test_from, left_out),
            test: Part::between(dataset, test_from, test_to, 0),
        };
        for (name, part) in [("train", &fold.train), ("validation", &fold.validation), ("test", &fold.test)] {
            if !part.can_be_traded() {
                return Err(too_short(format!(
                    "fold {} of {}: its {name} part has {} bars after an embargo of {left_out}, and no instrument has 2 in a \
                     row; there are {}{}; use more bars, fewer folds or other shares",
                    index + 1,
                    config.count,
                    part.bars(),
                    usable(dataset, total),
                    wanted(config)
                )));
            }
        }
        Ok(fold)
    };
    (0..config.count).map(fold).collect()
}

/// How many bars are usable, and where the others are, in words.
fn usable(dataset: &Dataset, total: usize) -> String {
    let warm_up = dataset.instruments().iter().map(|i| i.first_usable).max().unwrap_or(0);
    match warm_up {
        0 => format!("{total} usable bars"),
        _ => format!(
            "{total} usable bars (the features of an instrument need {warm_up} bars before the first usable one)"
        ),
    }
}

/// How many usable bars would do, in words; nothing where no sensible number would.
fn wanted(config: &FoldsConfig) -> String {
    let (mut low, mut high) = (0, 8);
    while !suffices(high, config) {
        if high > 1 << 24 {
            return String::new();
        }
        (low, high) = (high, 2 * high);
    }
    while high - low > 1 {
        let middle = (low + high) / 2;
        if suffices(middle, config) { high = middle } else { low = middle }
    }
    format!(", which need about {high} of one instrument")
}

/// Whether so many usable bars of one instrument can be split: the sizes that [`walk_forward`] comes to.
fn suffices(total: usize, config: &FoldsConfig) -> bool {
    let tested = (total as f64 * config.test_fraction).round() as usize;
    let border = |k: usize| total - tested + k * tested / config.count;
    tested >= 2 * config.count
        && tested + 4 <= total
        && (0..config.count).all(|k| {
            let whole = border(k);
            let past = if config.scheme == "rolling" { border(0) } else { whole };
            let learned = ((past as f64) * (1.0 - config.validation_fraction)).round() as usize;
            let least = config.embargo_bars + config.label_bars + 2;
            border(k + 1) >= whole + 2 && learned >= least && past >= learned + least
        })
}

/// Rows to learn from around one test block, for labels that look ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Rows on both sides of the block, as in k-fold.
    pub train: Vec<usize>,
    /// Rows before the block alone, as in a walk forward.
    pub train_walk_forward: Vec<usize>,
}

/// Rows of `0..n` whose labels, which look `label_horizon` rows ahead, share nothing with the rows of `test`.
///
/// Before the block, row i stays if i + `label_horizon` < test.start. After it, rows whose past the labels of the
/// block reach into are left out, and `embargo` more (Lopez de Prado 2018, section 7.4).
pub fn purged(n: usize, test: Range<usize>, label_horizon: usize, embargo: usize) -> Purged {
    let before: Vec<usize> = (0..test.start.min(n).saturating_sub(label_horizon)).collect();
    let after = test.end.saturating_add(label_horizon).saturating_add(embargo);
    let train = before.iter().copied().chain(after..n).collect();
    Purged { train, train_walk_forward: before }
}

#[cfg(test)]
mod tests;
