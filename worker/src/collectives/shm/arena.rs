//! The shared memory itself: one mapping, laid out the same by every rank from its size and the number of ranks.
//!
//! ```text
//! header   magic, world, chunk bytes, who is lost
//! lines    for each rank: phases published, sleepers, process, what it is in (for two calls)
//! stages   2 x world x chunk     what ranks give, for an even and an odd phase
//! results  2 x world x piece     what ranks have combined, for an even and an odd phase
//! ```
//!
//! Memory of zeros is a valid arena that nobody has joined, so it needs no maker but the operating system.

use crate::collectives::CollectiveError;
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::ArenaPlace;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Says that this is an arena, and in which form.
const MAGIC: u32 = 0xA2E4_0001;
/// Chunks and pieces begin at multiples of this, so that no two ranks write to one cache line or its neighbour.
const ALIGN: usize = 128;
const PAGE: usize = 4096;
/// The largest chunk: small enough to lie in the caches when the next rank reads it, large enough that meetings
/// are few even where ranks share their cores with others.
const MOST_CHUNK: usize = 1 << 20;
/// The smallest chunk: one aligned piece of some use.
const LEAST_CHUNK: usize = 4096;

/// The head of an arena.
#[repr(C, align(128))]
pub(super) struct Header {
    magic: AtomicU32,
    world: AtomicU32,
    chunk: AtomicU64,
    /// 1 + the rank that was first found dead; 0 while none is.
    pub(super) lost: AtomicU32,
}

/// One rank's public state, written by itself (but for `sleepers`).
#[repr(C, align(128))]
pub(super) struct Line {
    /// Phases published, wrapping. The word that others sleep on.
    pub(super) phase: AtomicU32,
    /// How many ranks may be asleep on `phase`.
    pub(super) sleepers: AtomicU32,
    /// The rank's process; 0 until it has come.
    pub(super) pid: AtomicU32,
    /// What the rank is in, by the parity of its number of calls.
    pub(super) calls: [Print; 2],
}

/// A call in numbers, to be compared with the others'.
#[repr(C, align(64))]
pub(super) struct Print {
    pub(super) what: AtomicU64,
    pub(super) len: AtomicU64,
}

/// A rank's mapping of the shared memory.
#[derive(Debug)]
pub(super) struct Arena {
    start: NonNull<u8>,
    bytes: usize,
    world: usize,
    chunk: usize,
    piece: usize,
}

// SAFETY: the mapping belongs to this value alone and is reached through it from any thread alike; what other
// processes do to the memory is ordered by the atomics in it.
unsafe impl Send for Arena {}

/// Whether a word is now `mine`: written just now, or by another rank before.
fn agreed<T: PartialEq>(exchanged: Result<T, T>, mine: &T) -> bool {
    exchanged.map_or_else(|there| there == *mine, |_| true)
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

fn total_bytes(chunk: usize, world: usize) -> usize {
    head_bytes(world) + 2 * world * (chunk + piece_bytes(chunk, world))
}

/// The bytes from which on a larger arena brings nothing.
pub(super) fn best_bytes(world: WorldSize) -> u64 {
    total_bytes(MOST_CHUNK, world.index()) as u64
}

/// New shared memory of `bytes` zeros. It lives while the descriptor or a mapping does.
pub fn memory(bytes: u64) -> io::Result<(OwnedFd, ArenaPlace)> {
    let descriptor = rustix::fs::memfd_create("foxlaunch-arena", rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&descriptor, bytes)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd());
    Ok((descriptor, ArenaPlace { path, bytes }))
}

impl Arena {
    /// Opens the memory at `place` as `rank` of `world`.
    pub(super) fn open(place: &ArenaPlace, rank: Rank, world: WorldSize) -> Result<Arena, CollectiveError> {
        let failed = |why: String| CollectiveError::Failed(format!("shared memory {}: {why}", place.path));
        let file = OpenOptions::new().read(true).write(true).open(&place.path).map_err(|e| failed(e.to_string()))?;
        let there = file.metadata().map_err(|e| failed(e.to_string()))?.len();
        if there < place.bytes {
            // a mapping beyond the end would kill the process at its first touch
            return Err(failed(format!("it has {there} bytes, not the {} that were promised", place.bytes)));
        }
        let (bytes, ranks) = (place.bytes as usize, world.index());
        let chunk = chunk_bytes(bytes, ranks).ok_or_else(|| {
            failed(format!("{bytes} bytes are too few for {world} ranks: {}", total_bytes(LEAST_CHUNK, ranks)))
        })?;
        let start = map(&file, bytes).map_err(|e| failed(format!("cannot be mapped: {e}")))?;
        let arena = Arena { start, bytes, world: ranks, chunk, piece: piece_bytes(chunk, ranks) };
        arena.claim(rank).map_err(failed)?;
        Ok(arena)
    }

