//! An environment with another reward: what an agent is to learn, without touching what it acts in.

use super::{Action, Environment, Step};
use crate::seed::Draw;
use std::sync::Arc;

/// A reward: from the environment, the state before the step, the action and what came of it (whose own reward is the
/// environment's) to the reward that is learned from.
pub type Reward<E> = dyn Fn(&E, &<E as Environment>::State, <E as Environment>::Action, &Step<<E as Environment>::State>) -> f64
    + Send
    + Sync;

/// `E` with another reward. All else is as in `E`.
pub struct Rewarded<E: Environment> {
    inner: E,
    reward: Arc<Reward<E>>,
}

impl<E: Environment> Rewarded<E> {
    /// `inner`, rewarded by `reward`.
    pub fn new(inner: E, reward: Arc<Reward<E>>) -> Rewarded<E> {
        Rewarded { inner, reward }
    }
}

impl<E: Environment> Environment for Rewarded<E> {
    type State = E::State;
    type Action = E::Action;

    fn observation_len(&self) -> usize {
        self.inner.observation_len()
    }

    fn actions(&self) -> <E::Action as Action>::Space {
        self.inner.actions()
    }

    fn reset(&self, draw: &mut Draw) -> E::State {
        self.inner.reset(draw)
    }

    fn step(&self, state: &E::State, action: E::Action, draw: &mut Draw) -> Step<E::State> {
        let step = self.inner.step(state, action, draw);
        let reward = (self.reward)(&self.inner, state, action, &step);
        Step { reward, ..step }
    }

    fn observe(&self, state: &E::State, out: &mut [f32]) {
        self.inner.observe(state, out);
    }
}
