//! What waits for the console, with a limit: a console that does not keep up is waited for a moment, and one that
//! stands still is not waited for at all, so no worker ever hangs on it. What finds no room is counted.

use super::mux::Stream;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that may wait.
const ROOM: usize = 8 << 20;
/// How long a worker's output waits for room, before the console counts as standing still.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whole lines of one worker, as they are to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Where.
    pub stream: Stream,
    /// The lines, each with its end.
    pub bytes: Vec<u8>,
    /// How many.
    pub lines: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<Batch>,
    bytes: usize,
    left_out: u64,
    stands_still: bool,
    closed: bool,
}

/// The queue. Many push, one takes.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `batch`, or counts its lines as left out.
    pub fn push(&self, batch: Batch) {
        if batch.lines == 0 {
            return;
        }
        let full = |state: &mut Waiting| state.bytes >= ROOM && !state.stands_still;
        let waited = self.changed.wait_timeout_while(self.lock(), PATIENCE, full);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        state.stands_still |= timeout.timed_out();
        if state.bytes >= ROOM {
            state.left_out += batch.lines;
            return;
        }
        state.bytes += batch.bytes.len();
        state.batches.push_back(batch);
        drop(state);
        self.changed.notify_all();
    }

    /// Nothing more will be pushed.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits for batches and takes all there are; empty when closed and empty.
    pub fn take(&self) -> Vec<Batch> {
        let idle = |state: &mut Waiting| state.batches.is_empty() && !state.closed;
        let mut state = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        state.bytes = 0;
        state.stands_still = false;
        let taken = state.batches.drain(..).collect();
        drop(state);
        self.changed.notify_all();
        taken
    }

    /// Lines that found no room.
    pub fn left_out(&self) -> u64 {
        self.lock().left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(bytes: usize) -> Batch {
        Batch { stream: Stream::Out, bytes: vec![b'x'; bytes], lines: 1 }
    }

    #[test]
    fn a_console_that_stands_still_is_not_waited_for_twice() {
        let queue = Queue::default();
        queue.push(batch(ROOM));
        let start = std::time::Instant::now();
        (0..100).for_each(|_| queue.push(batch(1)));
        assert!(start.elapsed() < 10 * PATIENCE, "only the first waits");
        assert_eq!(queue.left_out(), 100);
        assert_eq!(queue.take().len(), 1);
        queue.push(batch(1));
        assert_eq!((queue.take().len(), queue.left_out()), (1, 100));
        queue.close();
        assert!(queue.take().is_empty());
    }

    #[test]
    fn one_that_reads_gets_everything() {
        let queue = std::sync::Arc::new(Queue::default());
        let pushing = queue.clone();
        let pusher = std::thread::spawn(move || {
            (0..64).for_each(|_| pushing.push(batch(1 << 20)));
            pushing.close();
        });
        let mut bytes = 0;
        loop {
            let taken = queue.take();
            if taken.is_empty() {
                break;
            }
            bytes += taken.iter().map(|batch| batch.bytes.len()).sum::<usize>();
        }
        pusher.join().unwrap();
        assert_eq!((bytes, queue.left_out()), (64 << 20, 0));
    }
}
