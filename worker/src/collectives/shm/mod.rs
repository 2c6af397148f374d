//! Shared memory between the processes of one host.
//!
//! Short messages take one phase: everyone puts its numbers into the arena, all meet, everyone adds all of them.
//! Long ones go chunk by chunk through a pipeline: in one phase a rank puts in the next chunk, adds its own piece
//! of the chunk before, and takes the others' pieces of the chunk before that. Either way every element is added
//! in the order of the ranks, so bits depend neither on the size nor on the way.
//!
//! Numbers that live in the arena ([`SharedF32`]) travel nowhere: all meet, everyone adds one piece of all ranks'
//! numbers and writes the sum back to all of them, and all meet again. Between calls each rank's numbers are its own.

mod arena;
mod combine;
mod copy;
mod layout;
mod reduce;
mod slots;
#[cfg(test)]
pub(crate) mod tests;
mod wait;

pub use arena::memory;
pub use slots::SharedF32;

use super::call::{Call, Kind};
use super::{AbortFlag, Buffer, Collective, CollectiveError, ReduceOp};
use arena::Arena;
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::{ArenaPlace, Transport};
use reduce::{data_end, put, take};
use std::sync::Arc;
use std::time::Duration;
use wait::Meeting;

/// Bytes that each rank can keep in the arena unless more are asked for. Memory is taken only where it is written.
const SLOT: usize = 64 << 20;

/// The collective over an arena of shared memory.
#[derive(Debug)]
pub struct Shm {
    rank: Rank,
    world: WorldSize,
    meeting: Meeting,
    /// Calls entered, the first of which forms the world.
    calls: u64,
    /// After an error the ranks no longer know of each other where they are: every later call fails with it too.
    broken: Option<CollectiveError>,
}

impl Shm {
    /// How many bytes of arena `world` ranks work well with: room for 64 MiB of numbers that each keeps there.
    pub fn arena_bytes(world: WorldSize) -> u64 {
        layout::best_bytes(world.index(), SLOT)
    }

    /// As [`Shm::arena_bytes`], with room for `len` f32 numbers of each rank: what one [`SharedF32`] of that length
    /// needs.
    pub fn arena_bytes_for(world: WorldSize, len: usize) -> u64 {
        layout::best_bytes(world.index(), len.saturating_mul(size_of::<f32>()).max(SLOT))
    }

    /// Opens the arena at `place` and waits until all ranks have. No call, this one included, waits longer than
    /// `within` for another rank, nor after `abort` is raised.
    pub fn form(
        place: &ArenaPlace,
        rank: Rank,
        world: WorldSize,
        within: Duration,
        abort: Arc<AbortFlag>,
    ) -> Result<Shm, CollectiveError> {
        if rank.0 >= world.0 {
            return Err(CollectiveError::Unsupported(format!("rank {rank} in a world of {world}")));
        }
        let arena = Arc::new(Arena::open(place, rank, world)?);
        let meeting = Meeting::new(arena, rank, world, within, abort);
        let mut shm = Shm { rank, world, meeting, calls: 0, broken: None };
        shm.enter(Kind::Form, 0, |shm, call| shm.meeting.meet(call, true))?;
        Ok(shm)
    }

    /// Runs one call, and remembers its failure.
    fn enter(
        &mut self,
        kind: Kind,
        len: usize,
        body: impl FnOnce(&mut Shm, &Call) -> Result<(), CollectiveError>,
    ) -> Result<(), CollectiveError> {
        self.calls += 1;
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let call = Call { number: self.calls, kind, len: len as u64 };
        let result = body(self, &call);
        self.broken = result.as_ref().err().cloned();
        result
    }
}

impl Collective for Shm {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn world_size(&self) -> WorldSize {
        self.world
    }

    fn transport(&self) -> Transport {
        Transport::Shm
    }

    fn all_reduce(&mut self, data: Buffer<'_>, op: ReduceOp) -> Result<(), CollectiveError> {
        match data {
            Buffer::F32(data) => self.reduce(data, op),
            Buffer::F64(data) => self.reduce(data, op),
            #[cfg(feature = "cuda")]
            Buffer::CudaF32(_) => Err(CollectiveError::Unsupported(
                "shared memory does not carry device memory: build the worker with --features nccl".into(),
            )),
        }
    }

    fn shared(&mut self, len: usize) -> Option<SharedF32> {
        // what failed may leave others writing, and short messages are faster the other way
        if self.broken.is_some() || len.saturating_mul(size_of::<f32>()) <= reduce::SHORT {
            return None;
        }
        SharedF32::lend(&self.meeting.arena, self.rank.index(), len)
    }

    fn all_reduce_shared(&mut self, data: &mut SharedF32, op: ReduceOp) -> Result<(), CollectiveError> {
        self.reduce_shared(data, op)
    }

    fn broadcast(&mut self, data: &mut [u8], root: Rank) -> Result<(), CollectiveError> {
        if root.0 >= self.world.0 {
            let why = format!("broadcast from rank {root} in a world of {}", self.world);
            return Err(CollectiveError::Unsupported(why));
        }
        let (giver, me, len) = (root.index(), self.rank == root, data.len());
        self.enter(Kind::Broadcast { root: root.0 }, len, |shm, call| {
            let length = shm.meeting.arena.chunk();
            for at in 0..len.div_ceil(length).max(1) {
                let odd = shm.meeting.odd();
                let part = &mut data[at * length..data_end(len, length, at)];
                if me {
                    // SAFETY: a part is no longer than a chunk, and what the others read there was put two phases ago.
                    unsafe { put(part, shm.meeting.arena.stage(odd, giver)) };
                }
                shm.meeting.meet(call, at == 0)?;
                if !me {
                    // SAFETY: put there by the root in the phase just met, and not written again before the next.
                    unsafe { take(shm.meeting.arena.stage(odd, giver), part) };
                }
            }
            Ok(())
        })
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), CollectiveError> {
        let (len, world, rank) = (mine.len(), self.world.index(), self.rank.index());
        if all.len() != len * world {
            return Err(CollectiveError::Unsupported(format!(
                "all_gather of {len} bytes from each of {world} ranks into {} bytes: it must be {}",
                all.len(),
                len * world
            )));
        }
        self.enter(Kind::AllGather, len, |shm, call| {
            let length = shm.meeting.arena.chunk();
            for at in 0..len.div_ceil(length).max(1) {
                let odd = shm.meeting.odd();
                let part = at * length..data_end(len, length, at);
                // SAFETY: a part is no longer than a chunk, and what the others read there was put two phases ago.
                unsafe { put(&mine[part.clone()], shm.meeting.arena.stage(odd, rank)) };
                shm.meeting.meet(call, at == 0)?;
                all[rank * len + part.start..rank * len + part.end].copy_from_slice(&mine[part.clone()]);
                for other in (0..world).filter(|other| *other != rank) {
                    let to = &mut all[other * len + part.start..other * len + part.end];
                    // SAFETY: put there by that rank in the phase just met, and not written again before the next.
                    unsafe { take(shm.meeting.arena.stage(odd, other), to) };
                }
            }
            Ok(())
        })
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.enter(Kind::Barrier, 0, |shm, call| shm.meeting.meet(call, true))
    }

    fn calls(&self) -> u64 {
        self.calls - 1
    }
}
