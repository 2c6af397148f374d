//! The patience of one call: it ends by success, by the abort flag, or by its time limit.

use crate::collectives::{AbortFlag, CollectiveError};
use std::time::{Duration, Instant};

/// How long a wait looks without pause: most calls end sooner, and a pause costs 50 us at least.
const SPIN: Duration = Duration::from_micros(200);
/// Between two looks of a longer wait.
const PAUSE: Duration = Duration::from_micros(50);

/// One wait, from its start.
pub(super) struct Wait {
    started: Instant,
    limit: Duration,
}

impl Wait {
    /// Starts a wait of at most `limit`.
    pub(super) fn new(limit: Duration) -> Wait {
        Wait { started: Instant::now(), limit }
    }

    /// An error if `what` is to be given up now.
    pub(super) fn check(&mut self, what: &str, abort: &AbortFlag) -> Result<(), CollectiveError> {
        if let Some(error) = abort.error(what) {
            return Err(error);
        }
        if self.started.elapsed() < self.limit {
            return Ok(());
        }
        Err(CollectiveError::Failed(format!(
            "{what} is not done after {} s: another rank makes other calls, is stuck, or cannot be reached",
            self.limit.as_secs_f64()
        )))
    }

    /// Waits a little: not at all at first, then ever more politely.
    pub(super) fn pause(&self) {
        if self.started.elapsed() < SPIN {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foxlaunch_shared::ids::Rank;

    #[test]
    fn a_raised_flag_goes_before_the_limit() {
        let abort = AbortFlag::new();
        let mut wait = Wait::new(Duration::ZERO);
        let late = wait.check("barrier", &abort).unwrap_err().to_string();
        assert!(late.starts_with("barrier is not done after 0 s"), "{late}");
        abort.raise_lost(Rank(1), "killed");
        assert_eq!(wait.check("barrier", &abort), Err(CollectiveError::PeerLost(Rank(1), "barrier".into())));
    }
}
