//! Policies: advantages, their normalisation over shards, the clipped losses; and the control task with reference steps.

use super::harness::{Case, WIDE, each, numbers};
use foxlaunch_worker::environments::Environment;
use foxlaunch_worker::environments::cart_pole::{CartPole, CartPoleState};
use foxlaunch_worker::kernels::Scalar;
use foxlaunch_worker::kernels::advantage::{Steps, gae as estimate};
use foxlaunch_worker::kernels::moments::{Spread, standardize};
use foxlaunch_worker::kernels::policy::{Clipping, Policy, Rows, Sums, clipped_loss, surrogate};
use foxlaunch_worker::seed::Streams;

fn tolerance<T: Scalar>() -> f64 {
    if size_of::<T>() == 4 { 2e-5 } else { 1e-9 }
}

/// Requires that a figure that may cancel to nothing is right beside 1.
fn figure<T: Scalar>(case: &Case, key: &str, got: f64) {
    let expected = numbers(case.output(key))[0];
    let apart = (got - expected).abs() / (1.0 + expected.abs());
    assert!(apart <= tolerance::<T>(), "{}: {key} is {got}, expected {expected}", case.note);
}

fn advantages<T: Scalar>(case: &Case) {
    let rewards = case.inputs::<T>("rewards");
    let flags = |key: &str| -> Vec<bool> { numbers(case.input(key)).iter().map(|x| *x != 0.0).collect() };
    let (values, next_values) = (case.inputs::<T>("values"), case.inputs::<T>("next_values"));
    let (terminated, truncated) = (flags("terminated"), flags("truncated"));
    let steps = Steps {
        streams: rewards.len() / case.input("rewards").as_array().unwrap().len(),
        rewards: &rewards,
        values: &values,
        next_values: &next_values,
        terminated: &terminated,
        truncated: &truncated,
    };
    let (mut a, mut r) = (vec![T::ZERO; rewards.len()], vec![T::ZERO; rewards.len()]);
    estimate(steps, T::of(case.number("gamma")), T::of(case.number("lam")), &mut a, &mut r);
    case.expect("advantages", &a);
    case.expect("returns", &r);
}

#[test]
fn gae() {
    each("gae", |case| {
        advantages::<f64>(case);
        advantages::<f32>(case);
    });
}

fn losses<T: Scalar>(case: &Case) {
    let (outputs, values) = (case.inputs::<T>("logits"), case.inputs::<T>("values"));
    let rows = values.len();
    let actions: Vec<f32> = numbers(case.input("actions")).iter().map(|a| *a as f32).collect();
    let mut advantages = case.inputs::<T>("advantages");
    if case.input("norm_adv").as_bool().unwrap() {
        let spread = Spread::of(advantages.iter().copied());
        standardize(&mut advantages, spread, 1e-8);
    }
    let (old_log_probs, old_values) = (case.inputs::<T>("old_logp"), case.inputs::<T>("old_values"));
    let returns = case.inputs::<T>("returns");
    let (value_coefficient, entropy_coefficient) = (case.number("vf_coef"), case.number("ent_coef"));
    let how = Clipping {
        clip: T::of(case.number("clip")),
        value_clip: (!case.input("vf_clip").is_null()).then(|| T::of(case.number("vf_clip"))),
        value_coefficient: T::of(value_coefficient),
        entropy_coefficient: T::of(entropy_coefficient),
    };
    let of = Rows {
        outputs: &outputs,
        values: &values,
        actions: &actions,
        old_log_probs: &old_log_probs,
        old_values: &old_values,
        advantages: &advantages,
        returns: &returns,
    };
    let (mut by_outputs, mut by_values) = (vec![T::ZERO; outputs.len()], vec![T::ZERO; rows]);
    let mut sums = Sums::default();
    clipped_loss(Policy::Categorical, of, how, &mut by_outputs, &mut by_values, &mut [], &mut sums);
    let count = rows as f64;
    figure::<T>(case, "policy_loss", sums.policy / count);
    figure::<T>(case, "value_loss", sums.value / count);
    figure::<T>(case, "entropy", sums.entropy / count);
    figure::<T>(case, "approx_kl", sums.kl / count);
    let total = sums.policy + value_coefficient * sums.value - entropy_coefficient * sums.entropy;
    figure::<T>(case, "total", total / count);
    // the reference has this share of rows in 32 bits
    let clipped = numbers(case.output("clip_fraction"))[0];
    assert!((sums.clipped / count - clipped).abs() < 1e-7, "{}: {} rows clipped", case.note, sums.clipped);
    let mean = |sum: &[T]| -> Vec<T> { sum.iter().map(|g| *g / T::of(count)).collect() };
    case.expect("grad_logits", &mean(&by_outputs));
    case.expect("grad_values", &mean(&by_values));
    case.expect("adv_used", &advantages);
    let width = outputs.len() / rows;
    let log_probs: Vec<T> = (0..rows)
        .map(|i| Policy::Categorical.log_prob(&outputs[i * width..(i + 1) * width], &actions[i..i + 1]))
        .collect();
    case.expect("new_logp", &log_probs);
    let ratio = |i: usize| surrogate(log_probs[i], old_log_probs[i], advantages[i], how.clip).ratio;
    case.expect("ratio", &(0..rows).map(ratio).collect::<Vec<T>>());
}

