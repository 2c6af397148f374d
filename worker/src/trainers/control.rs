//! Control tasks: one part, no bars, judged by greedy episodes.

use super::TrainError;
use super::run::Judge;
use super::session::{Session, Task};
use super::start::Start;
use crate::environments::Environment;
use crate::evaluate::{Policy, greedy_episodes, returns_of};
use crate::seed::Streams;
use crate::trainers::Ending;
use crate::world::World;
use foxlaunch_shared::config::Config;
use foxlaunch_shared::evaluation::ControlResult;
use foxlaunch_shared::run_dir::RunDir;
use serde_json::json;
use std::path::PathBuf;

/// Scores weights by the mean return of greedy episodes. Those of validation and test begin in different states.
pub struct ControlJudge<'a, E> {
    env: &'a E,
    config: &'a Config,
    draws: Streams,
}

impl<'a, E: Environment> ControlJudge<'a, E> {
    /// The judge of `env`.
    pub fn new(env: &'a E, config: &'a Config, draws: Streams) -> ControlJudge<'a, E> {
        ControlJudge { env, config, draws }
    }

    fn episodes(&self, policy: &mut Policy<'_, E::Action>, purpose: &str) -> anyhow::Result<Vec<(f64, u64)>> {
        greedy_episodes(self.env, policy, self.config.environment.evaluation_episodes, &self.draws, purpose)
    }
}

impl<E: Environment> Judge for ControlJudge<'_, E> {
    type Action = E::Action;
    type Verdict = ControlResult;

    fn validate(&self, policy: &mut Policy<'_, E::Action>) -> anyhow::Result<f64> {
        Ok(returns_of(&self.episodes(policy, "validate")?).mean)
    }

    fn test(&self, policy: &mut Policy<'_, E::Action>) -> anyhow::Result<ControlResult> {
        Ok(ControlResult {
            environment: self.config.environment.name.clone(),
            algorithm: self.config.train.algorithm.name().to_owned(),
            seed: self.config.train.seed,
            steps: self.config.train.steps,
            best: returns_of(&self.episodes(policy, "test")?),
            last: None,
        })
    }

    fn test_last(&self, verdict: &mut ControlResult, policy: &mut Policy<'_, E::Action>) -> anyhow::Result<()> {
        verdict.last = Some(returns_of(&self.episodes(policy, "test")?));
        Ok(())
    }

    fn file(&self, run: &RunDir, _: usize) -> PathBuf {
        run.control()
    }

    fn recipe(&self) -> serde_json::Value {
        json!({
            "environment": self.config.environment,
            "observation": self.env.observation_len(),
            "algorithm": self.config.train.algorithm,
            "network": self.config.network,
            "dqn": self.config.dqn,
            "ppo": self.config.ppo,
        })
    }
}

/// Trains on `env` as `config` says, into the folder `run`; with `resume` from its newest checkpoint. What can be trained is
/// what `start` starts.
pub fn train_control<E: Environment>(
    world: &mut World,
    config: &Config,
    env: &E,
    run: &RunDir,
    resume: bool,
    start: impl Start<E>,
) -> Result<Ending, TrainError> {
    let name = &config.environment.name;
    let task = Task {
        source: name.clone(),
        digest: format!("environment {name}"),
        parts: vec![format!("seed {}", config.train.seed)],
    };
    let mut session = Session::open(world, config, task, run, resume)?;
    if session.has_done(0) {
        return Ok(Ending::Finished);
    }
    let draws = Streams::new(config.train.seed);
    let judge = ControlJudge::new(env, config, draws.clone());
    start.train_part(world, &mut session, 0, env, &judge, draws)
}
