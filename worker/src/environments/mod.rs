//! What an agent acts in.
//!
//! An environment is a *function* from state and action to the next state: it holds what never changes (bars,
//! constants) and is shared, while a state is plain data. So a replay memory keeps states, ranks send each other
//! states, a checkpoint holds states, and an observation is made from a state when it is needed.
//!
//! | module | task | actions |
//! |---|---|---|
//! | `market` | trade bars | positions |
//! | [`cart_pole`] | balance a pole on a cart | left, right |
//! | [`acrobot`] | swing a double pendulum up | torque -1, 0, 1 |
//! | [`mountain_car`] | drive out of a valley | left, nothing, right; or a force |
//! | [`pendulum`] | swing a pendulum up and hold it | a torque |
//!
//! The control tasks are those of Gymnasium 1.x, step for step. [`rewarded`] gives any of them another reward.

pub mod acrobot;
mod action;
pub mod cart_pole;
#[cfg(feature = "trainers")]
pub mod market;
pub mod mountain_car;
pub mod pendulum;
pub mod rewarded;
#[cfg(test)]
mod tests;

pub use action::{Action, Bounds};

use crate::seed::{Draw, uniform};
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
    /// The episode was cut, as by a time limit: the value of `next` still counts, unless the task ended as well.
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

    /// What is done in it: `usize` for one of some actions, numbered from 0, `[f32; N]` for N numbers.
    type Action: Action;

    /// Values in an observation.
    fn observation_len(&self) -> usize;

    /// All actions: how many there are, or their bounds.
    fn actions(&self) -> <Self::Action as Action>::Space;

    /// A first state, drawn from `draw`.
    fn reset(&self, draw: &mut Draw) -> Self::State;

    /// What follows from taking `action` in `state`.
    fn step(&self, state: &Self::State, action: Self::Action, draw: &mut Draw) -> Step<Self::State>;

    /// Writes what the agent sees in `state` into `out`, which has `observation_len` values.
    fn observe(&self, state: &Self::State, out: &mut [f32]);
}

/// A number from `low` to below `high`.
fn between(draw: &mut Draw, low: f64, high: f64) -> f64 {
    low + (high - low) * uniform(draw)
}
