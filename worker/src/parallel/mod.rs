//! Data-parallel training: gradients and weights as flat buffers, the same on every rank.
//!
//! | module | what it does |
//! |---|---|
//! | [`averager`] | the short way: gradients in, mean gradients out |
//! | [`captured`] | a whole step of any model, on a GPU as one launch of a graph |
//! | [`buckets`] | the order of a model's variables, which all ranks must share |
//! | [`gradients`] | one flat buffer for all gradients |
//! | [`shard`] | who owns which part of the batch, and sums that do not depend on it |
//! | [`weights`] | weights made equal, averaged, and compared |

pub mod averager;
pub mod buckets;
pub mod captured;
#[cfg(feature = "cuda")]
mod captured_cuda;
pub mod gradients;
#[cfg(feature = "cuda")]
mod gradients_cuda;
#[cfg(feature = "cuda")]
pub(crate) mod recorder;
pub mod shard;
pub mod weights;

pub use averager::GradientAverager;
pub use buckets::{Entry, Layout};
pub use captured::CapturedStep;
pub use gradients::{FlatGradients, HostFloat, Values};
pub use shard::{Shards, sum_shards};

use crate::collectives::CollectiveError;
use candle_core::DType;
use foxlaunch_shared::ids::Rank;
use thiserror::Error;

/// Why a step of data-parallel training failed.
#[derive(Debug, Error)]
pub enum ParallelError {
    /// The ranks do not hold the same model.
    #[error("rank {rank} holds another model than rank 0: {how}; all ranks must build the same variables")]
    OtherModel {
        /// The first rank that differs.
        rank: Rank,
        /// What differs.
        how: String,
    },
    /// The ranks hold the same model with different weights.
    #[error("rank {rank} holds other weights than rank 0 {when}")]
    OtherWeights {
        /// The first rank that differs.
        rank: Rank,
        /// When this was seen, as `after step 10`.
        when: String,
    },
    /// A variable that the layout names is not in the map, or has changed its shape.
    #[error("variable {name:?}: {why}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A number type that gradients cannot be kept in.
    #[error("gradients are kept in f32 or f64, not in {0:?}")]
    Unkept(DType),
    /// Buffers that should be alike are not.
    #[error("{0}")]
    Unlike(String),
    /// There are not enough shards for all ranks.
    #[error("{shards} virtual shards cannot be shared by {ranks} ranks: each rank needs at least one")]
    TooFewShards {
        /// How many shards there are.
        shards: usize,
        /// How many ranks there are.
        ranks: usize,
    },
    /// Talking to the other ranks failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// candle failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}
