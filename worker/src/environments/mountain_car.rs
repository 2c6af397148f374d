//! Drive an underpowered car out of a valley (Moore 1990; Sutton and Barto 2018, section 10.1): Gymnasium's
//! `MountainCar-v0` and `MountainCarContinuous-v0`.
//!
//! ```text
//! v <- clip(v + push - 0.0025 cos 3x)      x <- clip(x + v)      v <- 0 at the left wall
//! ```

use super::{Bounds, Environment, Step, between};
use crate::seed::Draw;
use serde::{Deserialize, Serialize};

const GRAVITY: f64 = 0.0025;
const MOST_SPEED: f64 = 0.07;
const LEFT_WALL: f64 = -1.2;
const RIGHT_END: f64 = 0.6;

/// Where the car is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountainCarState {
    /// From -1.2 to 0.6; the valley's floor is at about -0.52.
    pub position: f64,
    /// Position in each step.
    pub velocity: f64,
    /// Steps taken.
    pub steps: u32,
}

impl MountainCarState {
    /// At rest, between -0.6 and -0.4.
    fn first(draw: &mut Draw) -> MountainCarState {
        MountainCarState { position: between(draw, -0.6, -0.4), ..MountainCarState::default() }
    }

    fn observe(&self, out: &mut [f32]) {
        (out[0], out[1]) = (self.position as f32, self.velocity as f32);
    }
}

/// With three actions. The reward is -1 for each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountainCar {
    /// Steps after which an episode is cut.
    pub time_limit: u32,
}

impl Default for MountainCar {
    fn default() -> MountainCar {
        MountainCar { time_limit: 200 }
    }
}

impl Environment for MountainCar {
    type State = MountainCarState;
    type Action = usize;

    fn observation_len(&self) -> usize {
        2
    }

    /// Drive to the left, not at all, to the right.
    fn actions(&self) -> usize {
        3
    }

    fn reset(&self, draw: &mut Draw) -> MountainCarState {
        MountainCarState::first(draw)
    }

    fn step(&self, state: &MountainCarState, action: usize, _draw: &mut Draw) -> Step<MountainCarState> {
        let push = (action as f64 - 1.0) * 0.001 + (3.0 * state.position).cos() * -GRAVITY;
        let mut velocity = (state.velocity + push).clamp(-MOST_SPEED, MOST_SPEED);
        let position = (state.position + velocity).clamp(LEFT_WALL, RIGHT_END);
        if position == LEFT_WALL && velocity < 0.0 {
            velocity = 0.0;
        }
        let next = MountainCarState { position, velocity, steps: state.steps + 1 };
        let terminated = position >= 0.5 && velocity >= 0.0;
        Step { next, reward: -1.0, terminated, truncated: next.steps >= self.time_limit }
    }

    /// Position and velocity.
    fn observe(&self, state: &MountainCarState, out: &mut [f32]) {
        state.observe(out);
    }
}

/// With a force from -1 to 1. The reward is 100 at the goal, less a tenth of the squared force in each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountainCarContinuous {
    /// Steps after which an episode is cut.
    pub time_limit: u32,
}

impl Default for MountainCarContinuous {
    fn default() -> MountainCarContinuous {
        MountainCarContinuous { time_limit: 999 }
    }
}

impl MountainCarContinuous {
    const POWER: f64 = 0.0015;
    const GOAL: f64 = 0.45;

    /// What is added to the velocity at `position`. A force within bounds is a 32-bit number in Gymnasium and so is its
    /// product; one that had to be brought within bounds is a 64-bit one.
    fn push(force: f32, pull: f64) -> f64 {
        match force {
            _ if force > 1.0 => Self::POWER - pull,
            _ if force < -1.0 => -Self::POWER - pull,
            _ => f64::from(force * Self::POWER as f32 - pull as f32),
        }
    }

    /// From a first state, which is a 64-bit one.
    fn wide(position: f64, velocity: f64, force: f32) -> (f64, f64) {
        let velocity = velocity + Self::push(force, GRAVITY * (3.0 * position).cos());
        let velocity = velocity.clamp(-MOST_SPEED, MOST_SPEED);
        let position = (position + velocity).clamp(LEFT_WALL, RIGHT_END);
        (position, if position == LEFT_WALL && velocity < 0.0 { 0.0 } else { velocity })
    }

