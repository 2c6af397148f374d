//! Rewards summed over n steps before the value of the state after them counts.
//!
//! For a start at step t, k = min(n, steps to the end of the episode):
//!
//! ```text
//! R = r_t + gamma r_{t+1} + ... + gamma^(k-1) r_{t+k-1},   discount = gamma^k, or 0 if step t+k-1 terminated
//! ```
//!
//! Every start of an episode is kept, the last n-1 with fewer steps, and no window spans two episodes.

use super::Transition;
use crate::environments::Step;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The steps of one stream whose windows are still open. Every stream needs its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NStep<S> {
    n: usize,
    gamma: f64,
    /// State, action and reward of each open start, the oldest first.
    open: VecDeque<(S, u32, f64)>,
}

impl<S: Clone> NStep<S> {
    /// Windows of `n` steps, at least 1, with the discount `gamma` for each.
    pub fn new(n: usize, gamma: f64) -> NStep<S> {
        NStep { n: n.max(1), gamma, open: VecDeque::new() }
    }

    /// Takes the step that `action` in `state` led to, with the `reward` the learner sees, and hands each window
    /// that it closes to `out`, the oldest start first.
    pub fn push(&mut self, state: S, action: u32, reward: f64, step: &Step<S>, out: &mut impl FnMut(Transition<S>)) {
        self.open.push_back((state, action, reward));
        if step.done() {
            while !self.open.is_empty() {
                out(self.close(step));
            }
        } else if self.open.len() == self.n {
            out(self.close(step));
        }
    }

    /// How many starts are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// The window of the oldest start, ended by `last`.
    fn close(&mut self, last: &Step<S>) -> Transition<S> {
        let (mut reward, mut discount) = (0.0, 1.0);
        for (_, _, r) in &self.open {
            reward += discount * r;
            discount *= self.gamma;
        }
        let (state, action, _) = self.open.pop_front().expect("a window closes only while one is open");
        let discount = if last.terminated { 0.0 } else { discount };
        Transition { state, action, reward, discount, next: last.next.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{cases, close, numbers};
    use proptest::prelude::*;

    /// Runs rows through the windows; states are row numbers, `next` of row i is i.
    fn windows(
        rewards: &[f64],
        terminated: &[bool],
        truncated: &[bool],
        n: usize,
        gamma: f64,
    ) -> (Vec<Transition<usize>>, usize) {
        let (mut queue, mut closed) = (NStep::new(n, gamma), Vec::new());
        for i in 0..rewards.len() {
            let step = Step { next: i, reward: rewards[i], terminated: terminated[i], truncated: truncated[i] };
            queue.push(i, 0, rewards[i], &step, &mut |t| closed.push(t));
        }
        (closed, queue.open())
    }

    #[test]
    fn every_start_equals_the_reference() {
        let mut seen = 0;
        for case in cases("n_step") {
            let input = &case["input"];
            let flags = |key: &str| -> Vec<bool> {
                input[key].as_array().unwrap().iter().map(|b| b.as_bool().unwrap()).collect()
            };
            let n = input["n"].as_u64().unwrap() as usize;
            let gamma = input["gamma"].as_f64().unwrap();
            let (closed, open) =
                windows(&numbers(&input["rewards"]), &flags("terminated"), &flags("truncated"), n, gamma);
            let starts = case["output"]["starts"].as_array().unwrap();
            assert_eq!(closed.len() + open, starts.len());
            for t in &closed {
                let expected = &starts[t.state];
                close(&[t.reward], &numbers(&expected["n_step_reward"]), 1e-9);
                close(&[t.discount], &numbers(&expected["discount"]), 1e-9);
                assert_eq!(t.next as u64, expected["bootstrap_index"].as_u64().unwrap());
                assert_eq!(expected["crosses_end_of_data"], false);
            }
            let waiting = starts.iter().filter(|s| s["crosses_end_of_data"] == true).count();
            assert_eq!(open, waiting);
            seen += 1;
        }
        assert_eq!(seen, 6);
    }

    proptest! {
        #[test]
        fn starts_come_once_in_order_and_never_cross_an_end(
            rows in proptest::collection::vec((-1.0..1.0f64, 0u8..8), 1..60), n in 1usize..7,
        ) {
            let rewards: Vec<f64> = rows.iter().map(|r| r.0).collect();
            let terminated: Vec<bool> = rows.iter().map(|r| r.1 == 0).collect();
            let truncated: Vec<bool> = rows.iter().map(|r| r.1 == 1).collect();
            let (closed, open) = windows(&rewards, &terminated, &truncated, n, 0.9);
            let starts: Vec<usize> = closed.iter().map(|t| t.state).collect();
            prop_assert_eq!(starts, (0..rows.len() - open).collect::<Vec<_>>());
            for t in &closed {
                prop_assert!(t.next < t.state + n);
                let ends = (t.state..t.next).any(|i| terminated[i] || truncated[i]);
                prop_assert!(!ends, "{:?} spans an end", t);
                prop_assert_eq!(t.discount == 0.0, terminated[t.next]);
            }
        }
    }
}
