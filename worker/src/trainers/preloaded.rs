//! Data that were loaded once and are trained on, fold by fold or trial by trial; and who hears of checkpoints.

use crate::data::{DataError, Dataset, Fold, Part, Scaler, walk_forward};
use crate::environments::market::Market;
use foxlaunch_shared::config::{EnvironmentConfig, FoldsConfig};
use std::path::Path;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Bars with their features in memory, and what of them is learned from, chosen by and tested on. A clone shares them.
#[derive(Clone, Debug)]
pub struct Preloaded {
    dataset: Dataset,
    folds: Vec<Fold>,
}

impl Preloaded {
    /// `dataset` in the folds that `config` asks for, as [`walk_forward`] has them.
    pub fn walk_forward(dataset: &Dataset, config: &FoldsConfig) -> Result<Preloaded, DataError> {
        Ok(Preloaded { dataset: dataset.clone(), folds: walk_forward(dataset, config)? })
    }

    /// `dataset` as a single fold of the caller's own: learns from `train`, chooses the best weights by `validation` and
    /// tests them on `test`. The parts must follow each other in time without overlap, so that nothing is learned from
    /// what comes later.
    pub fn split(dataset: &Dataset, train: Part, validation: Part, test: Part) -> Result<Preloaded, DataError> {
        let mismatch = |reason: String| DataError::Mismatch { origin: dataset.source.clone(), reason };
        let instruments = dataset.instruments();
        let parts = [("train", &train), ("validation", &validation), ("test", &test)];
        for (name, part) in parts {
            let fits = part.ranges.len() == instruments.len()
                && part.ranges.iter().zip(instruments).all(|(r, i)| r.start <= r.end && r.end <= i.bars.len());
            if !fits {
                return Err(mismatch(format!("the ranges of the {name} part do not fit the bars")));
            }
            let early = part.ranges.iter().zip(instruments).find(|(r, i)| !r.is_empty() && r.start < i.first_usable);
            if let Some((range, instrument)) = early {
                let (symbol, from, first) = (&instrument.bars.symbol, range.start, instrument.first_usable);
                let reason = format!("{symbol}: the {name} part begins at bar {from}; features begin at bar {first}");
                return Err(mismatch(reason));
            }
            if part.bars() == 0 {
                return Err(mismatch(format!("the {name} part has no bars")));
            }
        }
        for [(before, a), (after, b)] in [[parts[0], parts[1]], [parts[1], parts[2]]] {
            if b.span(dataset).first_ns <= a.span(dataset).last_ns {
                return Err(mismatch(format!("the {after} part must begin after the end of the {before} part")));
            }
        }
        Ok(Preloaded { dataset: dataset.clone(), folds: vec![Fold { index: 0, train, validation, test }] })
    }

    /// The bars and their features.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The folds, in order.
    pub fn folds(&self) -> &[Fold] {
        &self.folds
    }
}

/// Which checkpoint was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The weights with the best validation score so far.
    Best,
    /// Where training stands, to go on from.
    Latest,
    /// Where a fold ended, its test done.
    Last,
}

/// A checkpoint that is on the disk, whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saved<'a> {
    /// Which fold, from 0.
    pub fold: usize,
    /// Optimiser updates so far in the fold.
    pub update: u64,
    /// Environment steps so far in the fold, over all ranks.
    pub step: u64,
    /// Which one it is.
    pub kept: Kept,
    /// The best validation score so far; none before the first validation.
    pub score: Option<f64>,
    /// Its folder.
    pub path: &'a Path,
}

/// Hears of each checkpoint on the rank that wrote it, rank 0 (with `parallel.work = folds` the rank that trains the
/// fold). An error ends training.
pub type OnCheckpoint<'a> = dyn FnMut(&Saved<'_>) -> anyhow::Result<()> + 'a;

/// What training on a fold needs, computed from its train part alone.
pub(super) struct Prepared {
    pub(super) scaler: Scaler,
    pub(super) market: Market,
    took: Duration,
}

impl Prepared {
    fn new(dataset: &Dataset, fold: &Fold, config: &EnvironmentConfig) -> Result<Prepared, DataError> {
        let begun = Instant::now();
        let scaler = Scaler::fit(dataset, &fold.train);
        let market = Market::new(dataset, &fold.train, &scaler, config)?;
        Ok(Prepared { scaler, market, took: begun.elapsed() })
    }
}

/// Prepares each of some folds on a thread of its own while the one before it trains. Which thread does it changes no
/// bit.
pub(super) struct Ahead<'s, 'e, F: Iterator<Item = &'e Fold>> {
    scope: &'s Scope<'s, 'e>,
    dataset: &'e Dataset,
    config: &'e EnvironmentConfig,
    folds: F,
    next: Option<(&'e Fold, ScopedJoinHandle<'s, Result<Prepared, DataError>>)>,
    begun: Instant,
    waited: Duration,
    took: Duration,
}

impl<'s, 'e, F: Iterator<Item = &'e Fold>> Ahead<'s, 'e, F> {
    /// Begins with the first of `folds`.
    pub(super) fn new(
        scope: &'s Scope<'s, 'e>,
        dataset: &'e Dataset,
        config: &'e EnvironmentConfig,
        folds: F,
    ) -> Ahead<'s, 'e, F> {
        let begun = Instant::now();
        let mut ahead =
            Ahead { scope, dataset, config, folds, next: None, begun, waited: Duration::ZERO, took: Duration::ZERO };
        ahead.begin();
        ahead
    }

    fn begin(&mut self) {
        let (dataset, config) = (self.dataset, self.config);
        self.next =
            self.folds.next().map(|fold| (fold, self.scope.spawn(move || Prepared::new(dataset, fold, config))));
    }

    /// The next fold, as soon as it is prepared; the one after it is begun.
    pub(super) fn take(&mut self) -> Option<Result<(&'e Fold, Prepared), DataError>> {
        let Some((fold, preparing)) = self.next.take() else {
            let (took, waited, all) = (self.took, self.waited, self.begun.elapsed());
            let share = 100.0 * waited.as_secs_f64() / all.as_secs_f64().max(1e-9);
            tracing::info!(
                "folds took {took:.1?} to prepare; training waited {waited:.1?} of {all:.1?} for them, {share:.2} %"
            );
            return None;
        };
        let asked = Instant::now();
        let prepared = preparing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.waited += asked.elapsed();
        self.begin();
        self.took += prepared.as_ref().map_or(Duration::ZERO, |prepared| prepared.took);
        Some(prepared.map(|prepared| (fold, prepared)))
    }
}
