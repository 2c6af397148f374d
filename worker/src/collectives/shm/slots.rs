//! Numbers that live in the arena between calls, so that no call has to copy them in or out.

use super::arena::Arena;
use super::layout::PAGE;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// A buffer of f32 numbers, in shared memory where a collective lends it ([`Collective::shared`]), else in memory of
/// its own. Reads and writes as a slice; [`Collective::all_reduce_shared`] combines it without copies.
///
/// [`Collective::shared`]: crate::collectives::Collective::shared
/// [`Collective::all_reduce_shared`]: crate::collectives::Collective::all_reduce_shared
pub struct SharedF32 {
    place: Place,
}

enum Place {
    Own(Vec<f32>),
    Lent(Lease),
}

/// A part of a rank's slot that is in use.
pub(super) struct Lease {
    arena: Arc<Arena>,
    rank: usize,
    /// Where in the slot it begins, in bytes; a multiple of [`PAGE`].
    offset: usize,
    len: usize,
}

impl SharedF32 {
    /// Takes `len` numbers, all zero, of the slot of `rank`, if there is room.
    pub(super) fn lend(arena: &Arc<Arena>, rank: usize, len: usize) -> Option<SharedF32> {
        let bytes = len.checked_mul(size_of::<f32>())?;
        let offset = arena.leases.take(bytes)?;
        let mut lent = SharedF32 { place: Place::Lent(Lease { arena: Arc::clone(arena), rank, offset, len }) };
        lent.fill(0.);
        Some(lent)
    }

    /// Whether the numbers lie in shared memory.
    pub fn is_shared(&self) -> bool {
        matches!(self.place, Place::Lent(_))
    }

    /// The offset in the slots of `arena`, if the numbers lie there.
    pub(super) fn offset_in(&self, arena: &Arc<Arena>) -> Option<usize> {
        match &self.place {
            Place::Lent(lease) if Arc::ptr_eq(&lease.arena, arena) => Some(lease.offset),
            _ => None,
        }
    }

    /// Leaves the shared memory, where others may still write, for zeros in memory of its own.
    pub(super) fn withdraw(&mut self) {
        self.place = Place::Own(vec![0.; self.len()]);
    }
}

impl From<Vec<f32>> for SharedF32 {
    fn from(numbers: Vec<f32>) -> SharedF32 {
        SharedF32 { place: Place::Own(numbers) }
    }
}

impl Deref for SharedF32 {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &self.place {
            Place::Own(numbers) => numbers,
            // SAFETY: the lease lies in the slot of this rank and is this handle's alone (`Leases::take`), it is
            // aligned to a page, any bytes are numbers, and the mapping lives as long as the lease. Other ranks read
            // and write there only inside `all_reduce_shared`, which borrows the handle mutably, between the first
            // meeting and the second; where a call ends without the second, it withdraws the handle.
            Place::Lent(lease) => unsafe { std::slice::from_raw_parts(lease.numbers(), lease.len) },
        }
    }
}

impl DerefMut for SharedF32 {
    fn deref_mut(&mut self) -> &mut [f32] {
        match &mut self.place {
            Place::Own(numbers) => numbers,
            // SAFETY: as in `deref`, and the handle is borrowed mutably.
            Place::Lent(lease) => unsafe { std::slice::from_raw_parts_mut(lease.numbers(), lease.len) },
        }
    }
}

impl fmt::Debug for SharedF32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedF32").field("len", &self.len()).field("is_shared", &self.is_shared()).finish()
    }
}

impl Lease {
    fn numbers(&self) -> *mut f32 {
        // SAFETY: `Leases::take` gave an offset inside the slot.
        unsafe { self.arena.slot(self.rank).add(self.offset).cast() }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.arena.leases.give_back(self.offset);
    }
}

/// Which parts of a slot are in use. Ranks that take and give back in the same order get the same offsets.
#[derive(Debug)]
pub(super) struct Leases {
    bytes: usize,
    /// Where each begins and ends.
    taken: Mutex<BTreeMap<usize, usize>>,
}

impl Leases {
    pub(super) fn new(bytes: usize) -> Leases {
        Leases { bytes, taken: Mutex::default() }
    }

    /// The first offset with room for `bytes`, which must be some.
    fn take(&self, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(PAGE).filter(|bytes| *bytes > 0)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut offset = 0;
        for (start, end) in taken.iter() {
            if start - offset >= bytes {
                break;
            }
            offset = *end;
        }
        if self.bytes - offset < bytes {
            return None;
        }
        taken.insert(offset, offset + bytes);
        Some(offset)
    }

    fn give_back(&self, offset: usize) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn leases_never_overlap_and_the_first_gap_is_used(
            steps in proptest::collection::vec((0usize..5 * PAGE, any::<prop::sample::Index>(), any::<bool>()), 1..40),
        ) {
            let leases = Leases::new(16 * PAGE);
            let mut held: Vec<(usize, usize)> = Vec::new();
            for (bytes, index, give_back) in steps {
                if give_back && !held.is_empty() {
                    leases.give_back(held.swap_remove(index.index(held.len())).0);
                    continue;
                }
                let room = |offset: usize| {
                    let end = offset + bytes;
                    end <= 16 * PAGE && held.iter().all(|(start, stop)| end <= *start || *stop <= offset)
                };
                let expected = (0..16).map(|page| page * PAGE).find(|offset| bytes > 0 && room(*offset));
                prop_assert_eq!(leases.take(bytes), expected);
                held.extend(expected.map(|offset| (offset, offset + bytes)));
            }
        }
    }
}
