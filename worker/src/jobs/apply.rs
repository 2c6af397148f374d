//! What a finished run's policy does on other data: `evaluate` and `predict`.

use super::{JobError, read_config};
use crate::data::{self, Fold, Part, moment};
use crate::evaluate::fold_result;
use crate::seed::Streams;
use crate::trainers::TrainError;
use crate::trainers::trained::Trained;
use foxlaunch_shared::evaluation::FoldResult;
use foxlaunch_shared::run_dir::RunDir;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What the policy of `fold` of the run in `run`, or of its last fold, is worth on all data that the settings in
/// `config` name. In the result, the parts for training and validation are empty.
pub(super) fn evaluate(config: &Path, run: PathBuf, fold: Option<usize>) -> Result<FoldResult, JobError> {
    let config = read_config(config)?;
    let dataset = data::load(&config)?;
    let trained = Trained::open(&RunDir::new(run), &config, fold)?;
    let market = trained.market(&dataset)?;
    let nothing = || Part { ranges: dataset.instruments().iter().map(|_| 0..0).collect() };
    let index = trained.fold();
    let fold = Fold { index, train: nothing(), validation: nothing(), test: market.part().clone() };
    let streams = Streams::new(config.train.seed).part(index as u64);
    let mut algorithm = trained.policy(&market)?;
    let mut policy = |observations: &[f32], rows: usize| Ok(algorithm.act(observations, rows)?);
    Ok(fold_result(&market, &fold, &streams, &mut policy).map_err(TrainError::Evaluation)?)
}

/// A table (CSV) of the position that each instrument is to be held in from the bar after each bar on: the mean over the
/// last folds' policies of `runs`, whose settings, with the data to predict on, are in `configs`.
pub(super) fn predict(configs: &[PathBuf], runs: &[PathBuf]) -> Result<String, JobError> {
    if configs.len() != runs.len() {
        let words = format!("{} settings for {} runs", configs.len(), runs.len());
        return Err(JobError::Unknown(words));
    }
    // by time, then instrument: the sum of positions, and of how many policies
    let mut table: BTreeMap<(i64, String), (f64, usize)> = BTreeMap::new();
    for (config, run) in configs.iter().zip(runs) {
        let config = read_config(config)?;
        let dataset = data::load(&config)?;
        let trained = Trained::open(&RunDir::new(run), &config, None)?;
        let market = trained.market(&dataset)?;
        let positions = trained.positions(&market)?;
        for ((instrument, range), positions) in dataset.instruments().iter().zip(&market.part().ranges).zip(positions) {
            for (bar, position) in range.clone().zip(positions) {
                let key = (instrument.bars.start_ns[bar], instrument.bars.symbol.clone());
                let (sum, policies) = table.entry(key).or_default();
                *sum += position;
                *policies += 1;
            }
        }
    }
    let mut text = "time,instrument,position\n".to_owned();
    for ((ns, symbol), (sum, policies)) in table {
        // a policy whose features need more past has nothing to say yet: the others do not speak for it
        if policies == runs.len() {
            let symbol =
                if symbol.contains([',', '"', '\n']) { format!("\"{}\"", symbol.replace('"', "\"\"")) } else { symbol };
            let _ = writeln!(text, "{},{symbol},{}", moment(ns), sum / policies as f64);
        }
    }
    Ok(text)
}
