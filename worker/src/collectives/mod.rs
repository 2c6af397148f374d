//! Sum, gather and broadcast between the processes of a world, behind one trait.
//!
//! Every rank must make the same calls in the same order with the same sizes. Where one does not, the call
//! gives an error that names both sides; where one dies, the others get an error, not a hang.

mod abort;
mod call;
pub mod law;
#[cfg(feature = "nccl")]
pub mod nccl;
pub mod shm;
pub mod solo;

pub use abort::AbortFlag;
#[cfg(feature = "nccl")]
pub use nccl::Nccl;
pub use shm::{SharedF32, Shm};
pub use solo::Solo;

use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::Transport;
use thiserror::Error;

/// How values from all ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Their sum, added in the order of the ranks.
    Sum,
    /// Their sum, divided by the number of ranks.
    Avg,
    /// The largest.
    Max,
}

/// Memory that a collective reads and writes, in place.
#[derive(Debug)]
pub enum Buffer<'a> {
    /// Host memory, 32 bits.
    F32(&'a mut [f32]),
    /// Host memory, 64 bits.
    F64(&'a mut [f64]),
    /// Device memory, 32 bits.
    #[cfg(feature = "cuda")]
    CudaF32(&'a mut cudarc::driver::CudaSlice<f32>),
}

/// Why a collective call failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CollectiveError {
    /// A rank's process ended.
    #[error("rank {0} ended while the others waited for it in {1}")]
    PeerLost(Rank, String),
    /// Two ranks made different calls.
    #[error(
        "rank {rank} is in {here}, but rank {other} is in {there}: all ranks must make the same calls in the same order"
    )]
    Mismatch {
        /// This rank.
        rank: Rank,
        /// Its call.
        here: String,
        /// The other rank.
        other: Rank,
        /// The other rank's call.
        there: String,
    },
    /// A rank did not come within the time limit.
    #[error("rank {0} did not come to {1} within {2} s")]
    TimedOut(Rank, String, u64),
    /// The launcher asked to give up.
    #[error("given up: {0}")]
    Aborted(String),
    /// A size or memory kind that this transport cannot take.
    #[error("{0}")]
    Unsupported(String),
    /// The library or the operating system failed.
    #[error("{0}")]
    Failed(String),
}

/// What every transport can do. All calls block until the result is there (on devices: until it is enqueued on
/// the device's own stream, in order with the kernels before and after it).
pub trait Collective: Send {
    /// This process's number.
    fn rank(&self) -> Rank;

    /// How many processes there are.
    fn world_size(&self) -> WorldSize;

    /// What the data travels over.
    fn transport(&self) -> Transport;

    /// Combines `data` of all ranks, element by element; every rank gets the result, the same bits on each.
    fn all_reduce(&mut self, data: Buffer<'_>, op: ReduceOp) -> Result<(), CollectiveError>;

    /// A buffer of `len` zeros that [`Collective::all_reduce_shared`] need not copy, where this transport can lend one
    /// and one is worth having. All ranks must take and drop such buffers in the same order with the same lengths.
    fn shared(&mut self, _len: usize) -> Option<SharedF32> {
        None
    }

    /// As [`Collective::all_reduce`], for numbers that may lie in shared memory. After an error they may be lost: zeros
    /// in memory of their own.
    fn all_reduce_shared(&mut self, data: &mut SharedF32, op: ReduceOp) -> Result<(), CollectiveError> {
        self.all_reduce(Buffer::F32(data), op)
    }

    /// Copies `data` of `root` to all.
    fn broadcast(&mut self, data: &mut [u8], root: Rank) -> Result<(), CollectiveError>;

    /// Puts every rank's `mine`, all of one size, into `all` in the order of the ranks;
    /// `all` is `world_size` times as long.
    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), CollectiveError>;

    /// Returns when all ranks have called it.
    fn barrier(&mut self) -> Result<(), CollectiveError>;

    /// How many calls were entered: what a hang is told by.
    fn calls(&self) -> u64;

    /// Says that `calls` calls, which were recorded into a graph, are about to be made again by its launch: counts them,
    /// and gives an error that an earlier call left behind, since the graph itself reports none.
    fn replayed(&mut self, _calls: u64) -> Result<(), CollectiveError> {
        Ok(())
    }

    /// Whether ranks compare their calls before they make them, where that is not free and so not always done (NCCL).
    /// All ranks must choose the same.
    fn check_calls(&mut self, _on: bool) {}

    /// Whether ranks compare calls by talking to each other on the host first, which cannot be recorded into a graph.
    fn checks_calls(&self) -> bool {
        false
    }
}
