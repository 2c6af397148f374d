//! The three ways of an all-reduce: short, long, and where the numbers lie.

use super::Shm;
use super::combine::{Number, combine, combine_in_place};
use super::copy::stream;
use super::layout::{PAGE, piece};
use super::slots::SharedF32;
use crate::collectives::call::{Call, Kind};
use crate::collectives::{CollectiveError, ReduceOp};

/// Up to this many bytes a message takes one phase. Beyond, adding everything on every rank costs more than a
/// second meeting.
pub(super) const SHORT: usize = 32 << 10;
/// From this many bytes on, what is put into the arena goes past the caches.
const STREAMED: usize = 32 << 10;

impl Shm {
    pub(super) fn reduce<T: Number>(&mut self, data: &mut [T], op: ReduceOp) -> Result<(), CollectiveError> {
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
        unsafe { combine(&sources, data.len(), op, &[data.as_mut_ptr()], &[]) };
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
                unsafe { combine(&sources, piece.len(), op, &[mine], &[result]) };
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

    /// Numbers that lie in memory of their own, or in another arena, are combined as any others.
    pub(super) fn reduce_shared(&mut self, data: &mut SharedF32, op: ReduceOp) -> Result<(), CollectiveError> {
        let Some(offset) = data.offset_in(&self.meeting.arena) else { return self.reduce(data, op) };
        let len = data.len();
        let kind = Kind::AllReduceShared { op, page: (offset / PAGE) as u32 };
        let result = self.enter(kind, len, |shm, call| {
            // all ranks are in the same call: they name the same page and length
            shm.meeting.meet(call, true)?;
            let (arena, world) = (&shm.meeting.arena, shm.world.index());
            let piece = piece(len, world, shm.rank.index());
            let start = offset + piece.start * size_of::<f32>();
            // SAFETY: each rank has leased `len` numbers from `offset` of its slot, and the piece lies inside them.
            let numbers: Vec<*mut f32> = (0..world).map(|rank| unsafe { arena.slot(rank).add(start).cast() }).collect();
            // SAFETY: inside those leases, which overlap no others; their owners wait in this call, this rank's own
            // being borrowed mutably, and no two ranks combine the same piece. Pieces are aligned to 128 bytes.
            // Not past the caches: what was read to be combined is in them already.
            unsafe { combine_in_place(&numbers, piece.len(), op) };
            shm.meeting.meet(call, false)
        });
        if result.is_err() {
            // a rank that does not know of the failure yet may still write there
            data.withdraw();
        }
        result
    }
}

/// The end of chunk `at` of `len` elements in chunks of `length`.
pub(super) fn data_end(len: usize, length: usize, at: usize) -> usize {
    len.min((at + 1) * length)
}

/// Copies `from` into the arena, what is long past the caches.
///
/// # Safety
/// `to` lies in the arena with room for `from`, and nobody else reads or writes there now.
pub(super) unsafe fn put<T: Copy>(from: &[T], to: *mut u8) {
    let (from, bytes) = (from.as_ptr().cast::<u8>(), size_of_val(from));
    // SAFETY: the caller vouches for `to`; the arena overlaps no memory of ours.
    unsafe { if bytes < STREAMED { std::ptr::copy_nonoverlapping(from, to, bytes) } else { stream(from, to, bytes) } };
}

/// Copies from the arena.
///
/// # Safety
/// `from` lies in the arena with as many elements as `to`, which hold numbers, and nobody writes there now.
pub(super) unsafe fn take<T: Copy>(from: *const u8, to: &mut [T]) {
    // SAFETY: the caller vouches for `from`; the arena overlaps no memory of ours.
    unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr().cast::<u8>(), size_of_val(to)) };
}
