//! The algorithm that the settings name, on one part: the only place that knows which algorithms there are.

use super::TrainError;
use super::dqn::Dqn;
use super::judge::MarketJudge;
use super::learner::LearnerSettings;
use super::ppo::{self, Ppo};
use super::preloaded::{Ahead, OnCheckpoint, Preloaded, Prepared};
use super::run::{Algorithm, Ending, Judge, train_fold};
use super::session::{Session, Task};
use super::side_by_side;
use crate::data::{Dataset, Fold};
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

/// Trains every fold of `data` as `config` says, into the folder `run`; with `resume` from its newest checkpoint.
///
/// The data are loaded once, by the caller, and shared by all folds, and by all trainings that are given them. While a
/// fold trains, the next one is prepared. `on_checkpoint` hears of each checkpoint, on the rank that wrote it.
///
/// ```no_run
/// use foxlaunch_shared::{config::Config, run_dir::RunDir};
/// use foxlaunch_worker::data::Dataset;
/// use foxlaunch_worker::trainers::{Preloaded, train_with_preloaded_data};
/// use foxlaunch_worker::world::World;
///
/// # fn rows() -> Vec<(i64, [f32; 2], [f64; 4])> { Vec::new() }
/// let config = Config::default();
/// // of each bar its start, its features, and the prices that are traded at: open, high, low, close
/// let dataset = Dataset::from_rows("ES", &["momentum", "carry"], rows())?;
/// let data = Preloaded::walk_forward(&dataset, &config.folds)?;
/// let mut world = World::join()?;
/// train_with_preloaded_data(&mut world, &config, &data, &RunDir::new("runs/mine"), false, &mut |saved| {
///     println!("fold {}, update {}: {:?} in {}", saved.fold, saved.update, saved.kept, saved.path.display());
///     Ok(())
/// })?;
/// world.leave();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn train_with_preloaded_data(
    world: &mut World,
    config: &Config,
    data: &Preloaded,
    run: &RunDir,
    resume: bool,
    on_checkpoint: &mut OnCheckpoint<'_>,
) -> Result<Ending, TrainError> {
    train_preloaded(world, config, data, run, resume, None, on_checkpoint)
}

/// Trains every fold of `dataset` that `config` asks for, with `reward` in place of the market's own while training.
pub fn train_on_market(
    world: &mut World,
    config: &Config,
    dataset: &Dataset,
    run: &RunDir,
    resume: bool,
    reward: Option<&Arc<Reward<Market>>>,
) -> Result<Ending, TrainError> {
    let data = Preloaded::walk_forward(dataset, &config.folds)?;
    train_preloaded(world, config, &data, run, resume, reward, &mut |_| Ok(()))
}

fn train_preloaded(
    world: &mut World,
    config: &Config,
    data: &Preloaded,
    run: &RunDir,
    resume: bool,
    reward: Option<&Arc<Reward<Market>>>,
    on_checkpoint: &mut OnCheckpoint<'_>,
) -> Result<Ending, TrainError> {
    if config.parallel.work == Work::Folds {
        return side_by_side::train(world, config, data, run, resume, reward, on_checkpoint);
    }
    let task = market_task(data.dataset(), data.folds().len());
    let mut session = Session::open(world, config, task, run, resume)?.heard_by(on_checkpoint);
    train_folds(world, &mut session, data.dataset(), data.folds(), reward)
}

/// Trains those of `folds` that are not done, one after another.
fn train_folds(
    world: &mut World,
    session: &mut Session<'_>,
    dataset: &Dataset,
    folds: &[Fold],
    reward: Option<&Arc<Reward<Market>>>,
) -> Result<Ending, TrainError> {
    let config = session.config();
    let left: Vec<&Fold> = folds.iter().filter(|fold| !session.has_done(fold.index)).collect();
    std::thread::scope(|scope| {
        let mut ahead = Ahead::new(scope, dataset, &config.environment, left.into_iter());
        while let Some(prepared) = ahead.take() {
            let (fold, prepared) = prepared?;
            if train_one(world, session, dataset, fold, prepared, reward)? == Ending::Stopped {
                return Ok(Ending::Stopped);
            }
        }
        Ok(Ending::Finished)
    })
}

/// Trains `fold` of `dataset` to its end, or until someone asks to stop.
pub(super) fn train_one(
    world: &mut World,
    session: &mut Session<'_>,
    dataset: &Dataset,
    fold: &Fold,
    Prepared { scaler, market, .. }: Prepared,
    reward: Option<&Arc<Reward<Market>>>,
) -> Result<Ending, TrainError> {
    let config = session.config();
    let draws = Streams::new(config.train.seed).part(fold.index as u64);
    let judge = MarketJudge::new(dataset, fold, &scaler, config, draws.clone())?;
    match reward {
        None => Discrete.train_part(world, session, fold.index, &market, &judge, draws),
        Some(reward) => {
            let market = Rewarded::new(market, Arc::clone(reward));
            Discrete.train_part(world, session, fold.index, &market, &judge, draws)
        }
    }
}

/// The task of `folds` folds of `dataset`.
pub fn market_task(dataset: &Dataset, folds: usize) -> Task {
    Task {
        source: dataset.source.clone(),
        digest: dataset.content_digest().to_owned(),
        parts: (1..=folds).map(|fold| format!("fold {fold}/{folds}")).collect(),
    }
}
