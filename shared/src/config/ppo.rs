//! Settings of PPO.

use super::{Refused, require};
use serde::{Deserialize, Serialize};

/// What follows a hidden layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActivationConfig {
    /// The hyperbolic tangent.
    Tanh,
    /// max(0, z).
    Relu,
}

/// `[ppo]`: how the agent learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PpoConfig {
    /// Step size of the optimiser at the start.
    pub learning_rate: f64,
    /// Step size at the end of the steps; in a straight line between them.
    pub learning_rate_end: f64,
    /// Discount for one environment step.
    pub gamma: f64,
    /// How far advantages look ahead: 0 one step, 1 to the end.
    pub lambda: f64,
    /// Steps of each stream between two rounds of updates.
    pub rollout_steps: usize,
    /// Rows of an update, over all workers.
    pub batch_size: usize,
    /// Rows of a shard that are in the network at once; 0 for all.
    pub micro_batch_rows: usize,
    /// How often each row is learned from.
    pub epochs: usize,
    /// How far a probability's ratio may leave 1, at the start.
    pub clip: f64,
    /// The same at the end of the steps; in a straight line between them.
    pub clip_end: f64,
    /// How far a value may move from the one that was predicted; 0 for no limit.
    pub value_clip: f64,
    /// Weight of the values' loss.
    pub value_coefficient: f64,
    /// Weight of the entropy.
    pub entropy_coefficient: f64,
    /// Whether advantages are brought to mean 0 and deviation 1 in each batch.
    pub normalize_advantage: bool,
    /// KL divergence above which a round of updates ends; 0 for none.
    pub target_kl: f64,
    /// Whether observations are brought to mean 0 and deviation 1, by running moments.
    pub normalize_observation: bool,
    /// Whether rewards are divided by the running deviation of discounted returns.
    pub normalize_reward: bool,
    /// Widths of the policy's hidden layers, unless `network.hidden_dim_base` says otherwise.
    pub policy_hidden: Vec<usize>,
    /// Widths of the value's hidden layers, unless `network.hidden_dim_base` says otherwise.
    pub value_hidden: Vec<usize>,
    /// What follows hidden layers.
    pub activation: ActivationConfig,
    /// Logarithm of the deviation of continuous actions at the start.
    pub log_std: f64,
    /// Added to the root of AdamW's second moment, in place of `optimizer.eps`.
    pub eps: f64,
    /// Largest global norm of the averaged gradient, in place of `optimizer.max_grad_norm`; 0 for no clip.
    pub max_grad_norm: f64,
}

impl PpoConfig {
    pub(super) fn check(&self) -> Refused {
        for (key, lr) in [("ppo.learning_rate", self.learning_rate), ("ppo.learning_rate_end", self.learning_rate_end)]
        {
            require((0.0..10.0).contains(&lr), key, lr, "must be from 0 to below 10")?;
        }
        for (key, share) in [("ppo.gamma", self.gamma), ("ppo.lambda", self.lambda)] {
            require((0.0..=1.0).contains(&share), key, share, "must be from 0 to 1")?;
        }
        for (key, n) in [
            ("ppo.rollout_steps", self.rollout_steps),
            ("ppo.batch_size", self.batch_size),
            ("ppo.epochs", self.epochs),
        ] {
            require((1..=1 << 24).contains(&n), key, n, "must be from 1 to 2^24")?;
        }
        for (key, x) in [
            ("ppo.clip", self.clip),
            ("ppo.clip_end", self.clip_end),
            ("ppo.value_clip", self.value_clip),
            ("ppo.value_coefficient", self.value_coefficient),
            ("ppo.entropy_coefficient", self.entropy_coefficient),
            ("ppo.target_kl", self.target_kl),
            ("ppo.max_grad_norm", self.max_grad_norm),
        ] {
            require(x.is_finite() && x >= 0.0, key, x, "must be 0 or more")?;
        }
        require(self.eps > 0.0 && self.eps < 1.0, "ppo.eps", self.eps, "must be above 0 and below 1")?;
        require(self.log_std.abs() <= 20.0, "ppo.log_std", self.log_std, "must be from -20 to 20")?;
        for (key, h) in [("ppo.policy_hidden", &self.policy_hidden), ("ppo.value_hidden", &self.value_hidden)] {
            let sane = h.len() <= 64 && h.iter().all(|w| (1..=65536).contains(w));
            require(sane, key, format!("{h:?}"), "must be at most 64 widths from 1 to 65536")?;
        }
        Ok(())
    }
}
