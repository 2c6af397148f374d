//! What this worker can train on, by name: what is built in, and what a third party adds in a worker of its own.

use super::JobError;
use crate::environments::acrobot::Acrobot;
use crate::environments::cart_pole::CartPole;
use crate::environments::market::{Market, MarketState};
use crate::environments::mountain_car::{MountainCar, MountainCarContinuous};
use crate::environments::pendulum::Pendulum;
use crate::environments::rewarded::Reward;
use crate::environments::{Action, Environment, Step};
use crate::replay::Transition;
use crate::trainers::start::{Continuous, Discrete, Start, parameters, wants_choices};
use crate::trainers::{Ending, train_control};
use crate::world::World;
use foxlaunch_shared::answers::WorkerPlan;
use foxlaunch_shared::config::{AlgorithmConfig, Config, Work, nearest};
use foxlaunch_shared::run_dir::RunDir;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// The name of the environment that trades bars.
pub(super) const MARKET: &str = "market";

/// Environments and rewards by name.
///
/// ```no_run
/// use foxlaunch_worker::environments::cart_pole::CartPole;
/// use foxlaunch_worker::jobs::{Registry, main_with};
///
/// fn main() -> std::process::ExitCode {
///     let short = |_: &_| Ok(CartPole { time_limit: 50 });
///     main_with(Registry::built_in().environment("short-cartpole", short))
/// }
/// ```
pub struct Registry {
    tasks: BTreeMap<String, Arc<dyn Task>>,
    rewards: BTreeMap<String, Arc<Reward<Market>>>,
}

impl Registry {
    /// What every worker has.
    pub fn built_in() -> Registry {
        Registry { tasks: BTreeMap::new(), rewards: BTreeMap::new() }
            .environment("cartpole", |_| Ok(CartPole::default()))
            .environment("acrobot", |_| Ok(Acrobot::default()))
            .environment("mountaincar", |_| Ok(MountainCar::default()))
            .continuous("mountaincar-continuous", |_| Ok(MountainCarContinuous::default()))
            .continuous("pendulum", |_| Ok(Pendulum::default()))
    }

    /// Adds an environment in which one of some actions is chosen. `make` makes it from the settings, in the same way on
    /// every rank. A name that is there already then means this one.
    pub fn environment<E: Environment<Action = usize> + 'static>(
        self,
        name: &str,
        make: impl Fn(&Config) -> anyhow::Result<E> + Send + Sync + 'static,
    ) -> Registry {
        self.add(name, Made { make, start: Discrete, of: PhantomData })
    }

    /// As [`Registry::environment`], where actions are numbers.
    pub fn continuous<E: Environment<Action = [f32; N]> + 'static, const N: usize>(
        self,
        name: &str,
        make: impl Fn(&Config) -> anyhow::Result<E> + Send + Sync + 'static,
    ) -> Registry {
        self.add(name, Made { make, start: Continuous, of: PhantomData })
    }

    /// Adds a reward for the market, which `environment.reward` names: from the market, the state before the step, the
    /// action and what came of it to what is learned from. What a policy is worth is still measured in money.
    pub fn reward(
        mut self,
        name: &str,
        reward: impl Fn(&Market, &MarketState, usize, &Step<MarketState>) -> f64 + Send + Sync + 'static,
    ) -> Registry {
        let reward: Arc<Reward<Market>> =
            Arc::new(move |market, state, action, step| reward(market, state, action, step));
        self.rewards.insert(name.to_owned(), reward);
        self
    }

    fn add(mut self, name: &str, task: impl Task + 'static) -> Registry {
        self.tasks.insert(name.to_owned(), Arc::new(task));
        self
    }

    /// The task that `config` names; none for the market.
    pub(super) fn task(&self, config: &Config) -> Result<Option<&dyn Task>, JobError> {
        let name = &config.environment.name;
        if let Some(task) = self.tasks.get(name) {
            if !config.environment.reward.is_empty() {
                let reward = &config.environment.reward;
                let reason =
                    "rewards are registered for the market; register this environment with another one instead";
                return Err(JobError::Unknown(format!("environment.reward = {reward:?}: {reason}")));
            }
            if config.parallel.work == Work::Folds {
                let reason = format!("{name} has no folds; share data, or seeds with --seeds 0..9");
                return Err(JobError::Unknown(format!("parallel.work = \"folds\": {reason}")));
            }
            return Ok(Some(task.as_ref()));
        }
        if name == MARKET {
            return Ok(None);
        }
        let known = self.tasks.keys().map(String::as_str).chain([MARKET]);
        Err(unknown("environment.name", name, known))
    }

    /// The market's reward that `config` names; none for its own.
    pub(super) fn market_reward(&self, config: &Config) -> Result<Option<&Arc<Reward<Market>>>, JobError> {
        let name = &config.environment.reward;
        match self.rewards.get(name) {
            None if name.is_empty() => Ok(None),
            None => Err(unknown("environment.reward", name, self.rewards.keys().map(String::as_str))),
            found => Ok(found),
        }
    }
}

fn unknown<'a>(key: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> JobError {
    let meant = nearest(name, known.clone()).map(|n| format!("; did you mean {n:?}?")).unwrap_or_default();
    let all = known.collect::<Vec<_>>().join(", ");
    let has = if all.is_empty() { "has none".to_owned() } else { format!("has {all}") };
    JobError::Unknown(format!("{key} = {name:?}: this worker {has}{meant}"))
}

