//! Whether to start the world anew after a failure, and when. Pure.

use super::event::Cause;
use foxlaunch_shared::exit;
use std::time::Duration;

/// What a job allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Most restarts.
    pub most: u32,
    /// Decides the jitter, so that jobs that failed together do not all start together.
    pub seed: u64,
}

/// The wait before the first restart; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// So many attempts in a row without a newer checkpoint, and more would only repeat them.
const FRUITLESS: u32 = 3;
/// So many attempts in a row that fail before any worker was ready or stepped: the start itself is broken.
const STILLBORN: u32 = 2;

/// What is done about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start again after this wait.
    Restart(Duration),
    /// End with the cause's own code.
    End,
    /// End, with a code of its own and words that say why.
    GiveUp(i32, String),
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// Whether any worker got as far as being ready.
    pub got_ready: bool,
    /// Whether the workers speak to us at all; of others we know only that they ended.
    pub speaks: bool,
    /// The step of its last checkpoint.
    pub checkpoint: Option<u64>,
}

/// The restarts of one job so far.
#[derive(Clone, Debug)]
pub struct Restarts {
    policy: Policy,
    used: u32,
    fruitless: u32,
    stillborn: u32,
    newest: Option<u64>,
}

impl Restarts {
    /// None yet.
    pub fn new(policy: Policy) -> Restarts {
        Restarts { policy, used: 0, fruitless: 0, stillborn: 0, newest: None }
    }

    /// How many there were, and may be.
    pub fn count(&self) -> (u32, u32) {
        (self.used, self.policy.most)
    }

    /// Judges a failed attempt.
    pub fn judge(&mut self, cause: &Cause, attempt: Attempted) -> Verdict {
        let code = cause.code();
        // The same words would be refused again.
        let hopeless = code == exit::USAGE || (64..=78).contains(&code) || matches!(code, 126 | 127);
        if self.policy.most == 0 || hopeless || cause.how.is_none() && code != exit::HANG {
            return Verdict::End;
        }
        self.stillborn = if attempt.speaks && !attempt.got_ready { self.stillborn + 1 } else { 0 };
        let newer = attempt.checkpoint > self.newest;
        self.newest = self.newest.max(attempt.checkpoint);
        self.fruitless = if newer || self.newest.is_none() { 0 } else { self.fruitless + 1 };
        if self.stillborn >= STILLBORN {
            let words =
                format!("{STILLBORN} attempts in a row failed before they were ready; restarting does not help");
            return Verdict::GiveUp(exit::NO_PROGRESS, words);
        }
        if self.fruitless >= FRUITLESS {
            let words = format!("{FRUITLESS} attempts in a row made no newer checkpoint; restarting does not help");
            return Verdict::GiveUp(exit::NO_PROGRESS, words);
        }
        if self.used >= self.policy.most {
            return Verdict::End;
        }
        self.used += 1;
        Verdict::Restart(self.wait())
    }

    /// 1, 2, 4, … seconds, give or take a quarter.
    fn wait(&self) -> Duration {
        let doubled = FIRST_WAIT * 2u32.saturating_pow(self.used - 1).min(64);
        // splitmix64: one well-mixed number for each seed and restart
        let mut x = self.policy.seed.wrapping_add(u64::from(self.used).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = ((x ^ (x >> 31)) % 1000) as f64 / 1000.0;
        doubled.min(LONGEST_WAIT).mul_f64(0.75 + share / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::child::Ended;
    use foxlaunch_shared::ids::Rank;

    fn cause(how: Ended) -> Cause {
        Cause { rank: Rank(0), how: Some(how), fault: None, at: Duration::ZERO }
    }

    fn silent() -> Attempted {
        Attempted { got_ready: false, speaks: false, checkpoint: None }
    }

    fn at(checkpoint: u64) -> Attempted {
        Attempted { got_ready: true, speaks: true, checkpoint: Some(checkpoint) }
    }

    #[test]
    fn the_budget_is_kept_and_the_wait_doubles() {
        let mut restarts = Restarts::new(Policy { most: 4, seed: 7 });
        let mut waits = Vec::new();
        while let Verdict::Restart(wait) = restarts.judge(&cause(Ended::Signal(9)), silent()) {
            waits.push(wait.as_secs_f64());
        }
        assert_eq!(waits.len(), 4);
        for (n, wait) in waits.iter().enumerate() {
            let centre = f64::from(1 << n);
            assert!((0.75 * centre..=1.25 * centre).contains(wait), "{n}: {wait}");
        }
        let mut other = Restarts::new(Policy { most: 4, seed: 8 });
        assert_ne!(
            other.judge(&cause(Ended::Signal(9)), silent()),
            Verdict::Restart(Duration::from_secs_f64(waits[0]))
        );
    }

    #[test]
    fn what_would_fail_the_same_way_is_not_started_again() {
        for code in [2, 64, 65, 66, 69, 78, 126, 127] {
            let mut restarts = Restarts::new(Policy { most: 9, seed: 1 });
            assert_eq!(restarts.judge(&cause(Ended::Code(code)), silent()), Verdict::End, "{code}");
        }
    }

    #[test]
    fn without_newer_checkpoints_it_gives_up() {
        let mut restarts = Restarts::new(Policy { most: 99, seed: 1 });
        let mut judge = |attempt| restarts.judge(&cause(Ended::Code(1)), attempt);
        for step in [10, 20, 20, 30, 30, 30] {
            assert!(matches!(judge(at(step)), Verdict::Restart(_)), "{step}");
        }
        assert!(matches!(judge(at(30)), Verdict::GiveUp(exit::NO_PROGRESS, _)));
    }

    #[test]
    fn twice_broken_at_the_start_is_enough() {
        let mut restarts = Restarts::new(Policy { most: 99, seed: 1 });
        let broken = Attempted { got_ready: false, speaks: true, checkpoint: None };
        assert!(matches!(restarts.judge(&cause(Ended::Code(1)), broken), Verdict::Restart(_)));
        assert!(matches!(restarts.judge(&cause(Ended::Code(1)), broken), Verdict::GiveUp(exit::NO_PROGRESS, _)));
    }
}
