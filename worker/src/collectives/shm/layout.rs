//! Where everything lies in the arena; every rank computes the same from its size and the number of ranks.
//!
//! ```text
//! header   magic, world, bytes, who is lost
//! lines    for each rank: phases published, sleepers, process, what it is in (for two calls)
//! stages   2 x world x chunk     what ranks give, for an even and an odd phase
//! results  2 x world x piece     what ranks have combined, for an even and an odd phase
//! slots    world x slot          numbers that ranks keep here between calls; takes what is left
//! ```

use super::arena::{Header, Line};
use std::ops::Range;

/// Chunks and pieces begin at multiples of this, so that no two ranks write to one cache line or its neighbour.
const ALIGN: usize = 128;
pub(super) const PAGE: usize = 4096;
/// Slots begin at multiples of this, so that they can lie in huge pages.
pub(super) const HUGE_PAGE: usize = 2 << 20;
/// The largest chunk: small enough to lie in the caches when the next rank reads it, large enough that meetings
/// are few even where ranks share their cores with others.
const MOST_CHUNK: usize = 1 << 20;
/// The smallest chunk: one aligned piece of some use.
const LEAST_CHUNK: usize = 4096;
/// Elements in a cache line of the widest kind; pieces begin at multiples of it.
const PIECE_ALIGN: usize = 32;

/// The measures of one arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The size of all.
    pub(super) bytes: usize,
    pub(super) world: usize,
    /// Bytes that one rank can give in one phase.
    pub(super) chunk: usize,
    piece: usize,
    /// Bytes that one rank can keep between calls; may be 0.
    pub(super) slot: usize,
}

fn round_up(bytes: usize, to: usize) -> usize {
    bytes.div_ceil(to) * to
}

fn head_bytes(world: usize) -> usize {
    round_up(size_of::<Header>() + world * size_of::<Line>(), PAGE)
}

fn piece_bytes(chunk: usize, world: usize) -> usize {
    round_up(chunk.div_ceil(world), ALIGN) + 2 * ALIGN
}

/// Bytes of everything before the slots.
fn exchange_bytes(chunk: usize, world: usize) -> usize {
    head_bytes(world) + 2 * world * (chunk + piece_bytes(chunk, world))
}

/// The bytes below which there is no arena for `world` ranks.
pub(super) fn needed_bytes(world: usize) -> usize {
    exchange_bytes(LEAST_CHUNK, world)
}

/// The bytes with which chunks are as large as is useful, and each rank can keep `slot` bytes.
pub(super) fn best_bytes(world: usize, slot: usize) -> u64 {
    let slots = world as u64 * round_up(slot, HUGE_PAGE) as u64;
    round_up(exchange_bytes(MOST_CHUNK, world), HUGE_PAGE) as u64 + slots
}

impl Layout {
    /// The layout of `bytes` for `world` ranks; none if they are too few.
    pub(super) fn of(bytes: usize, world: usize) -> Option<Layout> {
        let chunk = chunk_bytes(bytes, world)?;
        let left = bytes.saturating_sub(round_up(exchange_bytes(chunk, world), HUGE_PAGE));
        let slot = left / world / HUGE_PAGE * HUGE_PAGE;
        Some(Layout { bytes, world, chunk, piece: piece_bytes(chunk, world), slot })
    }

    fn check(&self, rank: usize) {
        assert!(rank < self.world, "rank {rank} in a world of {}", self.world);
    }

    /// Where the line of `rank` begins.
    pub(super) fn line(&self, rank: usize) -> usize {
        self.check(rank);
        size_of::<Header>() + rank * size_of::<Line>()
    }

    /// Where the stage of `rank` for phases of this parity begins.
    pub(super) fn stage(&self, odd: bool, rank: usize) -> usize {
        self.check(rank);
        head_bytes(self.world) + (usize::from(odd) * self.world + rank) * self.chunk
    }

    /// Where the result of `rank` for phases of this parity begins.
    pub(super) fn result(&self, odd: bool, rank: usize) -> usize {
        self.check(rank);
        let stages = 2 * self.world * self.chunk;
        head_bytes(self.world) + stages + (usize::from(odd) * self.world + rank) * self.piece
    }

    /// Where the slot of `rank` begins.
    pub(super) fn slot_of(&self, rank: usize) -> usize {
        self.check(rank);
        round_up(exchange_bytes(self.chunk, self.world), HUGE_PAGE) + rank * self.slot
    }
}

/// The largest chunk that `bytes` have room for.
fn chunk_bytes(bytes: usize, world: usize) -> Option<usize> {
    let data = bytes.checked_sub(head_bytes(world))?;
    // a chunk and its part of the results fill a rank's share, but for what alignment takes
    let most = (data / (2 * world) / (world + 1) * world).min(MOST_CHUNK) / ALIGN * ALIGN;
    let fits = |chunk: &usize| *chunk >= LEAST_CHUNK && exchange_bytes(*chunk, world) <= bytes;
    (0..8).map(|less| most.saturating_sub(less * ALIGN)).find(fits)
}

/// The part of `len` elements that `rank` combines.
pub(super) fn piece(len: usize, world: usize, rank: usize) -> Range<usize> {
    let each = len.div_ceil(world).next_multiple_of(PIECE_ALIGN);
    (each * rank).min(len)..(each * (rank + 1)).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_used_or_refused() {
        for world in 1..20 {
            let best = best_bytes(world, 0) as usize;
            let chunk = Layout::of(best, world).unwrap().chunk;
            assert!(chunk <= MOST_CHUNK && MOST_CHUNK - chunk < 8 * ALIGN, "{chunk}");
            let mut before = 0;
            for bytes in (0..best + PAGE).step_by(12_345) {
                let chunk = Layout::of(bytes, world).map_or(0, |layout| layout.chunk);
                assert!(chunk >= before && (chunk == 0 || exchange_bytes(chunk, world) <= bytes));
                before = chunk;
            }
        }
    }

    #[test]
    fn slots_have_room_behind_the_results_and_take_what_is_left() {
        for world in 1..20 {
            for slot in [0, 1, HUGE_PAGE, 5 * HUGE_PAGE + 7] {
                let bytes = best_bytes(world, slot) as usize;
                let layout = Layout::of(bytes, world).unwrap();
                assert!(layout.slot >= slot && layout.slot < slot + HUGE_PAGE);
                assert!(layout.slot_of(0) >= layout.result(true, world - 1) + layout.piece);
                assert!(layout.slot_of(world - 1) + layout.slot <= bytes);
                let less = Layout::of(bytes - 1, world).unwrap();
                if slot > 0 {
                    assert!(less.slot < layout.slot && less.slot_of(world - 1) + less.slot < bytes);
                }
            }
        }
    }
}
