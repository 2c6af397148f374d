//! Every setting, its default, its limits and where its value came from.
//!
//! Values come in layers, each over the one before: the commented [`DEFAULT`], the environment, a
//! `--hyperopt` file, a `--config` file, `--smoke`, `--set`, flags. A key that `DEFAULT` lacks is refused
//! with the nearest one it has; a value must have the default's type.

mod cleaning;
mod data;
mod dqn;
mod hyperopt;
mod layers;
mod network;
mod ppo;
mod trainer;

pub use cleaning::{CleaningConfig, Policy, Problem};
pub use data::{DataConfig, EnvironmentConfig, FeaturesConfig, FoldsConfig};
pub use dqn::{DqnConfig, HeadConfig, PRESETS, Preset};
pub use hyperopt::hyperopt_layer;
pub use layers::{Layer, Layers, nearest};
pub use network::NetworkConfig;
pub use ppo::{ActivationConfig, PpoConfig};
pub use trainer::{AlgorithmConfig, OptimizerConfig, ParallelConfig, TrainConfig, Work};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Every setting with its default and a comment, as TOML.
pub const DEFAULT: &str = include_str!("default.toml");

/// Why settings were refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Not TOML, or not JSON.
    #[error("{origin}: {reason}")]
    Syntax {
        /// The layer.
        origin: String,
        /// What the parser says, with line and column where it has them.
        reason: String,
    },
    /// A key that does not exist.
    #[error("{origin}: there is no setting {key:?}{}", .nearest.as_ref().map(|n| format!("; did you mean {n:?}?")).unwrap_or_default())]
    UnknownKey {
        /// The layer.
        origin: String,
        /// The key as it was given.
        key: String,
        /// The existing key nearest to it.
        nearest: Option<String>,
    },
    /// A value of another type than the default's.
    #[error("{origin}: {key} takes {expected}, not {got}")]
    WrongType {
        /// The layer.
        origin: String,
        /// The key.
        key: String,
        /// The type it takes.
        expected: &'static str,
        /// The value it got.
        got: String,
    },
    /// A value outside its limits.
    #[error("{key} = {value}: {reason} (from {origin})")]
    OutOfRange {
        /// The layer.
        origin: String,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What it must be.
        reason: String,
    },
}

/// All settings, resolved and checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Seed, length, rhythm.
    pub train: TrainConfig,
    /// Where the bars are.
    pub data: DataConfig,
    /// What is done about bars that cannot be.
    pub cleaning: CleaningConfig,
    /// What the agent sees of them.
    pub features: FeaturesConfig,
    /// How they are split.
    pub folds: FoldsConfig,
    /// What the agent acts in.
    pub environment: EnvironmentConfig,
    /// What it thinks with.
    pub network: NetworkConfig,
    /// How it learns.
    pub dqn: DqnConfig,
    /// How it learns by PPO.
    pub ppo: PpoConfig,
    /// How it steps.
    pub optimizer: OptimizerConfig,
    /// How workers share the work.
    pub parallel: ParallelConfig,
}

impl Default for Config {
    fn default() -> Config {
        Layers::new().resolve().expect("the defaults are valid: a test says so").0
    }
}

impl Config {
    /// Reads settings that were resolved before, as in a run folder's `config.toml`.
    pub fn from_toml(text: &str, origin: &str) -> Result<Config, ConfigError> {
        let mut layers = Layers::new();
        layers.push(Layer::from_toml(origin, text)?)?;
        Ok(layers.resolve()?.0)
    }

