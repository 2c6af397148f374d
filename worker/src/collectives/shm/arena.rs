//! The shared memory itself: one mapping, laid out the same by every rank as [`layout`](super::layout) says.
//!
//! Memory of zeros is a valid arena that nobody has joined, so it needs no maker but the operating system.

use super::layout::{Layout, needed_bytes};
use super::slots::Leases;
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
const MAGIC: u32 = 0xA2E4_0002;

/// The head of an arena.
#[repr(C, align(128))]
pub(super) struct Header {
    magic: AtomicU32,
    world: AtomicU32,
    bytes: AtomicU64,
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
    layout: Layout,
    /// Which parts of this rank's own numbers are in use.
    pub(super) leases: Leases,
}

// SAFETY: the mapping belongs to this value alone and is reached through it from any thread alike; what other
// processes do to the memory is ordered by the atomics in it.
unsafe impl Send for Arena {}
// SAFETY: a shared reference gives atomics, pointers and a lock only.
unsafe impl Sync for Arena {}

/// Whether a word is now `mine`: written just now, or by another rank before.
fn agreed<T: PartialEq>(exchanged: Result<T, T>, mine: &T) -> bool {
    exchanged.map_or_else(|there| there == *mine, |_| true)
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
        let layout = Layout::of(bytes, ranks)
            .ok_or_else(|| failed(format!("{bytes} bytes are too few for {world} ranks: {}", needed_bytes(ranks))))?;
        let start = map(&file, bytes).map_err(|e| failed(format!("cannot be mapped: {e}")))?;
        let arena = Arena { start, layout, leases: Leases::new(layout.slot) };
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
        let bytes = self.layout.bytes as u64;
        let same_bytes = agreed(header.bytes.compare_exchange(0, bytes, AcqRel, Acquire), &bytes);
        if !agree32(&header.world, self.layout.world as u32) || !same_bytes {
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
        let line = self.at(self.layout.line(rank)).cast::<Line>();
        // SAFETY: as for the header; the layout has room for `world` lines, and both sizes are multiples of the
        // alignment.
        unsafe { &*line }
    }

    /// How many bytes one rank can give in one phase.
    pub(super) fn chunk(&self) -> usize {
        self.layout.chunk
    }

    /// Where rank `rank` puts what it gives in phases of this parity: [`Arena::chunk`] bytes.
    pub(super) fn stage(&self, odd: bool, rank: usize) -> *mut u8 {
        self.at(self.layout.stage(odd, rank))
    }

    /// Where rank `rank` puts what it combined in phases of this parity: at least a chunk divided by the number of
    /// ranks, and what alignment adds.
    pub(super) fn result(&self, odd: bool, rank: usize) -> *mut u8 {
        self.at(self.layout.result(odd, rank))
    }

    /// Where rank `rank` keeps numbers of its own between calls.
    pub(super) fn slot(&self, rank: usize) -> *mut u8 {
        self.at(self.layout.slot_of(rank))
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.layout.bytes, "{offset} in an arena of {}", self.layout.bytes);
        // SAFETY: inside the mapping, or just behind its last byte.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size, and nothing borrowed from it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.layout.bytes) };
    }
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
