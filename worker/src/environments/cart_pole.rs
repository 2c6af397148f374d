//! Balance a pole on a cart (Barto, Sutton and Anderson 1983): Gymnasium's `CartPole-v1`.
//!
//! ```text
//! temp    = (F + m_p l w^2 sin a) / m
//! a''     = (g sin a - cos a temp) / (l (4/3 - m_p cos^2 a / m))
//! x''     = temp - m_p l a'' cos a / m
//! ```
//!
//! integrated by Euler's method with the velocities of before the step. The reward is 1 for each step.

use super::{Environment, Step, between};
use crate::seed::Draw;
use serde::{Deserialize, Serialize};

const GRAVITY: f64 = 9.8;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = POLE_MASS + 1.0;
/// Half the pole's length, in metres.
const LENGTH: f64 = 0.5;
const POLE_MASS_LENGTH: f64 = POLE_MASS * LENGTH;
/// Newtons.
const FORCE: f64 = 10.0;
/// Seconds of a step.
const TAU: f64 = 0.02;
/// Twelve degrees, as Gymnasium rounds it.
const MOST_ANGLE: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
/// Metres from the middle.
const MOST_POSITION: f64 = 2.4;

/// The task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CartPole {
    /// Steps after which an episode is cut.
    pub time_limit: u32,
}

impl Default for CartPole {
    fn default() -> CartPole {
        CartPole { time_limit: 500 }
    }
}

/// Cart and pole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CartPoleState {
    /// The cart's place in metres and its velocity, then the pole's angle in radians from upright and its velocity.
    pub place: [f64; 4],
    /// Steps taken.
    pub steps: u32,
}

impl Environment for CartPole {
    type State = CartPoleState;
    type Action = usize;

    fn observation_len(&self) -> usize {
        4
    }

    /// Push to the left, push to the right.
    fn actions(&self) -> usize {
        2
    }

    /// All four numbers within ± 0.05.
    fn reset(&self, draw: &mut Draw) -> CartPoleState {
        CartPoleState { place: std::array::from_fn(|_| between(draw, -0.05, 0.05)), steps: 0 }
    }

    fn step(&self, state: &CartPoleState, action: usize, _draw: &mut Draw) -> Step<CartPoleState> {
        let [x, v, angle, spin] = state.place;
        let force = if action == 1 { FORCE } else { -FORCE };
        let (sin, cos) = angle.sin_cos();
        let temp = (force + POLE_MASS_LENGTH * (spin * spin) * sin) / TOTAL_MASS;
        let spin_up = (GRAVITY * sin - cos * temp) / (LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS));
        let speed_up = temp - POLE_MASS_LENGTH * spin_up * cos / TOTAL_MASS;
        let place = [x + TAU * v, v + TAU * speed_up, angle + TAU * spin, spin + TAU * spin_up];
        let next = CartPoleState { place, steps: state.steps + 1 };
        let inside =
            (-MOST_POSITION..=MOST_POSITION).contains(&place[0]) && (-MOST_ANGLE..=MOST_ANGLE).contains(&place[2]);
        Step { next, reward: 1.0, terminated: !inside, truncated: next.steps >= self.time_limit }
    }

    /// The four numbers.
    fn observe(&self, state: &CartPoleState, out: &mut [f32]) {
        out.iter_mut().zip(state.place).for_each(|(out, x)| *out = x as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Streams;
    use crate::vectors::{cases, close, numbers};
    use proptest::prelude::*;
    use serde_json::Value;

    fn start(input: &Value) -> (CartPole, CartPoleState) {
        let place: [f64; 4] = numbers(&input["state"]).try_into().unwrap();
        (CartPole { time_limit: input["time_limit"].as_u64().unwrap() as u32 }, CartPoleState { place, steps: 0 })
    }

    fn same(step: &Step<CartPoleState>, expected: &Value) {
        close(&step.next.place, &numbers(&expected["state"]), 1e-9);
        assert_eq!(u64::from(step.next.steps), expected["t"].as_u64().unwrap());
        assert_eq!(step.terminated, expected["terminated"].as_bool().unwrap());
        // the traces by feedback leave these out until the end
        assert_eq!(step.reward, expected.get("reward").map_or(1.0, |r| r.as_f64().unwrap()));
        if let Some(truncated) = expected.get("truncated") {
            assert_eq!(step.truncated, truncated.as_bool().unwrap());
        }
    }

    #[test]
    fn every_step_equals_the_reference() {
        let mut draw = Streams::new(1).draw("unused", 0, 0);
        let mut seen = [0, 0];
        for case in cases("cartpole_step") {
            let (input, output) = (&case["input"], &case["output"]);
            let (env, mut state) = start(input);
            let mut length = 0;
            if case["kind"] == "actions" {
                let actions = input["actions"].as_array().unwrap().iter().map(|a| a.as_u64().unwrap() as usize);
                for (action, expected) in actions.zip(output["trace"].as_array().unwrap()) {
                    let step = env.step(&state, action, &mut draw);
                    same(&step, expected);
                    (state, length) = (step.next, length + 1);
                }
                seen[0] += 1;
            } else {
                let gains = numbers(&input["gains"]);
                let first = output["first_steps"].as_array().unwrap();
                let last = loop {
                    let action = usize::from(gains.iter().zip(state.place).map(|(g, x)| g * x).sum::<f64>() > 0.0);
                    let step = env.step(&state, action, &mut draw);
                    if let Some(expected) = first.get(length as usize) {
                        assert_eq!(action as u64, expected["action"].as_u64().unwrap());
                        same(&step, expected);
                    }
                    (state, length) = (step.next, length + 1);
                    if step.done() {
                        break step;
                    }
                };
                assert_eq!(last.terminated, output["terminated"].as_bool().unwrap());
                assert_eq!(last.truncated, output["truncated"].as_bool().unwrap());
                seen[1] += 1;
            }
            assert_eq!(length, output["length"].as_u64().unwrap());
            assert_eq!(f64::from(state.steps), output["episode_return"].as_f64().unwrap());
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }

    proptest! {
        #[test]
        fn left_and_right_mirror_each_other(
            place in prop::array::uniform4(-0.2f64..0.2), action in 0usize..2,
        ) {
            let mut draw = Streams::new(1).draw("unused", 0, 0);
            let env = CartPole::default();
            let there = env.step(&CartPoleState { place, steps: 3 }, action, &mut draw);
            let mirrored = CartPoleState { place: place.map(|x| -x), steps: 3 };
            let back = env.step(&mirrored, 1 - action, &mut draw);
            prop_assert_eq!(there.next.place, back.next.place.map(|x| -x));
            prop_assert_eq!((there.terminated, there.truncated), (back.terminated, back.truncated));
        }
    }
}
