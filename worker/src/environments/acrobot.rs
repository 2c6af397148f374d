//! Swing a double pendulum up by the torque at its middle joint (Sutton 1996; Sutton and Barto 2018, section 11.3):
//! Gymnasium's `Acrobot-v1`, with the equations of the book.
//!
//! ```text
//! d1     = m1 c1^2 + m2 (l1^2 + c2^2 + 2 l1 c2 cos b) + I1 + I2
//! d2     = m2 (c2^2 + l1 c2 cos b) + I2
//! phi2   = m2 c2 g cos(a + b - pi/2)
//! phi1   = -m2 l1 c2 b'^2 sin b - 2 m2 l1 c2 b' a' sin b + (m1 c1 + m2 l1) g cos(a - pi/2) + phi2
//! b''    = (torque + d2/d1 phi1 - m2 l1 c2 a'^2 sin b - phi2) / (m2 c2^2 + I2 - d2^2/d1)
//! a''    = -(d2 b'' + phi1) / d1
//! ```
//!
//! integrated by one step of Runge and Kutta's fourth-order method. The reward is -1 for each step but the last.

use super::{Environment, Step, between};
use crate::seed::Draw;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// Seconds of a step.
const DT: f64 = 0.2;
const GRAVITY: f64 = 9.8;
/// Both links: length, mass and moment of inertia are 1, the centre of mass is in the middle.
const CENTRE: f64 = 0.5;
const MOST_SPIN: [f64; 2] = [4.0 * PI, 9.0 * PI];

/// The task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acrobot {
    /// Steps after which an episode is cut.
    pub time_limit: u32,
}

impl Default for Acrobot {
    fn default() -> Acrobot {
        Acrobot { time_limit: 500 }
    }
}

/// Both links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AcrobotState {
    /// The first link's angle from hanging down, the second's from the first, in radians, and both angles' velocities.
    pub place: [f64; 4],
    /// Steps taken.
    pub steps: u32,
}

/// What changes each of the four numbers.
fn slope([a, b, a_spin, b_spin]: [f64; 4], torque: f64) -> [f64; 4] {
    let c = CENTRE;
    let d1 = c * c + (1.0 + c * c + 2.0 * c * b.cos()) + 1.0 + 1.0;
    let d2 = (c * c + c * b.cos()) + 1.0;
    let phi2 = c * GRAVITY * (a + b - PI / 2.0).cos();
    let phi1 = -c * (b_spin * b_spin) * b.sin() - 2.0 * c * b_spin * a_spin * b.sin()
        + (c + 1.0) * GRAVITY * (a - PI / 2.0).cos()
        + phi2;
    let b_up = (torque + d2 / d1 * phi1 - c * (a_spin * a_spin) * b.sin() - phi2) / (c * c + 1.0 - d2 * d2 / d1);
    let a_up = -(d2 * b_up + phi1) / d1;
    [a_spin, b_spin, a_up, b_up]
}

fn moved(from: [f64; 4], slope: [f64; 4], by: f64) -> [f64; 4] {
    std::array::from_fn(|i| from[i] + by * slope[i])
}

/// `place` after `dt` seconds under `torque`, not yet wrapped or bounded.
fn integrated(place: [f64; 4], torque: f64, dt: f64) -> [f64; 4] {
    let k1 = slope(place, torque);
    let k2 = slope(moved(place, k1, dt / 2.0), torque);
    let k3 = slope(moved(place, k2, dt / 2.0), torque);
    let k4 = slope(moved(place, k3, dt), torque);
    std::array::from_fn(|i| place[i] + dt / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]))
}

/// `angle` within ± pi. An angle that is no number stays none.
fn wrapped(mut angle: f64) -> f64 {
    while angle > PI {
        angle -= 2.0 * PI;
    }
    while angle < -PI {
        angle += 2.0 * PI;
    }
    angle
}

impl Environment for Acrobot {
    type State = AcrobotState;
    type Action = usize;

    fn observation_len(&self) -> usize {
        6
    }

    /// Torque -1, 0, 1.
    fn actions(&self) -> usize {
        3
    }

