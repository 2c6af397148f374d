//! From the workers' pipes to their logs and to the console.
//!
//! A thread for each pipe reads bytes and writes them into the worker's log at once. Lines for the console go
//! through a queue with a limit: if the console does not keep up, lines are left out there and counted, but the
//! log has them, and no worker waits.

use super::file::LogFile;
use super::prefix::Lines;
use super::tail::Tail;
use foxlaunch_shared::ids::Rank;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines that may wait for the console.
const QUEUE: usize = 4096;
/// How long the end of the output is waited for, once every process is gone.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Where a worker printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Out,
    /// Its standard error.
    Err,
}

/// A line for the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Who printed it.
    pub rank: Rank,
    /// Where.
    pub stream: Stream,
    /// What, without its end.
    pub bytes: Vec<u8>,
}

/// All readers of one job.
#[derive(Debug)]
pub struct Mux {
    queue: SyncSender<Line>,
    left_out: Arc<AtomicU64>,
    readers: Vec<JoinHandle<()>>,
    console: JoinHandle<()>,
}

impl Mux {
    /// Starts the console, on which `show` puts each line.
    pub fn start(mut show: impl FnMut(&Line) + Send + 'static) -> std::io::Result<Mux> {
        let (queue, lines): (_, Receiver<Line>) = sync_channel(QUEUE);
        let console = std::thread::Builder::new().name("console".into()).spawn(move || {
            lines.iter().for_each(|line| show(&line));
        })?;
        Ok(Mux { queue, left_out: Arc::new(AtomicU64::new(0)), readers: Vec::new(), console })
    }

    /// Reads `pipe` to its end, on a thread of its own. `warn` is told if the log fails.
    pub fn read(
        &mut self,
        rank: Rank,
        stream: Stream,
        mut pipe: impl Read + Send + 'static,
        log: Arc<LogFile>,
        tail: Arc<Mutex<Tail>>,
        warn: impl Fn(String) + Send + 'static,
    ) -> std::io::Result<()> {
        let (queue, left_out) = (self.queue.clone(), self.left_out.clone());
        let reader =
            std::thread::Builder::new().name(format!("output-{rank}")).stack_size(256 << 10).spawn(move || {
                let mut lines = Lines::default();
                let mut show = |line: &[u8]| {
                    if let Ok(mut tail) = tail.lock() {
                        tail.push(line);
                    }
                    let line = Line { rank, stream, bytes: line.to_vec() };
                    if let Err(TrySendError::Full(_)) = queue.try_send(line) {
                        left_out.fetch_add(1, Ordering::Relaxed);
                    }
                };
                let mut buffer = vec![0; 64 * 1024];
                loop {
                    match pipe.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(n) => {
                            log.write(&buffer[..n]).into_iter().for_each(&warn);
                            lines.push(&buffer[..n], &mut show);
                        }
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
                lines.finish(&mut show);
            })?;
        self.readers.push(reader);
        Ok(())
    }

    /// Waits until all that was printed is shown, for a bounded time: a console that is not read cannot hold us.
    /// Gives the number of lines that were left out on the console.
    pub fn finish(self) -> u64 {
        let Mux { queue, left_out, readers, console } = self;
        let start = Instant::now();
        let wait = |thread: JoinHandle<()>| {
            let mut pause = Duration::from_micros(50);
            while !thread.is_finished() && start.elapsed() < LAST_WAIT {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(5));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        };
        readers.into_iter().for_each(wait);
        drop(queue);
        wait(console);
        left_out.load(Ordering::Relaxed)
    }
}
