//! A policy as a run left it: the best weights of a fold, and what one must know besides to act by them.

use super::TrainError;
use super::run::Algorithm;
use super::start::fresh;
use crate::checkpoint::{self, CheckpointError, Name};
use crate::collectives::Solo;
use crate::data::{DataError, Dataset, Instrument, Part, Scaler};
use crate::environments::Environment;
use crate::environments::market::Market;
use crate::evaluate::BATCH_ROWS;
use crate::parallel::Shards;
use crate::seed::Streams;
use crate::world::World;
use foxlaunch_shared::config::{AlgorithmConfig, Config, DqnConfig, NetworkConfig, PpoConfig};
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::run_dir::RunDir;
use serde::Deserialize;

/// `policy.json`, as far as it is needed here.
#[derive(Debug, Deserialize)]
struct Recipe {
    feature_digest: String,
    scaler: Scaler,
    positions: Vec<f64>,
    algorithm: AlgorithmConfig,
    network: NetworkConfig,
    dqn: DqnConfig,
    ppo: PpoConfig,
}

/// A trained policy.
pub struct Trained {
    fold: usize,
    config: Config,
    recipe: Recipe,
    weights: Vec<u8>,
}

impl Trained {
    /// The best of `fold` (from 0) of the run in `run`, or of its last fold; `config` are the run's own settings.
    pub fn open(run: &RunDir, config: &Config, fold: Option<usize>) -> Result<Trained, TrainError> {
        let root = run.checkpoints();
        let place = |fold: usize| u32::try_from(fold).ok().map(|fold| root.join(Name::Best { fold }.to_string()));
        let there = |fold: &usize| place(*fold).is_some_and(|place| place.is_dir());
        let fold = match fold {
            Some(fold) => Some(fold).filter(there),
            None => (0..config.folds.count).rev().find(there),
        };
        let Some((fold, place)) = fold.and_then(|fold| Some((fold, place(fold)?))) else {
            let reasons = vec!["no fold that is asked for has a best one".to_owned()];
            return Err(CheckpointError::NoneUsable { root, reasons }.into());
        };
        let loaded = checkpoint::read(&place)?;
        let recipe: Recipe = serde_json::from_slice(loaded.file(super::session::RECIPE)?)
            .map_err(|e| CheckpointError::damaged(&place, format!("{}: {e}", super::session::RECIPE)))?;
        let weights = loaded.file(checkpoint::MODEL)?.to_vec();
        // what the weights are is the checkpoint's to say, whatever the settings say now
        let mut config = config.clone();
        config.train.algorithm = recipe.algorithm;
        config.network.clone_from(&recipe.network);
        config.dqn.clone_from(&recipe.dqn);
        config.ppo.clone_from(&recipe.ppo);
        Ok(Trained { fold, config, recipe, weights })
    }

    /// Which fold it was trained in, from 0.
    pub fn fold(&self) -> usize {
        self.fold
    }

    /// All usable bars of `dataset` as a market for this policy. Data with other features than it learned from are
    /// refused.
    pub fn market(&self, dataset: &Dataset) -> Result<Market, TrainError> {
        if dataset.feature_digest() != self.recipe.feature_digest {
            let reason = "the features are not those that this policy learned from; give it the columns of its run's \
                          features.columns, and a build with the same set of features";
            return Err(DataError::Mismatch { origin: dataset.source.clone(), reason: reason.to_owned() }.into());
        }
        let short = |i: &Instrument| (i.bars.len() < i.first_usable + 2).then(|| i.bars.len());
        if let Some(longest) = dataset.instruments().iter().map(short).collect::<Option<Vec<_>>>() {
            let longest = longest.into_iter().max().unwrap_or(0);
            let (before, least) = (dataset.warm_up(), dataset.warm_up() + 2);
            let reason =
                format!("{longest} bars are too few: features look back over {before}; give it {least} or more");
            return Err(DataError::TooShort { origin: dataset.source.clone(), reason }.into());
        }
        let mut environment = self.config.environment.clone();
        environment.positions.clone_from(&self.recipe.positions);
        Ok(Market::new(dataset, &Part::whole(dataset), &self.recipe.scaler, &environment)?)
    }

    /// The algorithm with the weights of this policy, to act in `market`.
    pub fn policy<'a>(&'a self, market: &'a Market) -> Result<Box<dyn Algorithm<Action = usize> + 'a>, TrainError> {
        let mut world = World::with_collective(Box::new(Solo::new()));
        let shards = Shards::new(1, WorldSize(1), Rank(0))?;
        let mut policy = fresh(market, &self.config, Streams::new(self.config.train.seed), shards, &mut world)?;
        policy.set_weights(&self.weights)?;
        Ok(policy)
    }

    /// The position that it holds after each usable bar of each instrument, as a share of equity, when it begins flat:
    /// also after the last bar, whose decision is yet to be filled.
    pub fn positions(&self, market: &Market) -> Result<Vec<Vec<f64>>, TrainError> {
        let mut policy = self.policy(market)?;
        let (width, held) = (market.observation_len(), market.actions());
        let mut all = Vec::with_capacity(market.part().ranges.len());
        for (instrument, range) in market.part().ranges.iter().enumerate() {
            let mut actions = Vec::with_capacity(range.len() * held);
            let mut batch = vec![0.0f32; BATCH_ROWS * width];
            let asked: Vec<(usize, u8)> =
                range.clone().flat_map(|bar| (0..held as u8).map(move |p| (bar, p))).collect();
            for rows in asked.chunks(BATCH_ROWS) {
                batch.fill(0.0);
                for ((bar, position), out) in rows.iter().zip(batch.chunks_exact_mut(width)) {
                    market.observe(&market.at(instrument, *bar, *position), out);
                }
                actions.extend(policy.act(&batch, BATCH_ROWS)?.into_iter().take(rows.len()));
            }
            let mut position = usize::from(market.flat());
            let step = |actions: &[usize]| {
                position = actions[position];
                market.positions()[position]
            };
            all.push(actions.chunks_exact(held).map(step).collect());
        }
        Ok(all)
    }
}
