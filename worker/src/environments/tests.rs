//! Step for step beside the installed Gymnasium.
//!
//! It needs a Python that has Gymnasium: `FOXLAUNCH_PEER_PYTHON` names one, else `python3` is asked. Where there is none
//! the test says so and passes.

use super::acrobot::{Acrobot, AcrobotState};
use super::cart_pole::{CartPole, CartPoleState};
use super::mountain_car::{MountainCar, MountainCarContinuous, MountainCarState};
use super::pendulum::{Pendulum, PendulumState};
use super::*;
use crate::seed::Streams;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Episodes as Gymnasium has them, by environment; none if there is no Gymnasium.
fn reference() -> Option<Vec<Value>> {
    let python = std::env::var("FOXLAUNCH_PEER_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import gymnasium"]).stdin(Stdio::null()).output();
    if !has.is_ok_and(|output| output.status.success()) {
        // past the test harness, which captures what println writes
        let words = format!(
            "SKIPPED: the comparison with Gymnasium, since {python} has none: pip install gymnasium, and name that \
             Python in FOXLAUNCH_PEER_PYTHON\n"
        );
        let _ = std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes());
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/gymnasium_steps.py");
    let output = Command::new(&python).args([script, "6"]).stdin(Stdio::null()).output().expect("the script runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Each step from the state that Gymnasium had before it; and the whole episode from the first state alone, as far as
/// the task is not chaotic: rounding differs in the last bit where numpy's cosine does.
fn follow<E: Environment>(
    env: &E,
    episode: &Value,
    state: impl Fn(&[f64], u32) -> E::State,
    numbers_of: impl Fn(&E::State) -> Vec<f64>,
    action: impl Fn(f64) -> E::Action,
    open_loop: f64,
) {
    let mut draw = Streams::new(1).draw("unused", 0, 0);
    let steps = episode["steps"].as_array().unwrap();
    let mut own = state(&numbers(&steps[0][0]), 0);
    for (t, step) in steps.iter().enumerate() {
        let taken = action(step[1].as_f64().unwrap());
        let from_theirs = env.step(&state(&numbers(&step[0]), t as u32), taken, &mut draw);
        let from_own = env.step(&own, taken, &mut draw);
        for (got, tolerance) in [(&from_theirs, 1e-12), (&from_own, open_loop)] {
            let (here, there) = (numbers_of(&got.next), numbers(&step[2]));
            for (here, there) in here.iter().zip(&there) {
                assert!((here - there).abs() <= tolerance * (1.0 + there.abs()), "step {t}: {here} {there}\n{step}");
            }
            let reward = step[4].as_f64().unwrap();
            assert!(
                (got.reward - reward).abs() <= tolerance * (1.0 + reward.abs()),
                "step {t}: {}\n{step}",
                got.reward
            );
            let ends = (step[5].as_bool().unwrap(), step[6].as_bool().unwrap());
            assert_eq!((got.terminated, got.truncated), ends, "step {t}\n{step}");
        }
        let mut seen = vec![0f32; env.observation_len()];
        env.observe(&state(&numbers(&step[2]), t as u32 + 1), &mut seen);
        for (here, there) in seen.iter().zip(numbers(&step[3])) {
            assert!((f64::from(*here) - there).abs() <= 1.2e-7 * there.abs(), "step {t}: {here} {there}");
        }
        own = from_own.next;
    }
    assert!(steps.len() > 5);
}

#[test]
fn every_step_is_gymnasiums() {
    let Some(episodes) = reference() else { return };
    let discrete = |a: f64| a as usize;
    let one = |a: f64| [a as f32];
    let mut seen = [0; 5];
    for episode in &episodes {
        let four = |x: &[f64]| [x[0], x[1], x[2], x[3]];
        let car = |x: &[f64], steps| MountainCarState { position: x[0], velocity: x[1], steps };
        let of_car = |s: &MountainCarState| vec![s.position, s.velocity];
        match episode["env"].as_str().unwrap() {
            "CartPole-v1" => {
                let state = |x: &[f64], steps| CartPoleState { place: four(x), steps };
                follow(&CartPole::default(), episode, state, |s| s.place.to_vec(), discrete, 1e-9);
                seen[0] += 1;
            }
            "Acrobot-v1" => {
                let state = |x: &[f64], steps| AcrobotState { place: four(x), steps };
                follow(&Acrobot::default(), episode, state, |s| s.place.to_vec(), discrete, 1e-4);
                seen[1] += 1;
            }
            "MountainCar-v0" => {
                follow(&MountainCar::default(), episode, car, of_car, discrete, 1e-9);
                seen[2] += 1;
            }
            "MountainCarContinuous-v0" => {
                follow(&MountainCarContinuous::default(), episode, car, of_car, one, 1e-12);
                seen[3] += 1;
            }
            "Pendulum-v1" => {
                let state = |x: &[f64], steps| PendulumState { angle: x[0], spin: x[1], steps };
                follow(&Pendulum::default(), episode, state, |s| vec![s.angle, s.spin], one, 1e-7);
                seen[4] += 1;
            }
            other => panic!("what is {other}?"),
        }
    }
    assert_eq!(seen, [6; 5]);
}

#[test]
fn first_states_fill_their_range_and_no_more() {
    let draws = |i| Streams::new(3).draw("reset", i, 0);
    let range =
        |values: Vec<f64>| values.iter().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
    let near = |(low, high): (f64, f64), (least, most): (f64, f64)| {
        let width = most - least;
        assert!(low >= least && low < least + 0.02 * width, "{low} {least}");
        assert!(high <= most && high > most - 0.02 * width, "{high} {most}");
    };
    let pi = std::f64::consts::PI;
    for i in 0..4 {
        near(range((0..1000).map(|n| CartPole::default().reset(&mut draws(n)).place[i]).collect()), (-0.05, 0.05));
        let wide = f64::from(0.1f32);
        near(range((0..1000).map(|n| Acrobot::default().reset(&mut draws(n)).place[i]).collect()), (-wide, wide));
    }
    near(range((0..1000).map(|n| MountainCar::default().reset(&mut draws(n)).position).collect()), (-0.6, -0.4));
    near(range((0..1000).map(|n| Pendulum::default().reset(&mut draws(n)).angle).collect()), (-pi, pi));
    near(range((0..1000).map(|n| Pendulum::default().reset(&mut draws(n)).spin).collect()), (-1.0, 1.0));
}

#[test]
fn another_reward_changes_nothing_else() {
    let twice: std::sync::Arc<rewarded::Reward<CartPole>> =
        std::sync::Arc::new(|_, _, action, step| step.reward + action as f64);
    let env = rewarded::Rewarded::new(CartPole::default(), twice);
    let mut draw = Streams::new(3).draw("reset", 0, 0);
    let state = env.reset(&mut draw);
    let (shaped, plain) = (env.step(&state, 1, &mut draw), CartPole::default().step(&state, 1, &mut draw));
    assert_eq!((shaped.next, shaped.reward), (plain.next, plain.reward + 1.0));
    assert_eq!((env.observation_len(), env.actions()), (4, 2));
}
