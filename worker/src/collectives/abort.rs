//! The word that ends a wait: raised by the thread that listens to the launcher, read by whoever waits.

use super::CollectiveError;
use foxlaunch_shared::ids::Rank;
use std::sync::OnceLock;

/// Says whether, and why, collectives must be given up. Raised once; the first cause stays.
#[derive(Debug, Default)]
pub struct AbortFlag {
    cause: OnceLock<Cause>,
}

#[derive(Debug)]
struct Cause {
    lost: Option<Rank>,
    why: String,
}

impl AbortFlag {
    /// A flag that is down.
    pub fn new() -> AbortFlag {
        AbortFlag::default()
    }

    /// Raises it with a reason in words. Without effect if it is up already.
    pub fn raise(&self, why: String) {
        let _ = self.cause.set(Cause { lost: None, why });
    }

    /// Raises it because `rank` ended, as `how` says.
    pub fn raise_lost(&self, rank: Rank, how: &str) {
        let _ = self.cause.set(Cause { lost: Some(rank), why: format!("rank {rank} ended: {how}") });
    }

    /// Why it is up, or nothing if it is down.
    pub fn raised(&self) -> Option<String> {
        self.cause.get().map(|cause| cause.why.clone())
    }

    /// The error that a call described as `call` ends with while the flag is up.
    pub fn error(&self, call: &str) -> Option<CollectiveError> {
        self.cause.get().map(|cause| match cause.lost {
            Some(rank) => CollectiveError::PeerLost(rank, call.to_owned()),
            None => CollectiveError::Aborted(cause.why.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_stays() {
        let flag = AbortFlag::new();
        assert_eq!(flag.raised(), None);
        assert_eq!(flag.error("barrier"), None);
        flag.raise_lost(Rank(2), "killed by SIGKILL");
        flag.raise("the launcher is gone".into());
        assert_eq!(flag.raised().as_deref(), Some("rank 2 ended: killed by SIGKILL"));
        assert_eq!(flag.error("barrier"), Some(CollectiveError::PeerLost(Rank(2), "barrier".into())));
    }
}
