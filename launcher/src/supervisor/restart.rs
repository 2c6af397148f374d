//! Whether to start the world anew after a failure, when, and with how many workers. Pure.

use super::event::Cause;
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::Rank;
use std::collections::VecDeque;
use std::time::Duration;

/// What a job allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Most restarts, within `window`.
    pub most: u32,
    /// Restarts longer ago than this are forgotten; `None` for never.
    pub window: Option<Duration>,
    /// Fewest workers to go on with.
    pub least: u32,
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
/// So many attempts in a row that fail by the same worker, without a newer checkpoint or with one: its place is bad.
const SAME_PLACE: (u32, u32) = (2, 3);
/// What the driver's library and CUDA call a device that cannot be used any more.
const DEVICE_IS_GONE: [&str; 8] = [
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_INVALID_DEVICE",
    "CUDA_ERROR_NO_DEVICE",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_CONTAINED",
    "GPU is lost",
    "fallen off the bus",
];

/// What is done about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start again.
    Restart {
        /// After this.
        wait: Duration,
        /// Without the worker that failed: its place is lost, for this reason.
        without: Option<&'static str>,
    },
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
    /// How many workers there were.
    pub workers: u32,
    /// The place of the worker that failed: the rank that it had in the first attempt.
    pub place: Rank,
}

/// The restarts of one job so far.
#[derive(Clone, Debug)]
pub struct Restarts {
    policy: Policy,
    /// When those that count were decided.
    recent: VecDeque<Duration>,
    fruitless: u32,
    stillborn: u32,
    newest: Option<u64>,
    /// Who failed first in the last attempts, and in how many of them in a row.
    blamed: Option<(Rank, u32)>,
}

impl Restarts {
    /// None yet.
    pub fn new(policy: Policy) -> Restarts {
        Restarts { policy, recent: VecDeque::new(), fruitless: 0, stillborn: 0, newest: None, blamed: None }
    }

    /// How many there were that count, and may be.
    pub fn count(&self) -> (u32, u32) {
        (self.recent.len() as u32, self.policy.most)
    }

    /// Judges an attempt that failed, at `now`.
    pub fn judge(&mut self, now: Duration, cause: &Cause, attempt: Attempted) -> Verdict {
        let code = cause.code();
        let may_shrink = attempt.workers > self.policy.least;
        let device_is_gone = may_shrink && is_of_device(cause);
        // The same words would be refused again; but a place of its own may be missing what all others have.
        let hopeless = code == exit::USAGE || (64..=78).contains(&code) || matches!(code, 126 | 127);
        let never_began = cause.how.is_none() && code != exit::HANG;
        let is_places_own = device_is_gone || may_shrink && never_began && code == exit::CANT_CREATE;
        if self.policy.most == 0 || (hopeless || never_began) && !is_places_own {
            return Verdict::End;
        }
        self.stillborn = if attempt.speaks && !attempt.got_ready { self.stillborn + 1 } else { 0 };
        let newer = attempt.checkpoint > self.newest;
        self.newest = self.newest.max(attempt.checkpoint);
        self.fruitless = if newer || self.newest.is_none() { 0 } else { self.fruitless + 1 };
        let times = self.blamed.filter(|(place, _)| *place == attempt.place).map_or(1, |(_, times)| times + 1);
        self.blamed = Some((attempt.place, times));
        let is_bad = may_shrink && times >= if newer { SAME_PLACE.1 } else { SAME_PLACE.0 };
        let without = match (device_is_gone, is_bad) {
            (true, _) => Some("its device cannot be used any more"),
            (_, true) => Some("it failed first again and again"),
            _ => None,
        };
        if without.is_some() {
            // The next attempt is another: what was wrong with these may be gone.
            (self.stillborn, self.fruitless, self.blamed) = (0, 0, None);
        }
        if self.stillborn >= STILLBORN {
            let words =
                format!("{STILLBORN} attempts in a row failed before they were ready; restarting does not help");
            return Verdict::GiveUp(exit::NO_PROGRESS, words);
        }
        if self.fruitless >= FRUITLESS {
            let words = format!("{FRUITLESS} attempts in a row made no newer checkpoint; restarting does not help");
            return Verdict::GiveUp(exit::NO_PROGRESS, words);
        }
        let is_old = |at: &Duration| self.policy.window.is_some_and(|window| now.saturating_sub(*at) > window);
        self.recent.retain(|at| !is_old(at));
        if self.recent.len() >= self.policy.most as usize {
            return Verdict::End;
        }
        self.recent.push_back(now);
        Verdict::Restart { wait: self.wait(), without }
    }

    /// 1, 2, 4, … seconds, give or take a quarter.
    fn wait(&self) -> Duration {
        let used = self.recent.len() as u32;
        let doubled = FIRST_WAIT * 2u32.saturating_pow(used - 1).min(64);
        // splitmix64: one well-mixed number for each seed and restart
        let mut x = self.policy.seed.wrapping_add(u64::from(used).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = ((x ^ (x >> 31)) % 1000) as f64 / 1000.0;
        doubled.min(LONGEST_WAIT).mul_f64(0.75 + share / 2.0)
    }
}

/// Whether a worker failed because its device cannot be used: by the code for that, or by its own words.
fn is_of_device(cause: &Cause) -> bool {
    let says = |word: &&str| cause.fault.as_ref().is_some_and(|fault| fault.message.contains(word));
    cause.how.is_some() && (cause.code() == exit::UNAVAILABLE || DEVICE_IS_GONE.iter().any(says))
}

#[cfg(test)]
mod tests;
