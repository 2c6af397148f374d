//! Settings of the network.

use super::{PpoConfig, Refused, require};
use serde::{Deserialize, Serialize};

/// `[network]`: widths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// Widths of the hidden layers, from the input on.
    pub hidden: Vec<usize>,
    /// If not 0, stands for `[base, base/2, base/4]`; for PPO, for a policy of `[base, base/2]` and a value of `[2 base, base,
    /// base/2]`.
    pub hidden_dim_base: usize,
}

impl NetworkConfig {
    /// The widths that hold: `hidden`, or those that `hidden_dim_base` stands for.
    pub fn widths(&self) -> Vec<usize> {
        match self.hidden_dim_base {
            0 => self.hidden.clone(),
            base => vec![base, base / 2, base / 4],
        }
    }

    /// The widths of PPO's policy and value that `hidden_dim_base` stands for, or those of `ppo`.
    pub fn actor_critic_widths(&self, ppo: &PpoConfig) -> (Vec<usize>, Vec<usize>) {
        match self.hidden_dim_base {
            0 => (ppo.policy_hidden.clone(), ppo.value_hidden.clone()),
            base => (vec![base, base / 2], vec![2 * base, base, base / 2]),
        }
    }

    pub(super) fn check(&self) -> Refused {
        let base = self.hidden_dim_base;
        require(base == 0 || (4..=65536).contains(&base), "network.hidden_dim_base", base, "must be 0 or 4 to 65536")?;
        let h = &self.hidden;
        let sane = !h.is_empty() && h.len() <= 64 && h.iter().all(|w| (1..=65536).contains(w));
        require(sane, "network.hidden", format!("{h:?}"), "must be 1 to 64 widths from 1 to 65536")
    }
}
