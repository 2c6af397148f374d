//! Signs of life of workers that report nothing: what they printed, and the processor time that they used.

use super::{Actor, Arc};
use crate::plan::HangOn;
use crate::process::usage::Processes;
use crate::supervisor::health::Signs;
use foxlaunch_shared::ids::{Attempt, Rank};
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

/// `pipe`, with the bytes that come through it added to `count`.
pub(super) fn counted(pipe: impl Read + Send + 'static, count: &Arc<AtomicU64>) -> Box<dyn Read + Send> {
    Box::new(Counted { pipe, count: Arc::clone(count) })
}

struct Counted<R> {
    pipe: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.pipe.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Actor<'_> {
    /// Of each worker of `attempt` that runs, as of now.
    pub(super) fn signs(&self, attempt: Attempt) -> Vec<(Rank, Signs)> {
        let is_needed = self.plan.hang_on == Some(HangOn::Cpu);
        let processes = if is_needed { Processes::read() } else { Processes::default() };
        let running = self.running.iter().filter(|(_, running)| running.attempt == attempt);
        running
            .map(|(rank, running)| {
                let signs = Signs { output: running.output.load(Ordering::Relaxed), cpu: processes.ticks(running.pid) };
                (*rank, signs)
            })
            .collect()
    }
}
