//! Ends a process that cannot end itself.
//!
//! When a peer dies, the training thread is usually not in one of our calls but inside the driver, waiting for a device
//! whose all-reduce never ends. Nothing can call it back from there. Its state is lost in any case (the step is half
//! done), so a guard thread ends the process: soon if nobody has noticed, a little later if somebody has but hangs on
//! the way out, where the driver may wait for the same kernel.

use crate::collectives::AbortFlag;
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::Rank;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at the flag.
const LOOK: Duration = Duration::from_millis(50);
/// How long the training thread may take to notice.
const NOTICE_WITHIN: Duration = Duration::from_secs(1);
/// How long the process may take to end once it has: time for last words and for closing files.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);

/// Watches the abort flag for one communicator.
pub(super) struct Guard {
    noticed: Arc<AtomicBool>,
    /// Dropped to end a thread that has nothing to do.
    alive: Option<mpsc::Sender<()>>,
}

impl Guard {
    /// Starts the thread.
    pub(super) fn start(abort: Arc<AbortFlag>, rank: Rank) -> std::io::Result<Guard> {
        let noticed = Arc::new(AtomicBool::new(false));
        let (alive, closed) = mpsc::channel();
        let seen = Arc::clone(&noticed);
        thread::Builder::new().name("nccl-guard".into()).spawn(move || {
            if let Some(why) = watch(&abort, &closed) {
                end(&why, rank, &seen);
            }
        })?;
        Ok(Guard { noticed, alive: Some(alive) })
    }

    /// Says that the training thread has the error in its hands.
    pub(super) fn notice(&self) {
        self.noticed.store(true, Ordering::Release);
    }

    /// Ends the watch: the work is done, and what happens to the others from now on is not this process's business.
    pub(super) fn dismiss(&mut self) {
        self.alive = None;
    }
}

/// Why the flag was raised, or nothing if the communicator was closed before.
fn watch(abort: &AbortFlag, closed: &mpsc::Receiver<()>) -> Option<String> {
    loop {
        if let Some(why) = abort.raised() {
            return Some(why);
        }
        if closed.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Disconnected) {
            return None;
        }
    }
}

fn end(why: &str, rank: Rank, noticed: &AtomicBool) -> ! {
    let start = Instant::now();
    while start.elapsed() < if noticed.load(Ordering::Acquire) { LEAVE_WITHIN } else { NOTICE_WITHIN } {
        thread::sleep(LOOK);
    }
    if !noticed.load(Ordering::Acquire) {
        eprintln!("foxlaunch: rank {rank} waits for its device, which waits for the others: {why}");
    }
    // SAFETY: ends the process at once. Handlers of a normal exit belong to the driver, which may be what hangs.
    unsafe { nix::libc::_exit(exit::COLLATERAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_communicator_needs_no_watching() {
        let (alive, closed) = mpsc::channel();
        let abort = AbortFlag::new();
        drop(alive);
        assert_eq!(watch(&abort, &closed), None);
        abort.raise("the launcher is gone".into());
        assert_eq!(watch(&abort, &closed).as_deref(), Some("the launcher is gone"));
    }
}
