//! Which end was the first cause, and which came of it.

use super::event::Cause;
use crate::process::child::Ended;
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::Rank;
use foxlaunch_shared::protocol::Fault;
use std::time::Duration;

/// A worker's end as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    /// The worker.
    pub rank: Rank,
    /// How it ended; `None` if it never began.
    pub how: Option<Ended>,
    /// What it, or we, have to say about it.
    pub fault: Option<Fault>,
    /// When, since the beginning.
    pub at: Duration,
    /// It died by a signal that we had sent it.
    pub by_us: bool,
    /// It ended well.
    pub clean: bool,
}

impl Exit {
    /// Whether the worker itself says that another one is to blame.
    fn is_collateral(&self) -> bool {
        let blames = self.fault.as_ref().is_some_and(|fault| fault.blames.is_some());
        self.by_us || blames || self.how == Some(Ended::Code(exit::COLLATERAL))
    }

    /// How it ended, in words.
    pub fn describe(&self) -> String {
        match (self.how, &self.fault) {
            (Some(how), _) if self.is_collateral() => format!("{how}, because of it"),
            (Some(how), _) => how.to_string(),
            (None, Some(fault)) => fault.message.clone(),
            (None, None) => "was not started".to_owned(),
        }
    }
}

impl Cause {
    /// What happened, in words.
    pub fn describe(&self) -> String {
        match (&self.fault, self.how) {
            (Some(fault), Some(how)) => format!("{how}: {}", fault.message),
            (Some(fault), None) => fault.message.clone(),
            (None, Some(how)) => how.to_string(),
            (None, None) => "could not be started".to_owned(),
        }
    }

    /// The exit code that the job takes from it; never 0.
    pub fn code(&self) -> i32 {
        let of_fault = self.fault.as_ref().map(|fault| fault.code);
        match (self.how, of_fault) {
            (Some(how), _) if how.exit_code() != 0 => how.exit_code(),
            // it never began, hangs, or ended well when it should not have
            (_, Some(code)) if code != 0 => code,
            _ => exit::FAILURE,
        }
    }
}

/// Ends seen within this time of the first may have been seen in the wrong order: the kernel does not tell when a
/// process ended, only that it has.
const SAME_TIME: Duration = Duration::from_millis(50);

/// The first cause among `exits`, which are in the order in which they were seen.
///
/// A worker that fails because a peer is gone can be seen before the peer. So among those seen at about the same
/// time as the first, one killed by a signal from elsewhere comes first, since nothing in a peer's loss kills by
/// signal; then one that blames no one; then what was seen first.
pub fn first_cause(exits: &[Exit]) -> Option<Cause> {
    let failed = || exits.iter().filter(|exit| !exit.clean);
    let own = || failed().filter(|exit| !exit.is_collateral());
    let first = own().next().or_else(|| failed().next())?;
    let near = || own().filter(|exit| exit.at <= first.at + SAME_TIME);
    let struck = near().find(|exit| matches!(exit.how, Some(Ended::Signal(_))));
    let exit = struck.unwrap_or(first);
    Some(Cause { rank: exit.rank, how: exit.how, fault: exit.fault.clone(), at: exit.at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(rank: u32, how: Ended, ms: u64) -> Exit {
        let at = Duration::from_millis(ms);
        Exit { rank: Rank(rank), how: Some(how), fault: None, at, by_us: false, clean: how.is_success() }
    }

    fn rank_of(exits: &[Exit]) -> Option<u32> {
        first_cause(exits).map(|cause| cause.rank.0)
    }

    #[test]
    fn the_first_failure_is_the_cause() {
        assert_eq!(rank_of(&[exit(0, Ended::Code(0), 1)]), None);
        assert_eq!(
            rank_of(&[exit(0, Ended::Code(0), 1), exit(2, Ended::Code(3), 2), exit(1, Ended::Code(1), 900)]),
            Some(2)
        );
    }

    #[test]
    fn a_death_by_signal_comes_before_a_failure_seen_just_earlier() {
        assert_eq!(rank_of(&[exit(0, Ended::Code(1), 1000), exit(1, Ended::Signal(9), 1004)]), Some(1));
        assert_eq!(rank_of(&[exit(0, Ended::Code(1), 1000), exit(1, Ended::Signal(9), 1400)]), Some(0));
    }

    #[test]
    fn who_was_stopped_by_us_or_blames_another_is_no_cause() {
        let stopped = Exit { by_us: true, ..exit(1, Ended::Signal(15), 1001) };
        assert_eq!(rank_of(&[exit(0, Ended::Code(1), 1000), stopped]), Some(0));
        let fault = Some(Fault { message: "peer".into(), code: 92, blames: Some(Rank(1)) });
        let victim = Exit { fault, ..exit(0, Ended::Code(92), 1000) };
        assert_eq!(rank_of(&[victim.clone(), exit(1, Ended::Code(5), 1300)]), Some(1));
        assert_eq!(rank_of(&[victim]), Some(0));
    }

    #[test]
    fn a_cause_never_gives_zero() {
        let fault = Fault { message: "left".into(), code: 0, blames: None };
        let cause = Cause { rank: Rank(0), how: Some(Ended::Code(0)), fault: Some(fault), at: Duration::ZERO };
        assert_eq!(cause.code(), exit::FAILURE);
    }
}
