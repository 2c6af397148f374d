//! Settings of training: rhythm, algorithm, optimiser, how workers share the work.

use super::{Refused, require};
use serde::{Deserialize, Serialize};

/// What trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlgorithmConfig {
    /// Deep Q-network.
    Dqn,
    /// Proximal policy optimisation.
    Ppo,
}

impl AlgorithmConfig {
    /// Its name, as in a settings file.
    pub fn name(self) -> &'static str {
        match self {
            AlgorithmConfig::Dqn => "dqn",
            AlgorithmConfig::Ppo => "ppo",
        }
    }
}

/// `[train]`: seed, length, rhythm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// What trains.
    pub algorithm: AlgorithmConfig,
    /// Every random stream is derived from it.
    pub seed: u64,
    /// Seeds to train one after another, or with `parallel.work = "seeds"` side by side, in place of `seed`.
    pub seeds: Vec<u64>,
    /// Environment steps for each fold, over all workers.
    pub steps: u64,
    /// Updates between two metric records.
    pub log_every: u64,
    /// Updates between two evaluations on the validation part.
    pub evaluate_every: u64,
    /// Updates between two checkpoints; 0 for only at the end of each fold.
    pub checkpoint_every: u64,
    /// How many checkpoints stay besides the best.
    pub checkpoint_keep: usize,
}

impl TrainConfig {
    pub(super) fn check(&self) -> Refused {
        // TOML's integers are signed
        require(self.seed <= i64::MAX as u64, "train.seed", self.seed, "must be below 2^63")?;
        let mut seeds = self.seeds.clone();
        seeds.sort_unstable();
        seeds.dedup();
        let sane = seeds.len() == self.seeds.len() && seeds.iter().all(|seed| *seed <= i64::MAX as u64);
        require(sane, "train.seeds", format!("{:?}", self.seeds), "must be different and below 2^63")?;
        require(self.steps > 0, "train.steps", self.steps, "must be at least 1")?;
        require(self.log_every > 0, "train.log_every", self.log_every, "must be at least 1")?;
        require(self.evaluate_every > 0, "train.evaluate_every", self.evaluate_every, "must be at least 1")?;
        // one is the newest, one is there in case the newest was damaged
        require(self.checkpoint_keep >= 2, "train.checkpoint_keep", self.checkpoint_keep, "must be at least 2")
    }
}

/// `[dqn]`: how the agent learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DqnConfig {
    /// Step size of the optimiser.
    pub learning_rate: f64,
    /// Discount for one environment step.
    pub gamma: f64,
    /// Rows of an update, over all workers.
    pub batch_size: usize,
    /// Transitions kept for replay.
    pub buffer_size: usize,
    /// Transitions before the first update.
    pub learning_starts: usize,
    /// Environment steps between two updates, over all workers.
    pub train_every: usize,
    /// Rewards summed before the bootstrap.
    pub n_step: usize,
    /// Whether the online network chooses the action that the target network values (van Hasselt et al. 2016).
    pub double: bool,
    /// Updates between two copies to the target network.
    pub target_every: u64,
    /// Share taken over in each copy.
    pub target_tau: f64,
    /// Share of random actions at the start.
    pub epsilon_start: f64,
    /// Share of random actions after `epsilon_fraction` of the steps.
    pub epsilon_end: f64,
    /// Share of the steps over which it falls, in a straight line.
    pub epsilon_fraction: f64,
}

impl DqnConfig {
    pub(super) fn check(&self) -> Refused {
        let lr = self.learning_rate;
        require(lr > 0.0 && lr < 10.0, "dqn.learning_rate", lr, "must be above 0 and below 10")?;
        require((0.0..=1.0).contains(&self.gamma), "dqn.gamma", self.gamma, "must be from 0 to 1")?;
        require((1..=1 << 24).contains(&self.batch_size), "dqn.batch_size", self.batch_size, "must be from 1 to 2^24")?;
        let n = self.n_step;
        require((1..=64).contains(&n), "dqn.n_step", n, "must be from 1 to 64")?;
        require(self.train_every > 0, "dqn.train_every", self.train_every, "must be at least 1")?;
        require(self.target_every > 0, "dqn.target_every", self.target_every, "must be at least 1")?;
        let tau = self.target_tau;
        require(tau > 0.0 && tau <= 1.0, "dqn.target_tau", tau, "must be above 0, at most 1")?;
        for (key, share) in [
            ("dqn.epsilon_start", self.epsilon_start),
            ("dqn.epsilon_end", self.epsilon_end),
            ("dqn.epsilon_fraction", self.epsilon_fraction),
        ] {
            require((0.0..=1.0).contains(&share), key, share, "must be from 0 to 1")?;
        }
        Ok(())
    }
}

/// `[optimizer]`: AdamW and the clip before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Largest global norm of the averaged gradient; 0 for no clip.
    pub max_grad_norm: f64,
}

impl OptimizerConfig {
    pub(super) fn check(&self) -> Refused {
        for (key, beta) in [("optimizer.beta1", self.beta1), ("optimizer.beta2", self.beta2)] {
            require((0.0..1.0).contains(&beta), key, beta, "must be from 0 to below 1")?;
        }
        require(self.eps > 0.0 && self.eps < 1.0, "optimizer.eps", self.eps, "must be above 0 and below 1")?;
        for (key, x) in [("optimizer.weight_decay", self.weight_decay), ("optimizer.max_grad_norm", self.max_grad_norm)]
        {
            require(x.is_finite() && x >= 0.0, key, x, "must be 0 or more")?;
        }
        Ok(())
    }
}

/// What workers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// The rows of each batch: all workers train one model.
    Data,
    /// Seeds: each worker trains whole models by itself.
    Seeds,
}

/// `[parallel]`: how workers share the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelConfig {
    /// What workers share.
    pub work: Work,
    /// Parts of the global batch whose gradients are added in fixed order; 0 stands for one per worker.
    pub virtual_shards: usize,
    /// 1 for averaged gradients in every update, N for averaged parameters every N updates.
    pub sync_every_n_steps: u64,
}

impl ParallelConfig {
    pub(super) fn check(&self) -> Refused {
        let v = self.virtual_shards;
        require(v <= 4096, "parallel.virtual_shards", v, "must be at most 4096")?;
        let n = self.sync_every_n_steps;
        require(n > 0, "parallel.sync_every_n_steps", n, "must be at least 1")
    }
}
