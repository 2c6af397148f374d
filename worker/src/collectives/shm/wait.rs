//! How ranks meet: each publishes the number of its phase and waits until all others have published it too.
//!
//! A rule carries everything else: *memory written in phase p, before it is published, may be read by the others
//! from the end of that phase's wait until they publish phase p + 1, and written again in phase p + 2.* So two
//! copies of every buffer, by the parity of the phase, are enough.
//!
//! A waiting rank spins a little, then sleeps on the other's phase word (a futex), and looks around every
//! [`LOOK_AROUND`]: was it told to give up, has a process ended, is its time over?

use super::arena::{Arena, Line};
use crate::collectives::call::Call;
use crate::collectives::{AbortFlag, CollectiveError};
use foxlaunch_shared::ids::{Rank, WorldSize};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::futex;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a rank sleeps before it looks whether the others still live.
const LOOK_AROUND: Duration = Duration::from_millis(50);
/// Before it sleeps, a rank gives up its core this often, in case the other one needs it, and looks [`SPINS`] times
/// in between: together about as long as a sleep would cost.
const YIELDS: u32 = 6;
/// Looks at another's phase between two yields, where each rank has a core.
const SPINS: u32 = 100;

/// One rank among the others.
#[derive(Debug)]
pub(super) struct Meeting {
    pub(super) arena: Arc<Arena>,
    rank: usize,
    world: usize,
    phase: u32,
    spins: u32,
    peers: Vec<Peer>,
    within: Duration,
    abort: Arc<AbortFlag>,
}

/// A handle on another rank's process, by which its end is seen.
#[derive(Debug)]
enum Peer {
    /// It has not come yet, or it is this rank itself.
    Unknown,
    Alive(OwnedFd),
    Gone,
    /// The operating system gives no handle: the launcher's word must do.
    Unwatched,
}

impl Meeting {
    pub(super) fn new(
        arena: Arc<Arena>,
        rank: Rank,
        world: WorldSize,
        within: Duration,
        abort: Arc<AbortFlag>,
    ) -> Meeting {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spins = if cores < world.index() { 0 } else { SPINS };
        let peers = world.ranks().map(|_| Peer::Unknown).collect();
        Meeting { arena, rank: rank.index(), world: world.index(), phase: 0, spins, peers, within, abort }
    }

    /// Whether the phase to be published next is odd: which copy of the buffers it uses.
    pub(super) fn odd(&self) -> bool {
        self.phase & 1 == 1
    }

    /// Publishes the next phase, that of `call`, and waits for all others to do so. In a call's first phase
    /// everyone is asked whether it is in the same call.
    pub(super) fn meet(&mut self, call: &Call, first: bool) -> Result<(), CollectiveError> {
        if let Some(error) = self.abort.error(&call.to_string()) {
            return Err(error);
        }
        let slot = call.number as usize & 1;
        let line = self.arena.line(self.rank);
        if first {
            let (what, len) = call.packed();
            line.calls[slot].what.store(what, Ordering::Relaxed);
            line.calls[slot].len.store(len, Ordering::Relaxed);
        }
        self.phase = self.phase.wrapping_add(1);
        line.phase.store(self.phase, Ordering::SeqCst);
        if line.sleepers.load(Ordering::SeqCst) != 0 {
            wake(line);
        }
        for step in 1..self.world {
            let peer = (self.rank + step) % self.world;
            self.wait_for(peer, call)?;
            if first {
                let print = &self.arena.line(peer).calls[slot];
                let there = (print.what.load(Ordering::Relaxed), print.len.load(Ordering::Relaxed));
                if there != call.packed() {
                    return Err(CollectiveError::Mismatch {
                        rank: Rank(self.rank as u32),
                        here: call.to_string(),
                        other: Rank(peer as u32),
                        there: Call::unpacked(there).to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    fn reached(&self, peer: usize) -> bool {
        // no rank is ever more than a few phases ahead, so the difference tells which one is, also past the wrap
        self.arena.line(peer).phase.load(Ordering::Acquire).wrapping_sub(self.phase) as i32 >= 0
    }

    fn wait_for(&mut self, peer: usize, call: &Call) -> Result<(), CollectiveError> {
        for _ in 0..YIELDS {
            for _ in 0..=self.spins {
                if self.reached(peer) {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
        let since = Instant::now();
        loop {
            if self.sleep_on(peer) {
                return Ok(());
            }
            self.look_around(peer, call, since)?;
        }
    }

    /// Sleeps until `peer` publishes something or it is time to look around. Whether it has come.
    fn sleep_on(&self, peer: usize) -> bool {
        let line = self.arena.line(peer);
        line.sleepers.fetch_add(1, Ordering::SeqCst);
        let seen = line.phase.load(Ordering::SeqCst);
        if !self.reached(peer) {
            let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_AROUND.as_nanos() as _ };
            // not PRIVATE, since it is another process that wakes; whatever ends the sleep, the word tells
            let _ = futex::wait(&line.phase, futex::Flags::empty(), seen, Some(&timeout));
        }
        line.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.reached(peer)
    }

    fn look_around(&mut self, peer: usize, call: &Call, since: Instant) -> Result<(), CollectiveError> {
        if let Some(error) = self.abort.error(&call.to_string()) {
            return Err(error);
        }
        if let Some(lost) = self.lost() {
            return Err(CollectiveError::PeerLost(Rank(lost as u32), call.to_string()));
        }
        if since.elapsed() >= self.within {
            return Err(CollectiveError::TimedOut(Rank(peer as u32), call.to_string(), self.within.as_secs()));
        }
        Ok(())
    }

    /// A rank that ended without coming to this phase. All ranks give the same answer: that of the first to see.
    fn lost(&mut self) -> Option<usize> {
        if self.arena.header().lost.load(Ordering::Acquire) == 0 {
            // who came and then ended is not missed: what it had to give is in memory
            let missed = (0..self.world).filter(|&other| other != self.rank && !self.reached(other));
            let missed: Vec<usize> = missed.collect();
            let is_gone = |&other: &usize| is_gone(&mut self.peers[other], self.arena.line(other));
            let gone = missed.into_iter().find(is_gone)?;
            if self.reached(gone) {
                return None; // it came between the two looks, and then ended
            }
            // whoever leaves because of it may be found dead next: the first name stays
            let first = &self.arena.header().lost;
            let _ = first.compare_exchange(0, gone as u32 + 1, Ordering::AcqRel, Ordering::Acquire);
            (0..self.world).for_each(|rank| wake(self.arena.line(rank)));
        }
        Some(self.arena.header().lost.load(Ordering::Acquire) as usize - 1)
    }
}

fn wake(line: &Line) {
    let _ = futex::wake(&line.phase, futex::Flags::empty(), i32::MAX as u32);
}

/// Whether the process behind `line` has ended.
fn is_gone(peer: &mut Peer, line: &Line) -> bool {
    if matches!(peer, Peer::Unknown) {
        let Some(pid) = Pid::from_raw(line.pid.load(Ordering::Acquire) as i32) else { return false };
        *peer = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Peer::Alive(handle),
            Err(rustix::io::Errno::SRCH) => Peer::Gone,
            Err(_) => Peer::Unwatched,
        };
    }
    if let Peer::Alive(handle) = peer {
        let mut poll_for = [PollFd::new(handle, PollFlags::IN)];
        // a process handle becomes readable when the process has ended, reaped or not
        if poll(&mut poll_for, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0) {
            *peer = Peer::Gone;
        }
    }
    matches!(peer, Peer::Gone)
}
