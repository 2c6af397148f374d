//! Generalised advantage estimation (Schulman et al. 2016), with both ends of an episode told apart:
//!
//! ```text
//! (1)  delta_t = r_t + gamma (1 - terminated_t) V(s'_t) - V(s_t)
//! (2)  A_t     = delta_t + gamma lambda (1 - terminated_t)(1 - truncated_t) A_{t+1}
//! (3)  R_t     = A_t + V(s_t)
//! ```
//!
//! s' is the true successor, also where an episode was cut: its value counts there, while nothing of the next episode does.

use super::Scalar;

/// Steps of some streams, each list row-major `[steps][streams]`.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a, T> {
    /// How many streams.
    pub streams: usize,
    /// r.
    pub rewards: &'a [T],
    /// V(s).
    pub values: &'a [T],
    /// V(s'), of the true successor.
    pub next_values: &'a [T],
    /// Whether the task ended.
    pub terminated: &'a [bool],
    /// Whether the episode was cut.
    pub truncated: &'a [bool],
}

/// Writes advantages and returns of `steps`, in their order.
pub fn gae<T: Scalar>(steps: Steps<'_, T>, gamma: T, lambda: T, advantages: &mut [T], returns: &mut [T]) {
    let n = steps.streams;
    for stream in 0..n {
        let mut next = T::ZERO;
        for t in (0..steps.rewards.len() / n.max(1)).rev() {
            let i = t * n + stream;
            let bootstrap = if steps.terminated[i] { T::ZERO } else { gamma * steps.next_values[i] };
            let delta = steps.rewards[i] + bootstrap - steps.values[i]; // (1)
            let ends = steps.terminated[i] || steps.truncated[i];
            next = if ends { delta } else { delta + gamma * lambda * next }; // (2)
            advantages[i] = next;
            returns[i] = next + steps.values[i]; // (3)
        }
    }
}
