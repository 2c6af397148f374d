//! What a worker binary answers on its standard output when it is asked instead of started.

use serde::{Deserialize, Serialize};

/// The answer to `foxlaunch-worker --about`: what the binary was built with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The binary's name.
    pub name: String,
    /// The version, which must be the launcher's.
    pub version: String,
    /// Whether it can use NVIDIA devices.
    pub cuda: bool,
    /// Whether it can average over several of them.
    pub nccl: bool,
}

/// One instrument of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstrumentSummary {
    /// Its symbol.
    pub symbol: String,
    /// Usable bars.
    pub bars: usize,
    /// Start of the first bar, in nanoseconds since 1970 (UTC).
    pub first_ns: i64,
    /// Start of the last bar, in nanoseconds since 1970 (UTC).
    pub last_ns: i64,
}

/// One fold's sizes, in bars over all instruments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldSummary {
    /// Bars to learn from.
    pub train: usize,
    /// Bars to choose the best checkpoint by.
    pub validation: usize,
    /// Bars to test on.
    pub test: usize,
}

/// The answer to `foxlaunch-worker plan --config FILE`: what needs data or networks to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerPlan {
    /// The data's name for a person: the path, or the embedded sample's.
    pub source: String,
    /// What it holds.
    pub instruments: Vec<InstrumentSummary>,
    /// The time between two bars in nanoseconds.
    pub interval_ns: i64,
    /// How it is split.
    pub folds: Vec<FoldSummary>,
    /// Values in an observation.
    pub observation: usize,
    /// Actions to choose from.
    pub actions: usize,
    /// Parameters of the network.
    pub parameters: usize,
    /// Bytes of replay memory in each worker.
    pub replay_bytes: u64,
    /// What a person should know before the start.
    pub warnings: Vec<String>,
}
