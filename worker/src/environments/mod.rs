//! What an agent acts in.
//!
//! An environment is a *function* from state and action to the next state: it holds what never changes (bars,
//! constants) and is shared, while a state is plain data. So a replay memory keeps states, ranks send each other
//! states, a checkpoint holds states, and an observation is made from a state when it is needed.

#[cfg(feature = "trainers")]
pub mod market;

use crate::seed::Draw;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// The outcome of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<S> {
    /// The true successor, also where the episode ends: never the state after a reset.
    pub next: S,
    /// The reward, unscaled.
    pub reward: f64,
    /// The episode ended because the task did: nothing comes after it, so nothing is bootstrapped.
    pub terminated: bool,
    /// The episode was cut, as by a time limit: the value of `next` still counts.
    pub truncated: bool,
}

impl<S> Step<S> {
    /// Whether the episode ended, in either way.
    pub fn done(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// Something to act in, one episode at a time.
pub trait Environment: Send + Sync {
    /// All that changes within an episode.
    type State: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync;

    /// Values in an observation.
    fn observation_len(&self) -> usize;

    /// Actions to choose from, numbered from 0.
    fn actions(&self) -> usize;

    /// A first state, drawn from `draw`.
    fn reset(&self, draw: &mut Draw) -> Self::State;

    /// What follows from taking `action` in `state`.
    fn step(&self, state: &Self::State, action: usize, draw: &mut Draw) -> Step<Self::State>;

    /// Writes what the agent sees in `state` into `out`, which has `observation_len` values.
    fn observe(&self, state: &Self::State, out: &mut [f32]);
}
