//! Shared memory between the processes of one host.
//!
//! Short messages take one phase: everyone puts its numbers into the arena, all meet, everyone adds all of them.
//! Long ones go chunk by chunk through a pipeline: in one phase a rank puts in the next chunk, adds its own piece
//! of the chunk before, and takes the others' pieces of the chunk before that. Either way every element is added
//! in the order of the ranks, so bits depend neither on the size nor on the way.

mod arena;
mod combine;
#[cfg(test)]
pub(crate) mod tests;
mod wait;

pub use arena::memory;

use super::call::{Call, Kind};
use super::{AbortFlag, Buffer, Collective, CollectiveError, ReduceOp};
use arena::Arena;
use combine::{Number, combine};
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::{ArenaPlace, Transport};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wait::Meeting;

/// Up to this many bytes a message takes one phase. Beyond, adding everything on every rank costs more than a
/// second meeting.
const SHORT: usize = 32 << 10;
/// Elements in a cache line of the widest kind; pieces begin at multiples of it.
const PIECE_ALIGN: usize = 32;

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
    /// How many bytes of arena `world` ranks work best with; more bring nothing.
    pub fn arena_bytes(world: WorldSize) -> u64 {
        arena::best_bytes(world)
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
        let arena = Arena::open(place, rank, world)?;
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

    fn reduce<T: Number>(&mut self, data: &mut [T], op: ReduceOp) -> Result<(), CollectiveError> {
        let kind = Kind::AllReduce { op, size: size_of::<T>() as u8 };
        self.enter(kind, data.len(), |shm, call| {
            let bytes = size_of_val(data);
            if bytes <= SHORT.min(shm.meeting.arena.chunk()) {
                shm.reduce_short(call, data, op)
            } else {
                shm.reduce_long(call, data, op)
            }
        })
    }

    fn reduce_short<T: Number>(&mut self, call: &Call, data: &mut [T], op: ReduceOp) -> Result<(), CollectiveError> {
        let (odd, rank) = (self.meeting.odd(), self.rank.index());
        // SAFETY: the stage of this rank and parity has a chunk, and `data` is no longer than that. The others are
        // done with what was in it: that was two phases ago.
        unsafe { put(data, self.meeting.arena.stage(odd, rank)) };
        self.meeting.meet(call, true)?;
        let arena = &self.meeting.arena;
        let sources: Vec<*const T> = (0..self.world.index()).map(|r| arena.stage(odd, r).cast_const().cast()).collect();
        // SAFETY: all ranks have put `data.len()` elements there (they are in the same call, which `meet` made sure
        // of) and none writes there before it has met us again. Stages are aligned to 128 bytes.
        unsafe { combine(data.as_mut_ptr(), None, &sources, data.len(), op) };
        Ok(())
    }

    fn reduce_long<T: Number>(&mut self, call: &Call, data: &mut [T], op: ReduceOp) -> Result<(), CollectiveError> {
        let (rank, world) = (self.rank.index(), self.world.index());
        let length = self.meeting.arena.chunk() / size_of::<T>();
        let chunks = data.len().div_ceil(length);
        let total = data.len();
        let chunk = |at: usize| at * length..data_end(total, length, at);
        let mut sources: Vec<*const T> = vec![std::ptr::null(); world];
        for phase in 0..chunks + 2 {
            let odd = self.meeting.odd();
            let arena = &self.meeting.arena;
            if phase < chunks {
                let whole = chunk(phase);
                for other in (0..world).filter(|other| *other != rank) {
                    let piece = piece(whole.len(), world, other);
                    let from = &data[whole.start + piece.start..whole.start + piece.end];
                    // SAFETY: the piece lies inside the chunk, and the stage has room for a chunk; what the others
                    // read there was put two phases ago.
                    unsafe { put(from, arena.stage(odd, rank).cast::<T>().add(piece.start).cast()) };
                }
            }
            if (1..=chunks).contains(&phase) {
                let whole = chunk(phase - 1);
                let piece = piece(whole.len(), world, rank);
                let mine = data[whole.start + piece.start..whole.start + piece.end].as_mut_ptr();
                let result: *mut T = arena.result(odd, rank).cast();
                for (other, source) in sources.iter_mut().enumerate() {
                    *source = if other == rank {
                        mine.cast_const()
                    } else {
                        // SAFETY: inside that rank's stage, as above.
                        unsafe { arena.stage(!odd, other).cast::<T>().add(piece.start).cast_const() }
                    };
                }
                // SAFETY: the others put their parts of this piece there in the phase that was just met, and write
                // there no earlier than in the next. The result of this rank and parity is read by the others in
                // the next phase, and has room for a piece; it overlaps no source. `mine` is a source itself.
                unsafe { combine(result, Some(mine), &sources, piece.len(), op) };
            }
            if phase >= 2 {
                let whole = chunk(phase - 2);
                for other in (0..world).filter(|other| *other != rank) {
                    let piece = piece(whole.len(), world, other);
                    let to = &mut data[whole.start + piece.start..whole.start + piece.end];
                    // SAFETY: combined by that rank in the phase just met, and not written again before the next.
                    unsafe { take(arena.result(!odd, other), to) };
                }
            }
            if phase <= chunks {
                self.meeting.meet(call, phase == 0)?;
            }
        }
        Ok(())
    }
}

/// The end of chunk `at` of `len` elements in chunks of `length`.
fn data_end(len: usize, length: usize, at: usize) -> usize {
    len.min((at + 1) * length)
}

/// The part of a chunk of `len` elements that `rank` combines.
fn piece(len: usize, world: usize, rank: usize) -> Range<usize> {
    let each = len.div_ceil(world).next_multiple_of(PIECE_ALIGN);
    (each * rank).min(len)..(each * (rank + 1)).min(len)
}

/// Copies `from` into the arena.
///
/// # Safety
/// `to` lies in the arena with room for `from`, and nobody else reads or writes there now.
unsafe fn put<T: Copy>(from: &[T], to: *mut u8) {
    // SAFETY: the caller vouches for `to`; the arena overlaps no memory of ours.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), to, size_of_val(from)) };
}

/// Copies from the arena.
///
/// # Safety
/// `from` lies in the arena with as many elements as `to`, which hold numbers, and nobody writes there now.
unsafe fn take<T: Copy>(from: *const u8, to: &mut [T]) {
    // SAFETY: the caller vouches for `from`; the arena overlaps no memory of ours.
    unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr().cast::<u8>(), size_of_val(to)) };
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
