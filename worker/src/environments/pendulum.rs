//! Swing a pendulum up and hold it there: Gymnasium's `Pendulum-v1`.
//!
//! ```text
//! cost = a^2 + 0.1 w^2 + 0.001 u^2        a from -pi to pi, 0 upright; the reward is -cost
//! w <- clip(w + (3g / 2l sin a + 3 / (m l^2) u) dt)      a <- a + w dt
//! ```

use super::{Bounds, Environment, Step, between};
use crate::seed::Draw;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

const GRAVITY: f64 = 10.0;
const MOST_SPIN: f64 = 8.0;
const MOST_TORQUE: f32 = 2.0;
/// Seconds of a step.
const DT: f64 = 0.05;

/// The task. Mass and length are 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pendulum {
    /// Steps after which an episode is cut; nothing else ends it.
    pub time_limit: u32,
}

impl Default for Pendulum {
    fn default() -> Pendulum {
        Pendulum { time_limit: 200 }
    }
}

/// Where the pendulum is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PendulumState {
    /// Radians from upright, not wrapped.
    pub angle: f64,
    /// Radians in a second.
    pub spin: f64,
    /// Steps taken.
    pub steps: u32,
}

impl Environment for Pendulum {
    type State = PendulumState;
    type Action = [f32; 1];

    fn observation_len(&self) -> usize {
        3
    }

    /// The torque.
    fn actions(&self) -> Bounds<1> {
        Bounds { low: [-MOST_TORQUE], high: [MOST_TORQUE] }
    }

    /// Any angle, a velocity within ± 1.
    fn reset(&self, draw: &mut Draw) -> PendulumState {
        PendulumState { angle: between(draw, -PI, PI), spin: between(draw, -1.0, 1.0), steps: 0 }
    }

    fn step(&self, state: &PendulumState, [torque]: [f32; 1], _draw: &mut Draw) -> Step<PendulumState> {
        let PendulumState { angle, spin, steps } = *state;
        // a torque is a 32-bit number in Gymnasium, and so are its products
        let torque = torque.clamp(-MOST_TORQUE, MOST_TORQUE);
        let from_upright = (angle + PI).rem_euclid(2.0 * PI) - PI;
        let cost = from_upright * from_upright + 0.1 * (spin * spin) + f64::from(0.001f32 * (torque * torque));
        let up = 3.0 * GRAVITY / 2.0 * angle.sin() + f64::from(3.0f32 * torque);
        let spin = (spin + up * DT).clamp(-MOST_SPIN, MOST_SPIN);
        let next = PendulumState { angle: angle + spin * DT, spin, steps: steps + 1 };
        Step { next, reward: -cost, terminated: false, truncated: next.steps >= self.time_limit }
    }

    /// Cosine and sine of the angle, then the velocity.
    fn observe(&self, state: &PendulumState, out: &mut [f32]) {
        let seen = [state.angle.cos(), state.angle.sin(), state.spin];
        out.iter_mut().zip(seen).for_each(|(out, x)| *out = x as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Streams;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn left_and_right_mirror_each_other(angle in -3.0f64..3.0, spin in -8.0f64..8.0, torque in -3f32..3.0) {
            let mut draw = Streams::new(1).draw("unused", 0, 0);
            let env = Pendulum::default();
            let there = env.step(&PendulumState { angle, spin, steps: 0 }, [torque], &mut draw);
            let back = env.step(&PendulumState { angle: -angle, spin: -spin, steps: 0 }, [-torque], &mut draw);
            prop_assert!((there.next.angle + back.next.angle).abs() < 1e-12);
            prop_assert!((there.next.spin + back.next.spin).abs() < 1e-12);
            prop_assert!((there.reward - back.reward).abs() < 1e-9);
        }

        #[test]
        fn a_whole_turn_changes_nothing_that_is_seen_or_paid(angle in -3.0f64..3.0, turns in -3i32..4) {
            let mut draw = Streams::new(1).draw("unused", 0, 0);
            let env = Pendulum::default();
            let turned = angle + f64::from(turns) * 2.0 * PI;
            let here = env.step(&PendulumState { angle, spin: 0.5, steps: 0 }, [0.5], &mut draw);
            let there = env.step(&PendulumState { angle: turned, spin: 0.5, steps: 0 }, [0.5], &mut draw);
            prop_assert!((here.reward - there.reward).abs() < 1e-9);
            let (mut a, mut b) = ([0.0; 3], [0.0; 3]);
            env.observe(&here.next, &mut a);
            env.observe(&there.next, &mut b);
            prop_assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5));
        }
    }

    #[test]
    fn upright_and_still_costs_nothing_and_hanging_costs_pi_squared() {
        let draw = || Streams::new(1).draw("unused", 0, 0);
        let at = |angle| PendulumState { angle, spin: 0.0, steps: 199 };
        let step = |angle| Pendulum::default().step(&at(angle), [0.0], &mut draw());
        assert_eq!(step(0.0).reward, 0.0);
        assert!((step(PI).reward + PI * PI).abs() < 1e-9);
        assert!(step(0.0).truncated && !step(0.0).terminated);
    }
}
