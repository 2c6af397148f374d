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
    /// Updates on a GPU that may pass before what they said is read: losses, norms, errors. A metric record reads too.
    pub read_every: u64,
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
        let some = (1..=100_000).contains(&self.read_every);
        require(some, "train.read_every", self.read_every, "must be from 1 to 100000")?;
        require(self.evaluate_every > 0, "train.evaluate_every", self.evaluate_every, "must be at least 1")?;
        // one is the newest, one is there in case the newest was damaged
        require(self.checkpoint_keep >= 2, "train.checkpoint_keep", self.checkpoint_keep, "must be at least 2")
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
    /// Folds: each worker trains whole ones by itself, with the numbers of one after the other.
    Folds,
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
