//! The only place that knows file names inside a run folder.
//!
//! ```text
//! RUN/
//!   config.toml           the resolved settings
//!   plan.json             what was started, with the origin of every value
//!   job.json              which process is to be signalled, while it runs
//!   events.jsonl          what happened to processes, a line each
//!   metrics.jsonl         what training measured, a line each
//!   tensorboard/          the same for TensorBoard
//!   logs/attempt-1/rank-0.log
//!   checkpoints/          one folder each, and `latest`
//!   evaluation/fold-0.json  a fold's test result, equity curve included
//!   folds/fold-0/         a run folder of its own for each fold that is trained on its own
//!   evaluation/control.json a control task's result
//!   not-finite-rank-0.json  the rows of a batch whose loss was no finite number
//!   seed-0/               with several seeds: a run folder for each
//!   report.html, report.json
//! ```

use crate::ids::{Attempt, Rank};
use std::path::{Path, PathBuf};

/// A run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(PathBuf);

macro_rules! places {
    ($($(#[$doc:meta])+ $name:ident = $text:literal;)+) => {
        $($(#[$doc])+ pub fn $name(&self) -> PathBuf { self.0.join($text) })+
    };
}

impl RunDir {
    /// The run folder at `path`; nothing is read or made.
    pub fn new(path: impl Into<PathBuf>) -> RunDir {
        RunDir(path.into())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    places! {
        /// The resolved settings, as TOML.
        config = "config.toml";
        /// What was started, as JSON.
        plan = "plan.json";
        /// Held by the job that writes here.
        lock = ".lock";
        /// Which process runs it, or ran it last, as JSON.
        job = "job.json";
        /// What happened to processes, as lines of JSON.
        events = "events.jsonl";
        /// What training measured, as lines of JSON ([`crate::metric::Metric`]).
        metrics = "metrics.jsonl";
        /// TensorBoard's event files.
        tensorboard = "tensorboard";
        /// All logs.
        logs = "logs";
        /// One folder for each checkpoint, and `latest`.
        checkpoints = "checkpoints";
        /// One file for each fold's test result.
        evaluation = "evaluation";
        /// The report as a page.
        report_html = "report.html";
        /// The report's numbers.
        report_json = "report.json";
    }

    /// The log of `rank` in `attempt`, below the folder of logs `logs`.
    pub fn log(logs: &Path, attempt: Attempt, rank: Rank) -> PathBuf {
        logs.join(format!("attempt-{attempt}")).join(format!("rank-{rank}.log"))
    }

    /// Where `rank` of `attempt` may leave its error as JSON, below the folder of logs `logs`.
    pub fn error_file(logs: &Path, attempt: Attempt, rank: Rank) -> PathBuf {
        logs.join(format!("attempt-{attempt}")).join(format!("rank-{rank}.error.json"))
    }

    /// The rows of `rank`'s batch whose loss was no finite number.
    pub fn not_finite(&self, rank: Rank) -> PathBuf {
        self.0.join(format!("not-finite-rank-{rank}.json"))
    }

    /// The folder of fold `fold`, where folds are trained side by side: a run folder of its own.
    pub fn of_fold(&self, fold: usize) -> RunDir {
        RunDir(self.0.join("folds").join(format!("fold-{fold}")))
    }

    /// The result of a control task.
    pub fn control(&self) -> PathBuf {
        self.evaluation().join("control.json")
    }

    /// The folder of one seed of several.
    pub fn seed(&self, seed: u64) -> RunDir {
        RunDir(self.0.join(format!("seed-{seed}")))
    }

    /// The seeds that have a folder here, in order.
    pub fn seeds(&self) -> Vec<u64> {
        let names = std::fs::read_dir(&self.0).into_iter().flatten();
        let number = |entry: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
            let entry = entry.ok()?;
            let seed = entry.file_name().to_str()?.strip_prefix("seed-")?.parse().ok()?;
            entry.file_type().is_ok_and(|kind| kind.is_dir()).then_some(seed)
        };
        let mut seeds: Vec<u64> = names.filter_map(number).collect();
        seeds.sort_unstable();
        seeds
    }

    /// The test result of fold `fold`.
    pub fn fold(&self, fold: usize) -> PathBuf {
        self.evaluation().join(format!("fold-{fold}.json"))
    }
}
