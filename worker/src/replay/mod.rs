//! What was experienced: n-step windows ([`NStep`]), the ring of transitions that updates are drawn from ([`Ring`]), and
//! how likely each is drawn ([`Priorities`], over a [`SumTree`]).
//!
//! The first two hold environment states rather than observations, so they are small and can be saved whole.

mod n_step;
pub mod prioritized;
mod ring;
mod sum_tree;

pub use n_step::NStep;
pub use prioritized::Priorities;
pub use ring::Ring;
pub use sum_tree::SumTree;

use serde::{Deserialize, Serialize};

/// One thing to learn from: in `state`, `action` gave `reward` in sum over the steps to `next`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition<S> {
    /// Where it began.
    pub state: S,
    /// What was done there.
    pub action: u32,
    /// The discounted sum of the rewards on the way.
    pub reward: f64,
    /// What the value of `next` counts: gamma^k after k steps, 0 if the task ended there.
    pub discount: f64,
    /// Where it led, also where the episode was cut.
    pub next: S,
}
