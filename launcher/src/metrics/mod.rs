//! A job's numbers for Prometheus, on request (`--metrics-addr`): kept here, written by [`text`], given out by
//! [`server`].

pub mod address;
pub mod server;
pub mod text;

use foxlaunch_shared::ids::{Attempt, Rank};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What is known of one rank in this attempt.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfRank {
    is_up: bool,
    step: u64,
    collectives: u64,
    /// When its counters last changed.
    progress: Option<Instant>,
    exit_code: Option<i32>,
}

/// The memory of one GPU, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GpuMemory {
    index: u32,
    uuid: String,
    used: u64,
    total: u64,
}

#[derive(Debug)]
struct Numbers {
    run: String,
    verb: String,
    attempt: Attempt,
    restarts: u64,
    ranks: BTreeMap<Rank, OfRank>,
    logged: BTreeMap<Rank, Arc<AtomicU64>>,
    gpus: Vec<GpuMemory>,
}

/// The numbers. Clones share them.
#[derive(Clone, Debug)]
pub struct Gauges(Arc<Mutex<Numbers>>);

impl Gauges {
    /// Those of the run named `run`, that does `verb` and begins with `attempt`.
    pub fn new(run: &str, verb: &str, attempt: Attempt) -> Gauges {
        let (run, verb) = (run.to_owned(), verb.to_owned());
        let (ranks, logged, gpus) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Gauges(Arc::new(Mutex::new(Numbers { run, verb, attempt, restarts: 0, ranks, logged, gpus })))
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        // Plain numbers: none is half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker was started.
    pub fn spawned(&self, attempt: Attempt, rank: Rank) {
        let mut numbers = self.lock();
        if numbers.attempt != attempt {
            numbers.attempt = attempt;
            numbers.ranks.clear();
        }
        numbers.ranks.insert(rank, OfRank { is_up: true, ..OfRank::default() });
    }

    /// A worker told of its progress.
    pub fn progress(&self, attempt: Attempt, rank: Rank, step: u64, collectives: u64) {
        let mut numbers = self.lock();
        if numbers.attempt != attempt {
            return;
        }
        if let Some(of_rank) = numbers.ranks.get_mut(&rank) {
            let is_new = (of_rank.step, of_rank.collectives) != (step, collectives);
            if is_new || of_rank.progress.is_none() {
                of_rank.progress = Some(Instant::now());
            }
            (of_rank.step, of_rank.collectives) = (step, collectives);
        }
    }

    /// A worker ended with what counts as `code`.
    pub fn exited(&self, attempt: Attempt, rank: Rank, code: i32) {
        let mut numbers = self.lock();
        if numbers.attempt != attempt {
            return;
        }
        if let Some(of_rank) = numbers.ranks.get_mut(&rank) {
            (of_rank.is_up, of_rank.exit_code) = (false, Some(code));
        }
    }

    /// The world will be started again.
    pub fn restarted(&self) {
        self.lock().restarts += 1;
    }

    /// Where the bytes of a rank's output are counted, over all attempts.
    pub fn logged(&self, rank: Rank) -> Arc<AtomicU64> {
        self.lock().logged.entry(rank).or_default().clone()
    }

    /// The numbers in Prometheus' text format.
    pub fn to_text(&self) -> String {
        let resident = crate::process::surroundings::resident_memory();
        text::write(&self.lock(), resident)
    }

    /// Looks at the GPUs' memory now and then, on a thread of its own, until the driver does not answer.
    pub fn watch_gpus(&self) -> std::io::Result<()> {
        let gauges = self.clone();
        crate::process::signals::spawn_deaf("gpu-memory", move || {
            // A driver that is asked again while it hangs holds one thread more each time.
            while let Ok(gpus) = crate::devices::nvml::memory() {
                let memory = |(gpu, used): (crate::devices::Gpu, u64)| GpuMemory {
                    index: gpu.index,
                    uuid: gpu.uuid,
                    used,
                    total: gpu.memory_bytes,
                };
                gauges.lock().gpus = gpus.into_iter().map(memory).collect();
                std::thread::sleep(std::time::Duration::from_secs(5));
            }
            gauges.lock().gpus.clear();
        })
        .map(drop)
    }
}

impl Numbers {
    fn logged_of(&self, rank: Rank) -> u64 {
        self.logged.get(&rank).map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }
}
