//! What is remembered: windows of n steps, and priorities.

use super::harness::{Case, each, numbers};
use foxlaunch_worker::environments::Step;
use foxlaunch_worker::replay::prioritized::{importance, normalised};
use foxlaunch_worker::replay::{NStep, Priorities};

#[test]
fn n_step() {
    each("n_step", |case| {
        let flags = |key: &str| -> Vec<bool> { numbers(case.input(key)).into_iter().map(|x| x != 0.0).collect() };
        let (rewards, terminated, truncated) =
            (numbers(case.input("rewards")), flags("terminated"), flags("truncated"));
        let (mut windows, mut closed) = (NStep::new(case.whole("n"), case.number("gamma")), Vec::new());
        for i in 0..rewards.len() {
            let step = Step { next: i, reward: rewards[i], terminated: terminated[i], truncated: truncated[i] };
            windows.push(i, 0, rewards[i], &step, &mut |t| closed.push(t));
        }
        let starts = case.output("starts").as_array().unwrap();
        assert_eq!(closed.len() + windows.open(), starts.len(), "{}", case.note);
        for t in &closed {
            let start = &starts[t.state];
            let close = |got: f64, key: &str| {
                let expected = numbers(&start[key])[0];
                assert!((got - expected).abs() <= 1e-9 * (1.0 + expected.abs()), "{}: {key} {got}", case.note);
            };
            close(t.reward, "n_step_reward");
            close(t.discount, "discount");
            close(t.next as f64, "bootstrap_index");
            close((t.next - t.state + 1) as f64, "steps");
            assert_eq!(start["crosses_end_of_data"], false, "{}", case.note);
        }
        let waiting = starts.iter().filter(|start| start["crosses_end_of_data"] == true).count();
        assert_eq!(windows.open(), waiting, "{}", case.note);
    });
}

#[test]
fn per() {
    each("per", |case| match case.kind() {
        Some("ranks") => over_ranks(case),
        _ => alone(case),
    });
}

fn alone(case: &Case) {
    let errors = numbers(case.input("td_errors"));
    let mut priorities = Priorities::new(case.number("alpha"), case.number("eps"));
    for (i, error) in errors.iter().enumerate() {
        priorities.insert(i);
        priorities.update(i, *error);
    }
    let masses: Vec<f64> = (0..errors.len()).map(|i| priorities.mass(i)).collect();
    case.expect("leaf", &masses);
    case.expect("total", &[priorities.total()]);
    let share = |i: usize| masses[i] / priorities.total();
    case.expect("probs", &(0..errors.len()).map(share).collect::<Vec<_>>());
    let indices = priorities.draw(&numbers(case.input("stratified_u")));
    case.expect("indices", &indices.iter().map(|i| *i as f64).collect::<Vec<_>>());
    let beta = case.number("beta");
    let of = |indices: &[usize]| importance(&indices.iter().map(|i| share(*i)).collect::<Vec<_>>(), errors.len(), beta);
    let raw = of(&indices);
    case.expect("weights_raw", &raw);
    case.expect("weights_batch_max", &priorities.weights(&indices, beta));
    // the other normaliser, by the largest weight of all rows, is not the one that we took
    let largest = of(&(0..errors.len()).collect::<Vec<_>>()).into_iter().fold(0.0, f64::max);
    case.expect("weights_buffer_max", &raw.iter().map(|w| w / largest).collect::<Vec<_>>());
}

/// Each rank draws from its own rows: probabilities, and so weights, are still over all.
fn over_ranks(case: &Case) {
    let lists = |key: &str| -> Vec<Vec<f64>> { case.input(key).as_array().unwrap().iter().map(numbers).collect() };
    let (errors, picks) = (lists("td_errors_per_rank"), lists("picks_per_rank"));
    let mut of_picks = Vec::new();
    for (errors, picks) in errors.iter().zip(&picks) {
        let mut priorities = Priorities::new(case.number("alpha"), case.number("eps"));
        for (i, error) in errors.iter().enumerate() {
            priorities.insert(i);
            priorities.update(i, *error);
        }
        of_picks.extend(picks.iter().map(|i| priorities.mass(*i as usize) / priorities.total()));
    }
    let ranks = errors.len() as f64;
    let probabilities: Vec<f64> = of_picks.iter().map(|p| p / ranks).collect();
    case.expect("effective_probs_per_rank", &probabilities);
    let rows = errors.iter().map(Vec::len).sum();
    let raw = importance(&probabilities, rows, case.number("beta"));
    case.expect("weights_raw_global", &raw);
    let weights = normalised(&raw);
    case.expect("weights_global_max", &weights);
    case.refuse("weights_if_normalised_per_rank_WRONG", "weights_global_max", &weights);
}
