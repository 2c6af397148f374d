//! The thread that writes to one of our own outputs what others put into its [`Queue`].

use super::mux::Stream;
use super::queue::Queue;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the end of the output is waited for.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(5);

/// How many batches are joined to one write: no more memory than a few reads' worth is taken for it.
const AT_ONCE: usize = 8;

/// A queue and the thread that empties it.
#[derive(Debug)]
pub struct Console {
    queue: Arc<Queue>,
    writer: JoinHandle<()>,
}

impl Console {
    /// Starts the thread, which is called `name` and gives what it takes to `write`.
    pub fn start(name: &str, mut write: impl FnMut(Stream, &[u8]) + Send + 'static) -> std::io::Result<Console> {
        let queue = Arc::new(Queue::default());
        let taking = queue.clone();
        let writer = std::thread::Builder::new().name(name.into()).spawn(move || {
            loop {
                let batches = taking.take();
                if batches.is_empty() {
                    return;
                }
                // As few writes as the order of the two streams allows.
                for same in batches.chunk_by(|a, b| a.stream == b.stream).flat_map(|same| same.chunks(AT_ONCE)) {
                    match same {
                        [only] => write(only.stream, &only.bytes),
                        several => {
                            let all: Vec<&[u8]> = several.iter().map(|batch| batch.bytes.as_slice()).collect();
                            write(several[0].stream, &all.concat());
                        }
                    }
                }
            }
        })?;
        Ok(Console { queue, writer })
    }

    /// What is to be written goes here.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Waits until all is written, for a bounded time: an output that is not read cannot hold us. Gives the number of
    /// lines that were left out.
    pub fn finish(self) -> u64 {
        self.queue.close();
        wait_for(self.writer, Instant::now() + LAST_WAIT);
        self.queue.left_out()
    }
}

/// Waits for the end of `thread` until `deadline`; one that is stuck then is left behind.
pub(super) fn wait_for(thread: JoinHandle<()>, deadline: Instant) {
    let mut pause = Duration::from_micros(50);
    while !thread.is_finished() && Instant::now() < deadline {
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
    if thread.is_finished() {
        let _ = thread.join();
    }
}
