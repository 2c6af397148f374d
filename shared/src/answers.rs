//! What a worker binary answers on its standard output when it is asked instead of started.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// Problems of the data by kind, and how often each was met.
    pub problems: BTreeMap<String, u64>,
}

/// One instrument of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstrumentReport {
    /// Its symbol.
    pub symbol: String,
    /// Its bars.
    pub bars: u64,
    /// Start of the first bar.
    pub first: Option<String>,
    /// Start of the last bar.
    pub last: Option<String>,
    /// Holes: intervals in a row without a bar.
    pub gaps: u64,
    /// Days (UTC) with a bar.
    pub sessions: u64,
    /// A few closes over the whole span.
    pub chart: Vec<f64>,
}

/// One line of the answer to `foxlaunch-worker data --config FILE PATH`: what a file holds, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataReport {
    /// The file.
    pub file: String,
    /// `dbn`, `csv` or `parquet`.
    pub format: String,
    /// Of DBN: `ohlcv-1m`, `trades`…; of tables: `ohlcv`, `quotes`, `trades`, `book-10`, `series`.
    pub schema: String,
    /// Records or rows, whatever came of them.
    pub records: u64,
    /// Bars, over all instruments.
    pub bars: u64,
    /// The instruments' names.
    pub instruments: Vec<String>,
    /// Start of the first bar; without bars the earliest record.
    pub first: Option<String>,
    /// Start of the last bar; without bars the latest record.
    pub last: Option<String>,
    /// Kind of problem -> how often it was met.
    pub problems: BTreeMap<String, u64>,
    /// The time between two bars in nanoseconds; 0 where it is not known.
    pub interval_ns: i64,
    /// What a person should know of how it was read.
    pub notes: Vec<String>,
    /// Each instrument.
    pub details: Vec<InstrumentReport>,
}
