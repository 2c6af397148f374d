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
        "rank {rank}, fold {fold}, update {update}: {what} is {value}; the batch's rows were the transitions {indices:?} \
         of the replay memory. Try a smaller dqn.learning_rate or environment.reward_scale"
    )]
    NotFinite {
        /// Whose rows it came from.
        rank: Rank,
        /// This rank: where it is another one, that one is to blame.
        seen_by: Rank,
        /// Which fold.
        fold: u32,
        /// Which update of it, from 1.
        update: u64,
        /// What is not finite.
        what: &'static str,
        /// What it is.
        value: f64,
        /// Where the rows stood in the replay memory.
        indices: Vec<usize>,
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
            _ if self.blames().is_some() => exit::COLLATERAL,
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

    /// The rank that this failure comes from, if it is another one's. Under [`CollectiveError::Aborted`] it is
    /// not known who, only that it was not this one: the first stands for whoever it was.
    pub fn blames(&self) -> Option<Rank> {
        let collective = match self {
            TrainError::NotFinite { rank, seen_by, .. } => return (rank != seen_by).then_some(*rank),
            TrainError::FirstFailed => return Some(Rank(0)),
            TrainError::Collective(e) | TrainError::Parallel(ParallelError::Collective(e)) => e,
            _ => return None,
        };
        match collective {
            CollectiveError::PeerLost(rank, _) | CollectiveError::TimedOut(rank, _, _) => Some(*rank),
            CollectiveError::Aborted(_) => Some(Rank(0)),
            _ => None,
        }
    }
}
