//! The loop, written once: folds, rhythm, checkpoints, validation, the test at a fold's end.

use super::TrainError;
use super::schedule::due;
use super::session::Session;
use crate::checkpoint::Loaded;
use crate::environments::Action;
use crate::evaluate::Policy;
use crate::world::World;
use foxlaunch_shared::protocol::{Display, Phase};
use foxlaunch_shared::run_dir::RunDir;
use serde::Serialize;
use std::path::PathBuf;

/// How training ended, where it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All folds are done.
    Finished,
    /// It was asked to stop, and left a checkpoint to go on from.
    Stopped,
}

/// How far an algorithm is within a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Optimiser updates.
    pub updates: u64,
    /// Environment steps over all ranks.
    pub steps: u64,
    /// Whether all ranks hold the same weights now: only then is anything logged, saved or evaluated.
    pub synced: bool,
    /// Whether the fold's steps are done.
    pub done: bool,
}

/// What the loop needs of an algorithm. Every rank has one, and all make the same calls in the same order.
pub trait Algorithm {
    /// What it chooses.
    type Action: Action;

    /// Collects a block and learns from it. Whether any rank was asked to stop.
    fn iterate(&mut self, world: &mut World) -> Result<bool, TrainError>;

    /// How far it is.
    fn counters(&self) -> Counters;

    /// Values for the progress line.
    fn shown(&self) -> Vec<(String, f64)>;

    /// Values for a metric record, measured since the last one.
    fn measured(&mut self) -> Vec<(String, f64)>;

    /// The greedy action for each of so many row-major observations.
    fn act(&mut self, observations: &[f32], rows: usize) -> Result<Vec<Self::Action>, TrainError>;

    /// The weights that act, as the bytes of a safetensors file.
    fn weights(&self) -> Result<Vec<u8>, TrainError>;

    /// Acts by weights that [`Algorithm::weights`] gave.
    fn set_weights(&mut self, bytes: &[u8]) -> Result<(), TrainError>;

    /// Everything but those weights that it goes on from, as files by name; the same bytes on every rank.
    fn save(&mut self) -> Result<Vec<(String, Vec<u8>)>, TrainError>;

    /// Goes on from such files.
    fn restore(&mut self, loaded: &Loaded) -> Result<(), TrainError>;
}

/// What tells good weights from bad ones. Only rank 0 asks it.
pub trait Judge {
    /// What policies choose.
    type Action: Action;
    /// The result of a fold, as written into the run's folder.
    type Verdict: Serialize;

    /// The score that the best weights are chosen by: the larger, the better.
    fn validate(&self, policy: &mut Policy<'_, Self::Action>) -> anyhow::Result<f64>;

    /// The result on the part that nothing was chosen by. Asked once, with the best weights.
    fn test(&self, policy: &mut Policy<'_, Self::Action>) -> anyhow::Result<Self::Verdict>;

    /// Adds to the result what the weights as they ended are worth, if that is to be known.
    fn test_last(&self, _: &mut Self::Verdict, _: &mut Policy<'_, Self::Action>) -> anyhow::Result<()> {
        Ok(())
    }

    /// The file of the result of fold `fold` in `run`.
    fn file(&self, run: &RunDir, fold: usize) -> PathBuf;

    /// What one must know besides the weights to act by them, as JSON.
    fn recipe(&self) -> serde_json::Value;
}

/// Trains one fold to its end, or until someone asks to stop.
pub fn train_fold<A: Algorithm, J: Judge<Action = A::Action>>(
    world: &mut World,
    session: &mut Session<'_>,
    fold: usize,
    algorithm: &mut A,
    judge: &J,
) -> Result<Ending, TrainError> {
    session.begin(fold, algorithm)?;
    let rhythm = &session.config().train;
    let mut stop = false;
    let mut at = algorithm.counters().updates;
    let mut shown: Vec<(String, f64)> = Vec::new();
    loop {
        stop |= algorithm.iterate(world).map_err(|e| session.keep_batch(e))?;
        let now = algorithm.counters();
        report(world, session, fold, algorithm, &mut shown);
        if !now.synced {
            continue;
        }
        let mut values = Vec::new();
        if now.done || due(rhythm.log_every, at, now.updates) {
            values = algorithm.measured();
        }
        if now.done || due(rhythm.evaluate_every, at, now.updates) {
            let score = session.validate(world, fold, algorithm, judge)?;
            values.push(("validation".to_owned(), score));
        }
        if !values.is_empty() {
            session.record(fold, now, &values)?;
        }
        if now.done {
            session.finish(world, fold, algorithm, judge)?;
            return Ok(Ending::Finished);
        }
        if stop || due(rhythm.checkpoint_every, at, now.updates) {
            session.checkpoint(world, fold, algorithm, judge, false)?;
        }
        if stop {
            // the others leave only when the checkpoint is there: their ends would end this rank too
            world.collective().barrier()?;
            return Ok(Ending::Stopped);
        }
        at = now.updates;
    }
}

/// Tells the launcher how far it is.
fn report<A: Algorithm>(
    world: &mut World,
    session: &Session<'_>,
    fold: usize,
    algorithm: &A,
    shown: &mut Vec<(String, f64)>,
) {
    let config = session.config();
    let now = algorithm.counters();
    let done = fold as u64 * config.train.steps + now.steps.min(config.train.steps);
    let iterations = done / config.block_steps() as u64;
    let display = world.is_first().then(|| {
        // a value that was just written and begins anew stays on the screen until it has a successor
        for (name, value) in algorithm.shown() {
            match shown.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = value,
                None => shown.push((name, value)),
            }
        }
        let part = session.part(fold).to_owned();
        Display { part, done, total: session.folds() as u64 * config.train.steps, values: shown.clone() }
    });
    world.progress(iterations, Phase::Step, display);
}