#[test]
fn ppo_clip_loss() {
    each("ppo_clip_loss", |case| {
        losses::<f64>(case);
        losses::<f32>(case);
    });
}

fn normalised<T: Scalar>(case: &Case) {
    let shards: Vec<Vec<T>> = case
        .input("shards")
        .as_array()
        .unwrap()
        .iter()
        .map(|shard| numbers(shard).into_iter().map(T::of).collect())
        .collect();
    let eps = case.number("eps");
    // what the trainer does: all ranks know all rows
    let mut all = shards.concat();
    let whole = Spread::of(all.iter().copied());
    // and what ranks that know only their own would put together
    let parts = shards.iter().map(|shard| Spread::of(shard.iter().copied())).fold(Spread::default(), Spread::merged);
    for spread in [whole, parts] {
        case.expect("count", &[spread.count]);
        figure::<T>(case, "mean", spread.mean);
        figure::<T>(case, "sum", spread.mean * spread.count);
    }
    standardize(&mut all, whole, eps);
    if size_of::<T>() == 8 {
        for spread in [whole, parts] {
            case.expect("std_ddof1", &[spread.deviation()]);
        }
        case.expect("normalised", &all);
    } else {
        // 32 bits have lost digits of the inputs, more so the larger their mean: what is left of them is normalised right
        let mut wide: Vec<f64> = shards.concat().iter().map(|x| x.wide()).collect();
        let spread = Spread::of(wide.iter().copied());
        standardize(&mut wide, spread, eps);
        assert!(all.iter().zip(&wide).all(|(a, b)| (a.wide() - b).abs() <= 2e-5 * (1.0 + b.abs())), "{}", case.note);
    }
    // each shard by itself is another thing; one of a single row is nothing at all
    let faulty = case.output("local_normalised_DIFFERENT").as_array().unwrap();
    if faulty.iter().all(|shard| !shard.is_null() && shard.as_array().is_none_or(|s| s.iter().all(|x| x.is_number()))) {
        let faulty: Vec<f64> = faulty.iter().flat_map(numbers).collect();
        let apart = all.iter().zip(&faulty).map(|(a, b)| (a.wide() - b).abs()).fold(0.0, f64::max);
        assert!(shards.len() == 1 || apart > WIDE, "{}: normalised by shard", case.note);
    }
}

#[test]
fn adv_norm_sharded() {
    each("adv_norm_sharded", |case| {
        normalised::<f64>(case);
        normalised::<f32>(case);
    });
}

#[test]
fn cartpole_step() {
    let mut draw = Streams::new(1).draw("unused", 0, 0);
    each("cartpole_step", |case| {
        let place: [f64; 4] = case.inputs("state").try_into().unwrap();
        let env = CartPole { time_limit: case.whole("time_limit") as u32 };
        let mut state = CartPoleState { place, steps: 0 };
        let feedback = (case.kind() == Some("feedback")).then(|| numbers(case.input("gains")));
        let actions = if feedback.is_none() { numbers(case.input("actions")) } else { Vec::new() };
        let traced = if feedback.is_none() { "trace" } else { "first_steps" };
        let trace = case.output(traced).as_array().unwrap();
        let (mut returned, mut length) = (0.0, 0);
        let last = loop {
            let action = match &feedback {
                Some(gains) => usize::from(gains.iter().zip(state.place).map(|(g, x)| g * x).sum::<f64>() > 0.0),
                None => actions[length] as usize,
            };
            let step = env.step(&state, action, &mut draw);
            if let Some(expected) = trace.get(length) {
                for (got, want) in step.next.place.iter().zip(numbers(&expected["state"])) {
                    assert!((got - want).abs() <= 1e-9 * (1.0 + want.abs()), "{}: step {length}", case.note);
                }
                let ends = [("terminated", step.terminated), ("truncated", step.truncated)];
                for (key, got) in ends.iter().filter(|(key, _)| expected.get(*key).is_some()) {
                    assert_eq!(expected[*key].as_bool(), Some(*got), "{}: step {length}: {key}", case.note);
                }
                if let Some(reward) = expected.get("reward") {
                    assert_eq!(reward.as_f64(), Some(step.reward), "{}", case.note);
                }
            }
            (returned, length) = (returned + step.reward, length + 1);
            state = step.next;
            if step.done() || feedback.is_none() && length == actions.len() {
                break step;
            }
        };
        case.expect("length", &[length as f64]);
        case.expect("episode_return", &[returned]);
        if feedback.is_some() {
            assert_eq!(case.output("terminated").as_bool(), Some(last.terminated), "{}", case.note);
            assert_eq!(case.output("truncated").as_bool(), Some(last.truncated), "{}", case.note);
        }
    });
}
