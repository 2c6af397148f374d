//! From the workers' pipes to their logs and to the console.
//!
//! A thread for each pipe reads bytes, writes them into the worker's log at once, and puts whole lines with their
//! rank into the queue of the [`Console`], from which one thread writes them.

use super::console::{Console, LAST_WAIT, wait_for};
use super::file::{LogFile, Trouble};
use super::prefix::{Lines, printable_into};
use super::queue::Batch;
use super::tail::Tail;
use super::template::Prefix;
use foxlaunch_shared::ids::Rank;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is read at once.
pub const BLOCK: usize = 256 << 10;

/// Where a worker printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Out,
    /// Its standard error.
    Err,
}

/// Where a worker's output goes.
#[derive(Clone, Debug)]
pub struct Sinks {
    /// All of it, byte for byte.
    pub log: Arc<LogFile>,
    /// The last lines.
    pub tail: Arc<Mutex<Tail>>,
    /// What stands before each line on the console; `None` for a rank that is not shown there.
    pub prefix: Option<Prefix>,
}

/// All readers of one job.
#[derive(Debug)]
pub struct Mux {
    console: Console,
    readers: Vec<JoinHandle<()>>,
}

impl Mux {
    /// Starts the console, to which `write` writes.
    pub fn start(write: impl FnMut(Stream, &[u8]) + Send + 'static) -> std::io::Result<Mux> {
        Ok(Mux { console: Console::start("console", write)?, readers: Vec::new() })
    }

    /// Reads `pipe`, an output of `rank`, to its end, on a thread of its own. `warn` is told what becomes of the log.
    pub fn read(
        &mut self,
        rank: Rank,
        stream: Stream,
        mut pipe: impl Read + Send + 'static,
        sinks: Sinks,
        warn: impl Fn(Trouble) + Send + 'static,
    ) -> std::io::Result<()> {
        let queue = self.console.queue().clone();
        let name = format!("output-{rank}");
        let reader = std::thread::Builder::new().name(name).stack_size(256 << 10).spawn(move || {
            let mut lines = Lines::default();
            let mut buffer = vec![0; BLOCK];
            loop {
                let read = match pipe.read(&mut buffer) {
                    Ok(read) => read,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(_) => 0,
                };
                sinks.log.write(&buffer[..read]).into_iter().for_each(&warn);
                let prefix = sinks.prefix.as_ref().map(Prefix::now);
                let mut batch = Batch { stream, bytes: Vec::new(), lines: 0 };
                let mut tail = sinks.tail.lock().unwrap_or_else(PoisonError::into_inner);
                let show = |line: &[u8]| {
                    tail.push(line);
                    if let Some(prefix) = &prefix {
                        append(&mut batch, prefix, line);
                    }
                };
                match read {
                    0 => lines.finish(show),
                    // Of what no one sees only the end is of use, for the report of a failure.
                    _ if prefix.is_none() => lines.push_end(&buffer[..read], show),
                    _ => lines.push(&buffer[..read], show),
                }
                drop(tail);
                queue.push(batch);
                if read == 0 {
                    return;
                }
            }
        })?;
        self.readers.push(reader);
        Ok(())
    }

    /// Waits until all that was printed is shown, for a bounded time: a console that is not read cannot hold us.
    /// Gives the number of lines that were left out on the console.
    /// Who does not even end when killed (`is_held`) holds its output open: that is not waited for.
    pub fn finish(self, is_held: bool) -> u64 {
        let deadline = Instant::now() + if is_held { Duration::from_millis(200) } else { LAST_WAIT };
        self.readers.into_iter().for_each(|reader| wait_for(reader, deadline));
        self.console.finish()
    }
}

fn append(batch: &mut Batch, prefix: &str, line: &[u8]) {
    batch.bytes.extend_from_slice(prefix.as_bytes());
    printable_into(&mut batch.bytes, line);
    batch.bytes.push(b'\n');
    batch.lines += 1;
}