/// What can be trained on without bars.
pub(super) trait Task: Send + Sync {
    /// What training would be.
    fn plan(&self, config: &Config) -> Result<WorkerPlan, JobError>;

    /// Trains.
    fn train(&self, world: &mut World, config: &Config, run: &RunDir, resume: bool) -> Result<Ending, JobError>;
}

/// An environment that `make` makes and `start` trains on.
struct Made<E, F, S> {
    make: F,
    start: S,
    of: PhantomData<fn() -> E>,
}

impl<E, F, S> Made<E, F, S>
where
    E: Environment,
    F: Fn(&Config) -> anyhow::Result<E>,
{
    fn environment(&self, config: &Config) -> Result<E, JobError> {
        if E::Action::CONTINUOUS && config.train.algorithm == AlgorithmConfig::Dqn {
            return Err(JobError::Unknown(wants_choices(config)));
        }
        (self.make)(config).map_err(|e| JobError::Unknown(format!("environment {}: {e:#}", config.environment.name)))
    }
}

impl<E, F, S> Task for Made<E, F, S>
where
    E: Environment,
    F: Fn(&Config) -> anyhow::Result<E> + Send + Sync,
    S: Start<E> + Copy + Send + Sync,
{
    fn plan(&self, config: &Config) -> Result<WorkerPlan, JobError> {
        let env = self.environment(config)?;
        let (observation, actions) = (env.observation_len(), E::Action::outputs(&env.actions()));
        Ok(WorkerPlan {
            source: config.environment.name.clone(),
            instruments: Vec::new(),
            interval_ns: 0,
            folds: Vec::new(),
            observation,
            actions,
            parameters: parameters(config, observation, actions, E::Action::CONTINUOUS),
            replay_bytes: memory_bytes::<E>(config, observation),
            warnings: super::warnings::unlearned(config),
            problems: Default::default(),
        })
    }

    fn train(&self, world: &mut World, config: &Config, run: &RunDir, resume: bool) -> Result<Ending, JobError> {
        let env = self.environment(config)?;
        Ok(train_control(world, config, &env, run, resume, self.start)?)
    }
}

/// Bytes of what is learned from, in each worker.
pub(super) fn memory_bytes<E: Environment>(config: &Config, observation: usize) -> u64 {
    let bytes = match config.train.algorithm {
        AlgorithmConfig::Dqn => config.dqn.buffer_size * size_of::<Transition<E::State>>(),
        // besides observation and action: three numbers of 4 bytes, a reward of 8, two marks
        AlgorithmConfig::Ppo => config.block_steps() * (4 * (observation + E::Action::WIDTH + 3) + 8 + 2),
    };
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::super::{plan, tests::config};
    use super::*;
    use foxlaunch_shared::exit;

    fn planned(registry: &Registry, env: &str, algorithm: &str) -> Result<WorkerPlan, JobError> {
        plan(registry, &config(&[&format!("environment.name={env}"), &format!("train.algorithm={algorithm}")]))
    }

    #[test]
    fn every_control_task_is_there_for_the_algorithms_that_fit() {
        let registry = Registry::built_in();
        for (env, observation, actions) in [
            ("cartpole", 4, 2),
            ("acrobot", 6, 3),
            ("mountaincar", 2, 3),
            ("mountaincar-continuous", 2, 1),
            ("pendulum", 3, 1),
        ] {
            let plan = planned(&registry, env, "ppo").unwrap();
            assert_eq!((plan.source.as_str(), plan.observation, plan.actions), (env, observation, actions));
            assert!(plan.parameters > 1000 && plan.replay_bytes > 0);
            let dqn = planned(&registry, env, "dqn");
            assert_eq!(dqn.is_ok(), !["mountaincar-continuous", "pendulum"].contains(&env));
            if let Err(e) = dqn {
                assert_eq!(e.exit_code(), exit::CONFIG);
                assert!(e.to_string().contains("train it with ppo"), "{e}");
            }
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest() {
        let registry = Registry::built_in().reward("drawdown", |_, _, _, step| step.reward);
        let error = planned(&registry, "cartpol", "ppo").unwrap_err();
        assert_eq!(error.exit_code(), exit::CONFIG);
        assert!(error.to_string().contains("did you mean \"cartpole\"?"), "{error}");
        for word in ["acrobot", "market", "pendulum"] {
            assert!(error.to_string().contains(word), "{error}");
        }
        let reward = |name: &str, env: &str| {
            plan(&registry, &config(&[&format!("environment.reward={name}"), &format!("environment.name={env}")]))
        };
        assert!(reward("drawdown", "market").is_ok());
        let folds = plan(&registry, &config(&["environment.name=cartpole", "parallel.work=folds"])).unwrap_err();
        assert!(folds.to_string().contains("cartpole has no folds"), "{folds}");
        assert!(reward("drawdwn", "market").unwrap_err().to_string().contains("did you mean \"drawdown\"?"));
        assert!(reward("drawdown", "cartpole").unwrap_err().to_string().contains("registered for the market"));
    }

    #[test]
    fn what_a_maker_refuses_is_a_setting_s_fault() {
        let make: fn(&Config) -> anyhow::Result<CartPole> = |_| anyhow::bail!("it wants more streams");
        let registry = Registry::built_in().environment("mine", make);
        let error = planned(&registry, "mine", "dqn").unwrap_err();
        assert_eq!(
            (error.exit_code(), error.to_string().as_str()),
            (exit::CONFIG, "environment mine: it wants more streams")
        );
    }
}
