//! Why training ended in failure, and with which exit code.

use crate::checkpoint::CheckpointError;
use crate::collectives::CollectiveError;
use crate::data::DataError;
use crate::metrics::MetricsError;
use crate::optimizer::OptimizerError;
use crate::parallel::ParallelError;
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::Rank;
use std::path::PathBuf;
use thiserror::Error;

/// Why training failed.
#[derive(Debug, Error)]
pub enum TrainError {
    /// A loss, or the gradient, is no finite number.
    #[error(
        "rank {rank}, fold {}, update {update}: {what} is {value}; the batch's rows were number {indices:?} of \
         what was learned from{}. Try a smaller learning_rate or environment.reward_scale", .fold + 1,
        .saved.as_ref().map(|path| format!(", saved in {}", path.display())).unwrap_or_default()
    )]
    NotFinite {
        /// Whose rows it came from.
        rank: Rank,
        /// This rank: where it is another one, that one is to blame.
        seen_by: Rank,
        /// Which fold, from 0; a person is told one more.
        fold: u32,
        /// Which update of it, from 1.
        update: u64,
        /// What is not finite.
        what: &'static str,
        /// What it is.
        value: f64,
        /// Where the rows stood in the replay memory, or in the rollout.
        indices: Vec<usize>,
        /// The rows, as JSON.
        batch: Box<serde_json::Value>,
        /// Where they were saved.
        saved: Option<PathBuf>,
    },
    /// The run's folder does not belong to these settings.
    #[error("{0}")]
    Settings(String),
    /// A result could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Output {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Evaluation failed.
    #[error("evaluation: {0:#}")]
    Evaluation(anyhow::Error),
    /// The caller, told of a checkpoint, wanted no more.
    #[error("told of a checkpoint: {0:#}")]
    Heard(anyhow::Error),
    /// Rank 0 failed in what only it does.
    #[error("rank 0 failed: its own message says why")]
    FirstFailed,
    /// A number type or device that this trainer has no form for.
    #[error("{0}")]
    Unsupported(String),
    /// The data do not serve.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Talking to the other ranks failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// Gradients or shards failed.
    #[error(transparent)]
    Parallel(#[from] ParallelError),
    /// The optimiser failed.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// A checkpoint failed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Metrics could not be written.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// candle failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl TrainError {
    /// The exit code of a process that ends because of this.
    pub fn exit_code(&self) -> i32 {
        match self {
            _ if self.is_collateral() => exit::COLLATERAL,
            TrainError::Settings(_) | TrainError::Parallel(ParallelError::TooFewShards { .. }) => exit::CONFIG,
            TrainError::Data(e) => e.exit_code(),
            TrainError::Output { .. }
            | TrainError::Metrics(MetricsError::Io { .. })
            | TrainError::Checkpoint(CheckpointError::Io { .. }) => exit::CANT_CREATE,
            TrainError::Checkpoint(_) | TrainError::Metrics(_) => exit::DATA,
            TrainError::Unsupported(_) => exit::UNAVAILABLE,
            _ => exit::FAILURE,
        }
    }

    /// Whether this rank failed only because another one, or the launcher, had: never the first cause.
    pub fn is_collateral(&self) -> bool {
        self.blames().is_some() || matches!(self.of_collective(), Some(CollectiveError::Aborted(_)))
    }

    /// The rank that this failure comes from, if it is another one's and known.
    pub fn blames(&self) -> Option<Rank> {
        match self {
            TrainError::NotFinite { rank, seen_by, .. } => (rank != seen_by).then_some(*rank),
            TrainError::FirstFailed => Some(Rank(0)),
            _ => match self.of_collective()? {
                CollectiveError::PeerLost(rank, _) | CollectiveError::TimedOut(rank, _, _) => Some(*rank),
                _ => None,
            },
        }
    }

    fn of_collective(&self) -> Option<&CollectiveError> {
        match self {
            TrainError::Collective(e) | TrainError::Parallel(ParallelError::Collective(e)) => Some(e),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_rank_caused_is_collateral_and_names_it_where_it_is_known() {
        let lost = CollectiveError::PeerLost(Rank(2), "all_reduce".to_owned());
        let aborted = CollectiveError::Aborted("the launcher is gone".to_owned());
        let cases = [
            (TrainError::Collective(lost.clone()), exit::COLLATERAL, Some(Rank(2))),
            (TrainError::Parallel(ParallelError::Collective(lost)), exit::COLLATERAL, Some(Rank(2))),
            (TrainError::Collective(aborted), exit::COLLATERAL, None),
            (TrainError::FirstFailed, exit::COLLATERAL, Some(Rank(0))),
            (TrainError::Collective(CollectiveError::Failed("no".to_owned())), exit::FAILURE, None),
            (TrainError::Settings("no".to_owned()), exit::CONFIG, None),
        ];
        for (error, code, blames) in cases {
            assert_eq!((error.exit_code(), error.blames()), (code, blames), "{error}");
        }
    }
}
