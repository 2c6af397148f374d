//! From the workers' pipes to their logs and to the console.
//!
//! A thread for each pipe reads bytes, writes them into the worker's log at once, and puts whole lines with their
//! rank into the [`Queue`], from which one thread writes them to the console.

use super::file::LogFile;
use super::prefix::{Lines, printable};
use super::queue::{Batch, Queue};
use super::tail::Tail;
use foxlaunch_shared::ids::Rank;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

/// Where a worker's output goes.
#[derive(Clone, Debug)]
pub struct Sinks {
    /// All of it, byte for byte.
    pub log: Arc<LogFile>,
    /// The last lines.
    pub tail: Arc<Mutex<Tail>>,
    /// What stands before each line on the console; `None` for a rank that is not shown there.
    pub prefix: Option<String>,
}

/// All readers of one job.
#[derive(Debug)]
pub struct Mux {
    queue: Arc<Queue>,
    readers: Vec<JoinHandle<()>>,
    console: JoinHandle<()>,
}

impl Mux {
    /// Starts the console, to which `write` writes.
    pub fn start(mut write: impl FnMut(Stream, &[u8]) + Send + 'static) -> std::io::Result<Mux> {
        let queue = Arc::new(Queue::default());
        let taking = queue.clone();
        let console = std::thread::Builder::new().name("console".into()).spawn(move || {
            loop {
                let batches = taking.take();
                if batches.is_empty() {
                    return;
                }
                // As few writes as the order of the two streams allows.
                for same in batches.chunk_by(|a, b| a.stream == b.stream) {
                    let bytes: Vec<u8> = same.iter().flat_map(|batch| &batch.bytes).copied().collect();
                    write(same[0].stream, &bytes);
                }
            }
        })?;
        Ok(Mux { queue, readers: Vec::new(), console })
    }

    /// Reads `pipe`, an output of `rank`, to its end, on a thread of its own. `warn` is told if the log fails.
    pub fn read(
        &mut self,
        rank: Rank,
        stream: Stream,
        mut pipe: impl Read + Send + 'static,
        sinks: Sinks,
        warn: impl Fn(String) + Send + 'static,
    ) -> std::io::Result<()> {
        let queue = self.queue.clone();
        let name = format!("output-{rank}");
        let reader = std::thread::Builder::new().name(name).stack_size(256 << 10).spawn(move || {
            let mut lines = Lines::default();
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let read = match pipe.read(&mut buffer) {
                    Ok(read) => read,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(_) => 0,
                };
                let mut batch = Batch { stream, bytes: Vec::with_capacity(2 * read), lines: 0 };
                let mut show = |line: &[u8]| {
                    if let Ok(mut tail) = sinks.tail.lock() {
                        tail.push(line);
                    }
                    if let Some(prefix) = &sinks.prefix {
                        append(&mut batch, prefix, line);
                    }
                };
                if read == 0 {
                    lines.finish(&mut show);
                    queue.push(batch);
                    return;
                }
                sinks.log.write(&buffer[..read]).into_iter().for_each(&warn);
                lines.push(&buffer[..read], &mut show);
                queue.push(batch);
            }
        })?;
        self.readers.push(reader);
        Ok(())
    }

    /// Waits until all that was printed is shown, for a bounded time: a console that is not read cannot hold us.
    /// Gives the number of lines that were left out on the console.
    pub fn finish(self) -> u64 {
        let Mux { queue, readers, console } = self;
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
        queue.close();
        wait(console);
        queue.left_out()
    }
}

fn append(batch: &mut Batch, prefix: &str, line: &[u8]) {
    batch.bytes.extend_from_slice(prefix.as_bytes());
    match line.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        true => batch.bytes.extend_from_slice(line),
        false => batch.bytes.extend_from_slice(printable(&String::from_utf8_lossy(line)).as_bytes()),
    }
    batch.bytes.push(b'\n');
    batch.lines += 1;
}
