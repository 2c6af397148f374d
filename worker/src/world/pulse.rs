//! How far this process is, in counters that the line's own thread reads: a rank that is stuck inside a call says
//! nothing any more, but what it entered last is seen.

use crate::collectives::{Buffer, Collective, CollectiveError, ReduceOp, SharedF32};
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::{FromWorker, Phase, Transport};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The counters. They only grow, but for the phase.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    step: AtomicU64,
    collectives: AtomicU64,
    phase: AtomicU8,
}

const PHASES: [Phase; 4] = [Phase::Init, Phase::Step, Phase::Checkpoint, Phase::Evaluate];

impl Pulse {
    /// Sets what only training knows.
    pub(crate) fn set(&self, step: u64, phase: Phase) {
        self.step.store(step, Ordering::Relaxed);
        let number = PHASES.iter().position(|p| *p == phase).unwrap_or(0);
        self.phase.store(number as u8, Ordering::Relaxed);
    }

    /// Collectives entered.
    pub(crate) fn collectives(&self) -> u64 {
        self.collectives.load(Ordering::Relaxed)
    }

    /// The counters as a message.
    pub(crate) fn report(&self) -> FromWorker {
        FromWorker::Progress {
            step: self.step.load(Ordering::Relaxed),
            collectives: self.collectives(),
            phase: PHASES[usize::from(self.phase.load(Ordering::Relaxed)) % PHASES.len()],
            display: None,
        }
    }
}

/// A collective whose calls are counted as they are entered.
pub(super) struct Counted {
    inner: Box<dyn Collective>,
    pulse: Arc<Pulse>,
}

impl Counted {
    pub(super) fn new(inner: Box<dyn Collective>, pulse: Arc<Pulse>) -> Counted {
        Counted { inner, pulse }
    }

    fn enter(&mut self) -> &mut dyn Collective {
        self.pulse.collectives.fetch_add(1, Ordering::Relaxed);
        self.inner.as_mut()
    }
}

impl Collective for Counted {
    fn rank(&self) -> Rank {
        self.inner.rank()
    }

    fn world_size(&self) -> WorldSize {
        self.inner.world_size()
    }

    fn transport(&self) -> Transport {
        self.inner.transport()
    }

    fn all_reduce(&mut self, data: Buffer<'_>, op: ReduceOp) -> Result<(), CollectiveError> {
        self.enter().all_reduce(data, op)
    }

    fn shared(&mut self, len: usize) -> Option<SharedF32> {
        self.inner.shared(len)
    }

    fn all_reduce_shared(&mut self, data: &mut SharedF32, op: ReduceOp) -> Result<(), CollectiveError> {
        self.enter().all_reduce_shared(data, op)
    }

    fn broadcast(&mut self, data: &mut [u8], root: Rank) -> Result<(), CollectiveError> {
        self.enter().broadcast(data, root)
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), CollectiveError> {
        self.enter().all_gather(mine, all)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.enter().barrier()
    }

    fn calls(&self) -> u64 {
        self.inner.calls()
    }

    fn replayed(&mut self, calls: u64) -> Result<(), CollectiveError> {
        self.pulse.collectives.fetch_add(calls, Ordering::Relaxed);
        self.inner.replayed(calls)
    }

    fn check_calls(&mut self, check: bool) {
        self.inner.check_calls(check);
    }

    fn checks_calls(&self) -> bool {
        self.inner.checks_calls()
    }
}