    /// All four numbers within ± 0.1, rounded to 32 bits as in Gymnasium.
    fn reset(&self, draw: &mut Draw) -> AcrobotState {
        AcrobotState { place: std::array::from_fn(|_| f64::from(between(draw, -0.1, 0.1) as f32)), steps: 0 }
    }

    fn step(&self, state: &AcrobotState, action: usize, _draw: &mut Draw) -> Step<AcrobotState> {
        let [a, b, a_spin, b_spin] = integrated(state.place, action as f64 - 1.0, DT);
        let place = [
            wrapped(a),
            wrapped(b),
            a_spin.clamp(-MOST_SPIN[0], MOST_SPIN[0]),
            b_spin.clamp(-MOST_SPIN[1], MOST_SPIN[1]),
        ];
        let next = AcrobotState { place, steps: state.steps + 1 };
        // the tip is a link's length above the fixed joint
        let terminated = -place[0].cos() - (place[1] + place[0]).cos() > 1.0;
        let reward = if terminated { 0.0 } else { -1.0 };
        Step { next, reward, terminated, truncated: next.steps >= self.time_limit }
    }

    /// Cosine and sine of both angles, then both velocities.
    fn observe(&self, state: &AcrobotState, out: &mut [f32]) {
        let [a, b, a_spin, b_spin] = state.place;
        let seen = [a.cos(), a.sin(), b.cos(), b.sin(), a_spin, b_spin];
        out.iter_mut().zip(seen).for_each(|(out, x)| *out = x as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Streams;
    use proptest::prelude::*;

    /// Kinetic and potential energy. With both moments of inertia at 1 the equations of the book hold for it.
    fn energy([a, b, a_spin, b_spin]: [f64; 4]) -> f64 {
        let d1 = CENTRE * CENTRE + (1.0 + CENTRE * CENTRE + 2.0 * CENTRE * b.cos()) + 2.0;
        let d2 = CENTRE * CENTRE + CENTRE * b.cos() + 1.0;
        let d3 = CENTRE * CENTRE + 1.0;
        let kinetic = 0.5 * d1 * a_spin * a_spin + d2 * a_spin * b_spin + 0.5 * d3 * b_spin * b_spin;
        kinetic - GRAVITY * ((CENTRE + 1.0) * a.cos() + CENTRE * (a + b).cos())
    }

    proptest! {
        #[test]
        fn energy_is_kept_without_torque_and_changed_by_its_work(
            place in prop::array::uniform4(-1.5f64..1.5), torque in -1i32..=1,
        ) {
            // far shorter steps than the task's, so that what the method itself loses does not count
            let (steps, dt) = (2000, 1e-4);
            let (mut at, mut work) = (place, 0.0);
            for _ in 0..steps {
                let next = integrated(at, f64::from(torque), dt);
                work += f64::from(torque) * (next[1] - at[1]);
                at = next;
            }
            prop_assert!((energy(at) - energy(place) - work).abs() < 1e-8, "{} {} {work}", energy(at), energy(place));
        }

        #[test]
        fn left_and_right_mirror_each_other(place in prop::array::uniform4(-3.0f64..3.0), action in 0usize..3) {
            let mut draw = Streams::new(1).draw("unused", 0, 0);
            let env = Acrobot::default();
            let there = env.step(&AcrobotState { place, steps: 0 }, action, &mut draw);
            let mirrored = AcrobotState { place: place.map(|x| -x), steps: 0 };
            let back = env.step(&mirrored, 2 - action, &mut draw);
            for (one, other) in there.next.place.iter().zip(back.next.place) {
                prop_assert!((one + other).abs() < 1e-9, "{one} {other}");
            }
        }
    }

    #[test]
    fn hanging_still_it_stays_and_upright_it_is_done() {
        let mut draw = Streams::new(1).draw("unused", 0, 0);
        let env = Acrobot::default();
        let still = env.step(&AcrobotState::default(), 1, &mut draw);
        assert!(still.next.place.iter().all(|x| x.abs() < 1e-12), "{still:?}");
        assert!(!still.done() && still.reward == -1.0);
        let up = env.step(&AcrobotState { place: [PI, 0.0, 0.0, 0.0], steps: 499 }, 1, &mut draw);
        assert!(up.terminated && up.truncated && up.reward == 0.0);
    }
}
