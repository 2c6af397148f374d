//! The algorithm that the settings name, on one part: the only place that knows which algorithms there are.

use super::TrainError;
use super::dqn::Dqn;
use super::judge::MarketJudge;
use super::learner::LearnerSettings;
use super::ppo::{self, Ppo};
use super::run::{Algorithm, Ending, Judge, train_fold};
use super::session::{Session, Task};
use super::side_by_side;
use crate::data::{Dataset, Fold, Scaler, walk_forward};
use crate::environments::Environment;
use crate::environments::market::Market;
use crate::environments::rewarded::{Reward, Rewarded};
use crate::parallel::Shards;
use crate::seed::Streams;
use crate::world::World;
use foxlaunch_shared::config::{AlgorithmConfig, Config, Work};
use foxlaunch_shared::run_dir::RunDir;
use std::sync::Arc;

/// What trains on one part of a run on an `E`.
pub trait Start<E: Environment> {
    /// Trains part `part` of `session` to its end, or until someone asks to stop.
    fn train_part<J: Judge<Action = E::Action>>(
        &self,
        world: &mut World,
        session: &mut Session<'_>,
        part: usize,
        env: &E,
        judge: &J,
        draws: Streams,
    ) -> Result<Ending, TrainError>;
}

/// Algorithms for choices: all.
#[derive(Clone, Copy, Debug)]
pub struct Discrete;

/// Algorithms for numbers: PPO.
#[derive(Clone, Copy, Debug)]
pub struct Continuous;

impl<E: Environment<Action = usize>> Start<E> for Discrete {
    fn train_part<J: Judge<Action = usize>>(
        &self,
        world: &mut World,
        session: &mut Session<'_>,
        part: usize,
        env: &E,
        judge: &J,
        draws: Streams,
    ) -> Result<Ending, TrainError> {
        let (config, shards) = (session.config(), session.shards());
        match config.train.algorithm {
            AlgorithmConfig::Dqn => {
                let mut dqn = Dqn::new(env, config, part as u32, draws, shards, world)?;
                train_fold(world, session, part, &mut dqn, judge)
            }
            AlgorithmConfig::Ppo => {
                let mut ppo = Ppo::new(env, config, part as u32, draws, shards, world)?;
                train_fold(world, session, part, &mut ppo, judge)
            }
        }
    }
}

impl<E: Environment<Action = [f32; N]>, const N: usize> Start<E> for Continuous {
    fn train_part<J: Judge<Action = [f32; N]>>(
        &self,
        world: &mut World,
        session: &mut Session<'_>,
        part: usize,
        env: &E,
        judge: &J,
        draws: Streams,
    ) -> Result<Ending, TrainError> {
        let (config, shards) = (session.config(), session.shards());
        match config.train.algorithm {
            AlgorithmConfig::Dqn => Err(TrainError::Settings(wants_choices(config))),
            AlgorithmConfig::Ppo => {
                let mut ppo = Ppo::new(env, config, part as u32, draws, shards, world)?;
                train_fold(world, session, part, &mut ppo, judge)
            }
        }
    }
}

/// Why DQN cannot be had.
pub fn wants_choices(config: &Config) -> String {
    let name = &config.environment.name;
    format!("the actions of {name} are numbers, and dqn chooses among a few: train it with ppo")
}

/// How many parameters the network of `config` has, for observations of `observation` values and `outputs` actions, or
/// numbers of an action.
pub fn parameters(config: &Config, observation: usize, outputs: usize, continuous: bool) -> usize {
    match config.train.algorithm {
        AlgorithmConfig::Dqn => LearnerSettings::new(config, observation, outputs).network.network().total(),
        AlgorithmConfig::Ppo => ppo::settings(config, observation, outputs, continuous).network().total(),
    }
}

/// The algorithm of `config` for choices in `env`, fresh: to act by weights that are put into it.
pub fn fresh<'a, E: Environment<Action = usize>>(
    env: &'a E,
    config: &'a Config,
    draws: Streams,
    shards: Shards,
    world: &mut World,
) -> Result<Box<dyn Algorithm<Action = usize> + 'a>, TrainError> {
    Ok(match config.train.algorithm {
        AlgorithmConfig::Dqn => Box::new(Dqn::new(env, config, 0, draws, shards, world)?),
        AlgorithmConfig::Ppo => Box::new(Ppo::new(env, config, 0, draws, shards, world)?),
    })
}

/// Trains every fold of `dataset` as `config` says, into the folder `run`; with `resume` from its newest checkpoint.
/// The data are loaded once, by the caller, and shared by all folds.
pub fn train_with_preloaded_data(
    world: &mut World,
    config: &Config,
    dataset: &Dataset,
    run: &RunDir,
    resume: bool,
) -> Result<Ending, TrainError> {
    train_on_market(world, config, dataset, run, resume, None)
}

/// As [`train_with_preloaded_data`], with `reward` in place of the market's own while training.
pub fn train_on_market(
    world: &mut World,
    config: &Config,
    dataset: &Dataset,
    run: &RunDir,
    resume: bool,
    reward: Option<&Arc<Reward<Market>>>,
) -> Result<Ending, TrainError> {
    let folds = walk_forward(dataset, &config.folds)?;
    if config.parallel.work == Work::Folds {
        return side_by_side::train(world, config, dataset, &folds, run, resume, reward);
    }
    let mut session = Session::open(world, config, market_task(dataset, folds.len()), run, resume)?;
    train_folds(world, &mut session, dataset, &folds, reward)
}

/// Trains those of `folds` that are not done, one after another.
pub(super) fn train_folds(
    world: &mut World,
    session: &mut Session<'_>,
    dataset: &Dataset,
    folds: &[Fold],
    reward: Option<&Arc<Reward<Market>>>,
) -> Result<Ending, TrainError> {
    let config = session.config();
    for fold in folds {
        if session.has_done(fold.index) {
            continue;
        }
        let scaler = Scaler::fit(dataset, &fold.train);
        let market = Market::new(dataset, &fold.train, &scaler, &config.environment)?;
        let draws = Streams::new(config.train.seed).part(fold.index as u64);
        let judge = MarketJudge::new(dataset, fold, &scaler, config, draws.clone())?;
        let ending = match reward {
            None => Discrete.train_part(world, session, fold.index, &market, &judge, draws)?,
            Some(reward) => {
                let market = Rewarded::new(market, Arc::clone(reward));
                Discrete.train_part(world, session, fold.index, &market, &judge, draws)?
            }
        };
        if ending == Ending::Stopped {
            return Ok(Ending::Stopped);
        }
    }
    Ok(Ending::Finished)
}

/// The task of `folds` folds of `dataset`.
pub fn market_task(dataset: &Dataset, folds: usize) -> Task {
    Task {
        source: dataset.source.clone(),
        digest: dataset.content_digest().to_owned(),
        parts: (1..=folds).map(|fold| format!("fold {fold}/{folds}")).collect(),
    }
}