    /// The settings as TOML that [`Config::from_toml`] reads back.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("settings are plain values")
    }

    /// Environment steps between two rounds of learning, over all streams.
    pub fn block_steps(&self) -> usize {
        match self.train.algorithm {
            AlgorithmConfig::Dqn => self.dqn.train_every,
            AlgorithmConfig::Ppo => self.ppo.rollout_steps * self.environment.streams,
        }
    }

    /// Rows of an update, over all workers.
    pub fn batch_rows(&self) -> usize {
        match self.train.algorithm {
            AlgorithmConfig::Dqn => self.dqn.batch_size,
            AlgorithmConfig::Ppo => self.ppo.batch_size,
        }
    }

    /// What decides the numbers: all but the rhythm of logs and checkpoints, and where folds are trained.
    fn numbers(&self) -> Config {
        let mut numbers = self.clone();
        numbers.train.log_every = 0;
        numbers.train.checkpoint_every = 0;
        numbers.train.checkpoint_keep = 0;
        // folds give the same wherever they are trained
        if numbers.parallel.work == Work::Folds {
            numbers.parallel.work = Work::Data;
        }
        numbers
    }

    /// The keys in which `other` differs so that it would compute something else, with both values.
    pub fn differences(&self, other: &Config) -> Vec<String> {
        let flat = |config: &Config| -> Vec<(String, String)> {
            let document: toml::Table = config.numbers().to_toml().parse().expect("it was just written");
            let keys = document.into_iter().flat_map(|(section, keys)| {
                let keys = keys.as_table().cloned().unwrap_or_default();
                keys.into_iter().map(move |(key, value)| (format!("{section}.{key}"), value.to_string()))
            });
            keys.collect()
        };
        let pairs = flat(self).into_iter().zip(flat(other));
        pairs.filter(|(a, b)| a != b).map(|(a, b)| format!("{} = {} instead of {}", a.0, b.1, a.1)).collect()
    }

    /// A digest of everything that decides the numbers, as hex: two runs with the same digest, data and code
    /// compute the same.
    pub fn digest(&self) -> String {
        let bytes = self.numbers().to_toml();
        Sha256::digest(bytes.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
    }

    fn check(&self) -> Result<(), (&'static str, String, String)> {
        self.train.check()?;
        self.data.check()?;
        self.cleaning.check()?;
        self.folds.check()?;
        self.environment.check()?;
        self.network.check()?;
        self.dqn.check()?;
        self.ppo.check()?;
        self.optimizer.check()?;
        self.parallel.check()?;
        let alone = self.parallel.work == Work::Seeds;
        require(!alone || !self.train.seeds.is_empty(), "parallel.work", "seeds", "needs seeds: --seeds 0..9")?;
        let streams = self.environment.streams;
        let (batch_key, batch) = match self.train.algorithm {
            AlgorithmConfig::Dqn => ("dqn.batch_size", self.dqn.batch_size),
            AlgorithmConfig::Ppo => ("ppo.batch_size", self.ppo.batch_size),
        };
        if self.train.algorithm == AlgorithmConfig::Dqn {
            if self.dqn.buffer_size < self.dqn.batch_size {
                return refuse(
                    "dqn.buffer_size",
                    self.dqn.buffer_size,
                    "must hold at least one batch (dqn.batch_size)",
                );
            }
            if !self.dqn.train_every.is_multiple_of(streams) {
                return refuse(
                    "dqn.train_every",
                    self.dqn.train_every,
                    "must be a multiple of environment.streams, since all streams step together",
                );
            }
        } else {
            let rows = self.ppo.rollout_steps.saturating_mul(streams);
            require(
                rows <= 1 << 28,
                "ppo.rollout_steps",
                self.ppo.rollout_steps,
                "times environment.streams must be at most 2^28",
            )?;
            let every = self.parallel.sync_every_n_steps;
            require(
                every == 1,
                "parallel.sync_every_n_steps",
                every,
                "must be 1: ppo averages gradients in every update",
            )?;
            require(batch <= rows, batch_key, batch, "must be at most ppo.rollout_steps times environment.streams")?;
        }
        let shards = self.parallel.virtual_shards;
        if shards != 0 && (shards > streams || shards > batch) {
            return Err((
                "parallel.virtual_shards",
                shards.to_string(),
                format!("must be at most environment.streams and {batch_key}, so that no shard is empty"),
            ));
        }
        Ok(())
    }
}

/// A refusal by a section's check: key, value, what it must be.
type Refused = Result<(), (&'static str, String, String)>;

fn refuse(key: &'static str, value: impl ToString, reason: &str) -> Refused {
    Err((key, value.to_string(), reason.to_owned()))
}

fn require(ok: bool, key: &'static str, value: impl ToString, reason: &str) -> Refused {
    if ok { Ok(()) } else { refuse(key, value, reason) }
}

#[cfg(test)]
mod tests;