    /// From any later one: Gymnasium keeps those in 32 bits.
    fn narrow(position: f32, velocity: f32, force: f32) -> (f32, f32) {
        let most = MOST_SPEED as f32;
        let velocity = velocity + Self::push(force, GRAVITY * f64::from(3.0 * position).cos()) as f32;
        let velocity = velocity.clamp(-most, most);
        let position = (position + velocity).clamp(LEFT_WALL as f32, RIGHT_END as f32);
        (position, if position == LEFT_WALL as f32 && velocity < 0.0 { 0.0 } else { velocity })
    }
}

impl Environment for MountainCarContinuous {
    type State = MountainCarState;
    type Action = [f32; 1];

    fn observation_len(&self) -> usize {
        2
    }

    fn actions(&self) -> Bounds<1> {
        Bounds { low: [-1.0], high: [1.0] }
    }

    fn reset(&self, draw: &mut Draw) -> MountainCarState {
        MountainCarState::first(draw)
    }

    fn step(&self, state: &MountainCarState, [force]: [f32; 1], _draw: &mut Draw) -> Step<MountainCarState> {
        let steps = state.steps + 1;
        let (next, terminated) = if state.steps == 0 {
            let (position, velocity) = Self::wide(state.position, state.velocity, force);
            let rounded = (f64::from(position as f32), f64::from(velocity as f32));
            (rounded, position >= Self::GOAL && velocity >= 0.0)
        } else {
            let (position, velocity) = Self::narrow(state.position as f32, state.velocity as f32, force);
            let at_goal = position >= Self::GOAL as f32 && velocity >= 0.0;
            ((f64::from(position), f64::from(velocity)), at_goal)
        };
        let next = MountainCarState { position: next.0, velocity: next.1, steps };
        let reward = if terminated { 100.0 } else { 0.0 } - f64::from(force) * f64::from(force) * 0.1;
        Step { next, reward, terminated, truncated: steps >= self.time_limit }
    }

    /// Position and velocity.
    fn observe(&self, state: &MountainCarState, out: &mut [f32]) {
        state.observe(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Streams;
    use proptest::prelude::*;

    #[test]
    fn driving_with_the_velocity_reaches_the_goal_and_driving_right_does_not() {
        let mut draw = Streams::new(4).draw("reset", 0, 0);
        let env = MountainCar::default();
        for clever in [true, false] {
            let mut state = env.reset(&mut draw);
            let last = loop {
                let action = if clever && state.velocity < 0.0 { 0 } else { 2 };
                let step = env.step(&state, action, &mut draw);
                state = step.next;
                if step.done() {
                    break step;
                }
            };
            assert_eq!((last.terminated, last.truncated), (clever, !clever), "{last:?}");
            assert!(clever || last.next.steps == 200);
        }
    }

    #[test]
    fn a_wall_stops_the_car_and_the_goal_is_worth_a_hundred() {
        let mut draw = Streams::new(4).draw("reset", 0, 0);
        let at = |position, velocity| MountainCarState { position, velocity, steps: 5 };
        let wall = MountainCar::default().step(&at(-1.19, -0.05), 0, &mut draw);
        assert_eq!((wall.next.position, wall.next.velocity), (LEFT_WALL, 0.0));
        let wall = MountainCarContinuous::default().step(&at(-1.19, -0.05), [-1.0], &mut draw);
        assert_eq!((wall.next.position, wall.next.velocity), (f64::from(LEFT_WALL as f32), 0.0));
        let goal = MountainCarContinuous::default().step(&at(0.44, 0.06), [0.5], &mut draw);
        assert!(goal.terminated && (goal.reward - (100.0 - 0.025)).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn a_force_out_of_bounds_pushes_as_the_bound_but_costs_what_it_is(
            position in -1.1f64..0.4, velocity in -0.07f64..0.07, force in 1.0f32..5.0, steps in 0u32..2,
        ) {
            let mut draw = Streams::new(4).draw("unused", 0, 0);
            let env = MountainCarContinuous::default();
            let state = MountainCarState { position, velocity, steps };
            let (far, bound) = (env.step(&state, [force], &mut draw), env.step(&state, [1.0], &mut draw));
            prop_assert!((far.next.velocity - bound.next.velocity).abs() < 1e-7);
            prop_assert!(far.reward <= bound.reward);
        }
    }
}