    /// Writes what all ranks must agree on, or compares with what is there; then takes the rank's line.
    fn claim(&self, rank: Rank) -> Result<(), String> {
        let header = self.header();
        let agree32 = |word: &AtomicU32, mine: u32| agreed(word.compare_exchange(0, mine, AcqRel, Acquire), &mine);
        if !agree32(&header.magic, MAGIC) {
            return Err("it holds something else than an arena of this version".into());
        }
        let chunk = self.chunk as u64;
        let same_chunk = agreed(header.chunk.compare_exchange(0, chunk, AcqRel, Acquire), &chunk);
        if !agree32(&header.world, self.world as u32) || !same_chunk {
            return Err("another rank laid it out for another number of ranks or another size".into());
        }
        let pid = std::process::id();
        match self.line(rank.index()).pid.compare_exchange(0, pid, AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(other) => Err(format!("rank {rank} was taken by process {other} already")),
        }
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: the mapping is page aligned, longer than the header (checked in `open`), and lives as long as
        // `self`. The header holds atomics only, for which any bytes are valid and foreign writes are no race.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    /// The public state of rank `rank`.
    pub(super) fn line(&self, rank: usize) -> &Line {
        assert!(rank < self.world, "rank {rank} in a world of {}", self.world);
        let offset = size_of::<Header>() + rank * size_of::<Line>();
        // SAFETY: as for the header; `head_bytes` has room for `world` lines, and both sizes are multiples of the
        // alignment.
        unsafe { self.start.add(offset).cast::<Line>().as_ref() }
    }

    /// How many bytes one rank can give in one phase.
    pub(super) fn chunk(&self) -> usize {
        self.chunk
    }

    /// Where rank `rank` puts what it gives in phases of this parity: [`Arena::chunk`] bytes.
    pub(super) fn stage(&self, odd: bool, rank: usize) -> *mut u8 {
        assert!(rank < self.world, "rank {rank} in a world of {}", self.world);
        let offset = head_bytes(self.world) + (usize::from(odd) * self.world + rank) * self.chunk;
        // SAFETY: inside the mapping, whose size `total_bytes` gives room for 2 x world chunks.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Where rank `rank` puts what it combined in phases of this parity: at least a chunk divided by the number of
    /// ranks, and what alignment adds.
    pub(super) fn result(&self, odd: bool, rank: usize) -> *mut u8 {
        assert!(rank < self.world, "rank {rank} in a world of {}", self.world);
        let stages = 2 * self.world * self.chunk;
        let offset = head_bytes(self.world) + stages + (usize::from(odd) * self.world + rank) * self.piece;
        // SAFETY: inside the mapping, whose size `total_bytes` gives room for 2 x world pieces behind the stages.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size, and nothing borrowed from it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The largest chunk that `bytes` have room for.
fn chunk_bytes(bytes: usize, world: usize) -> Option<usize> {
    let data = bytes.checked_sub(head_bytes(world))?;
    // a chunk and its part of the results fill a rank's share, but for what alignment takes
    let most = (data / (2 * world) / (world + 1) * world).min(MOST_CHUNK) / ALIGN * ALIGN;
    let fits = |chunk: &usize| *chunk >= LEAST_CHUNK && total_bytes(*chunk, world) <= bytes;
    (0..8).map(|less| most.saturating_sub(less * ALIGN)).find(fits)
}

fn map(file: &File, bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address that the kernel chooses, over a file at least as long.
    let start =
        unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)? };
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_used_or_refused() {
        for world in 1..20 {
            let best = best_bytes(WorldSize(world as u32)) as usize;
            let chunk = chunk_bytes(best, world).unwrap();
            assert!(chunk <= MOST_CHUNK && MOST_CHUNK - chunk < 8 * ALIGN, "{chunk}");
            let mut before = 0;
            for bytes in (0..best + PAGE).step_by(12_345) {
                let chunk = chunk_bytes(bytes, world).unwrap_or(0);
                assert!(chunk >= before && (chunk == 0 || total_bytes(chunk, world) <= bytes));
                before = chunk;
            }
        }
    }

    #[test]
    fn what_is_not_an_arena_for_us_is_refused() {
        let (_memory, place) = memory(1 << 20).unwrap();
        let open = |place: &ArenaPlace, rank, world| Arena::open(place, Rank(rank), WorldSize(world));
        let _first = open(&place, 0, 2).unwrap();
        let text = |result: Result<Arena, CollectiveError>| result.unwrap_err().to_string();
        assert!(text(open(&place, 0, 2)).contains("taken by process"));
        assert!(text(open(&place, 1, 3)).contains("another number of ranks"));
        let longer = ArenaPlace { bytes: 2 << 20, ..place.clone() };
        assert!(text(open(&longer, 1, 2)).contains("promised"));
        let short = ArenaPlace { bytes: 4096, ..place };
        assert!(text(open(&short, 1, 2)).contains("too few"));
        let missing = ArenaPlace { path: "/proc/self/fd/999999".into(), bytes: 1 << 20 };
        assert!(text(open(&missing, 1, 2)).contains("999999"));
        let mut foreign = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut foreign, &vec![7; 1 << 20]).unwrap();
        let foreign = ArenaPlace { path: foreign.path().to_string_lossy().into_owned(), bytes: 1 << 20 };
        assert!(text(open(&foreign, 1, 2)).contains("something else"));
    }
}
