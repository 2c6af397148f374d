//! Gradients against finite differences, and what must hold at the edges.

use super::categorical::{Support, cross_entropy};
use super::linear::{self, Activation};
use super::matrix::Panels;
use super::policy::{Clipping, Policy, Rows, Sums, clipped_loss};
use super::{conservative, dueling, noisy, product, quantile, softmax, td};

fn numbers(seed: usize, len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 7919 + seed * 104_729) as f64).sin() * 1.5).collect()
}

/// Requires that `gradient` is the slope of `function` at `at`, by central differences.
fn differences(at: &[f64], gradient: &[f64], mut function: impl FnMut(&[f64]) -> f64) {
    let step = 1e-6;
    assert_eq!(at.len(), gradient.len());
    for i in 0..at.len() {
        let mut moved = at.to_vec();
        moved[i] = at[i] + step;
        let above = function(&moved);
        moved[i] = at[i] - step;
        let slope = (above - function(&moved)) / (2.0 * step);
        assert!((slope - gradient[i]).abs() < 1e-6 * (1.0 + slope.abs()), "place {i}: {} is {slope}", gradient[i]);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn a_linear_layer_has_the_slopes_of_its_values() {
    let (rows, inputs, outputs) = (5, 7, 3);
    let (x, w, b) = (numbers(1, rows * inputs), numbers(2, outputs * inputs), numbers(3, outputs));
    let slope = numbers(4, rows * outputs);
    for activation in [Activation::None, Activation::Relu, Activation::Tanh] {
        let value = |x: &[f64], w: &[f64], b: &[f64]| {
            let (mut panels, mut y) = (Panels::new(), vec![0.0; rows * outputs]);
            linear::pack_forward(&mut panels, w, outputs, inputs);
            linear::forward(x, &panels, b, activation, &mut y);
            y
        };
        let mut dz = slope.clone();
        activation.backward(&value(&x, &w, &b), &mut dz);
        let mut panels = Panels::new();
        let (mut dw, mut db, mut dx) = (vec![9.0; w.len()], vec![9.0; b.len()], vec![9.0; x.len()]);
        linear::backward_weight(&dz, &x, (rows, inputs), &mut panels, false, &mut dw);
        linear::backward_bias(&dz, false, &mut db);
        linear::pack_backward(&mut panels, &w, outputs, inputs);
        linear::backward_input(&dz, &panels, false, &mut dx);
        differences(&x, &dx, |x| dot(&value(x, &w, &b), &slope));
        differences(&w, &dw, |w| dot(&value(&x, w, &b), &slope));
        differences(&b, &db, |b| dot(&value(&x, &w, b), &slope));
        // added to what is there
        let before = dx.clone();
        linear::backward_input(&dz, &panels, true, &mut dx);
        assert!(dx.iter().zip(&before).all(|(twice, once)| (twice - 2.0 * once).abs() < 1e-12));
    }
}

#[test]
fn noise_has_the_slopes_of_its_values() {
    let (outputs, inputs) = (3, 4);
    let (mut e_out, mut e_in) = (numbers(1, outputs), numbers(2, inputs));
    e_out[0] = 0.0;
    noisy::scale(&mut e_out);
    noisy::scale(&mut e_in);
    assert_eq!(e_out[0], 0.0);
    let (mu, sigma, slope) = (numbers(3, 12), numbers(4, 12), numbers(5, 12));
    let weight = |sigma: &[f64]| {
        let mut weight = vec![0.0; 12];
        noisy::weight(&mu, sigma, &e_out, &e_in, &mut weight);
        dot(&weight, &slope)
    };
    let mut gradient = vec![9.0; 12];
    noisy::backward_weight(&slope, &e_out, &e_in, false, &mut gradient);
    differences(&sigma, &gradient, weight);
    let bias = |sigma: &[f64]| {
        let mut bias = vec![0.0; outputs];
        noisy::bias(&mu[..outputs], sigma, &e_out, &mut bias);
        dot(&bias, &slope[..outputs])
    };
    let mut gradient = vec![9.0; outputs];
    noisy::backward_bias(&slope[..outputs], &e_out, false, &mut gradient);
    differences(&sigma[..outputs], &gradient, bias);
}

#[test]
fn dueling_has_the_slopes_of_its_values_and_the_mean_of_v() {
    let (rows, actions, atoms) = (2, 3, 4);
    let (v, a, slope) = (numbers(1, rows * atoms), numbers(2, rows * 12), numbers(3, rows * 12));
    let value = |v: &[f64], a: &[f64]| {
        let mut q = vec![0.0; rows * 12];
        dueling::forward(v, a, actions, atoms, &mut q);
        q
    };
    let q = value(&v, &a);
    let mean = (0..actions).map(|action| q[action * atoms + 1]).sum::<f64>() / 3.0;
    assert!((mean - v[1]).abs() < 1e-12);
    let (mut dv, mut da) = (vec![9.0; v.len()], vec![9.0; a.len()]);
    dueling::backward(&slope, actions, atoms, false, &mut dv, &mut da);
    differences(&v, &dv, |v| dot(&value(v, &a), &slope));
    differences(&a, &da, |a| dot(&value(&v, a), &slope));
}

#[test]
fn products_with_embeddings_have_the_slopes_of_their_values() {
    let (rows, samples, width) = (2, 3, 4);
    let (f, e, slope) = (numbers(1, rows * width), numbers(2, 24), numbers(3, 24));
    let value = |f: &[f64], e: &[f64]| {
        let mut y = vec![0.0; 24];
        product::forward(f, e, samples, width, &mut y);
        y
    };
    let (mut df, mut de) = (vec![9.0; f.len()], vec![9.0; e.len()]);
    product::backward(&slope, &f, &e, samples, width, false, &mut df, &mut de);
    differences(&f, &df, |f| dot(&value(f, &e), &slope));
    differences(&e, &de, |e| dot(&value(&f, e), &slope));
    // the same samples for all rows
    let shared = [&e[..12], &e[..12]].concat();
    assert_eq!(value(&f, &e[..12]), value(&f, &shared));
}

#[test]
fn losses_have_the_slopes_of_their_values() {
    let (logits, mut target) = (numbers(1, 6), numbers(2, 6));
    softmax::softmax(&target.clone(), &mut target);
    let loss =
        |logits: &[f64], gradient: &mut [f64]| cross_entropy(logits, &target, 1.5, &mut [0.0; 6], gradient) * 1.5;
    let mut gradient = vec![0.0; 6];
    loss(&logits, &mut gradient);
    differences(&logits, &gradient, |logits| loss(logits, &mut [0.0; 6]));

    let (theta, levels, target) = (numbers(3, 4), [0.1, 0.4, 0.7, 0.9], numbers(4, 5));
    let loss = |theta: &[f64], gradient: &mut [f64]| quantile::huber(theta, &target, &levels, 0.5, 2.0, gradient) * 2.0;
    let mut gradient = vec![0.0; 4];
    loss(&theta, &mut gradient);
    differences(&theta, &gradient, |theta| loss(theta, &mut [0.0; 4]));

    let q = numbers(5, 4);
    let mut gradient = vec![9.0; 4];
    conservative::penalty(&q, 2, 3.0, &mut gradient);
    differences(&q, &gradient, |q| 3.0 * conservative::penalty(q, 2, 1.0, &mut [0.0; 4]));

    let support = Support { low: -1.0, high: 2.0, atoms: 6 };
    let mean = |logits: &[f64]| {
        let mut p = [0.0; 6];
        softmax::softmax(logits, &mut p);
        support.mean(&p)
    };
    let (mut p, mut gradient) = ([0.0; 6], vec![0.0; 6]);
    softmax::softmax(&logits, &mut p);
    support.mean_backward(&p, support.mean(&p), 1.0, &mut gradient);
    differences(&logits, &gradient, mean);

    for delta in [-3.0, -0.4, 0.0, 0.7, 5.0] {
        differences(&[delta], &[td::huber(delta).1], |x| td::huber(x[0]).0);
        differences(&[delta], &[td::square(delta).1], |x| td::square(x[0]).0);
    }
}

#[test]
fn logits_of_two_hundred_stay_finite_in_32_bits() {
    let logits = [200.0f32, -200.0, 0.0, 199.0];
    let mut p = [0.0; 4];
    assert!(softmax::softmax(&logits, &mut p).is_finite());
    assert!((p.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    assert!(softmax::log_sum_exp(&logits).is_finite());
    let mut gradient = [0.0; 4];
    let loss = cross_entropy(&logits, &[0.0, 1.0, 0.0, 0.0], 1.0, &mut p, &mut gradient);
    assert!(loss.is_finite() && (loss - 400.3).abs() < 0.1, "{loss}");
    assert!(gradient.iter().all(|g| g.is_finite()));
    let penalty = conservative::penalty(&logits, 1, 1.0, &mut gradient);
    assert!(penalty.is_finite() && gradient.iter().all(|g| g.is_finite()));
}

#[test]
fn what_is_no_number_is_not_hidden() {
    let mut y = [f32::NAN, -1.0];
    Activation::Relu.apply(&mut y);
    assert!(y[0].is_nan() && y[1] == 0.0);
    assert!(softmax::log_sum_exp(&[1.0, f32::NAN]).is_nan());
    let support = Support { low: -1.0f32, high: 1.0, atoms: 5 };
    let (mut m, mut gradient) = ([0.0; 5], [0.0; 5]);
    support.project(0.0, 1.0, &[f32::NAN; 5], &mut m);
    assert!(cross_entropy(&[0.0; 5], &m, 1.0, &mut [0.0; 5], &mut gradient).is_nan());
    for reward in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        support.project(reward, 0.0, &[0.2; 5], &mut m);
        assert!(cross_entropy(&[0.0; 5], &m, 1.0, &mut [0.0; 5], &mut gradient).is_nan());
    }
    assert!(quantile::huber(&[0.0f32], &[f32::NAN], &[0.5], 1.0, 1.0, &mut [0.0]).is_nan());
}

#[test]
fn the_clipped_losses_have_the_slopes_of_their_sum() {
    let (rows, dims) = (6, 2);
    let (values, old_values, returns) = (numbers(1, rows), numbers(2, rows), numbers(3, rows));
    let (advantages, old) = (numbers(4, rows), numbers(5, rows));
    let log_std = [-0.3, 0.2];
    let how = Clipping { clip: 0.2, value_clip: Some(0.3), value_coefficient: 0.7, entropy_coefficient: 0.05 };
    for gaussian in [false, true] {
        let width = if gaussian { dims } else { 4 };
        let outputs = numbers(6, rows * width);
        let actions: Vec<f32> = match gaussian {
            true => numbers(7, rows * dims).iter().map(|x| *x as f32).collect(),
            false => (0..rows).map(|i| (i % 4) as f32).collect(),
        };
        fn policy_of(gaussian: bool, log_std: &[f64]) -> Policy<'_, f64> {
            if gaussian { Policy::Gaussian { log_std } } else { Policy::Categorical }
        }
        // some ratios within the clip, some far from it
        let old_log_probs: Vec<f64> = (0..rows)
            .map(|i| {
                let action = &actions[i * actions.len() / rows..(i + 1) * actions.len() / rows];
                let mut room = vec![0.0; width];
                let of_row = &outputs[i * width..(i + 1) * width];
                policy_of(gaussian, &log_std).evaluate(of_row, action, &mut room).0 + 0.2 * old[i]
            })
            .collect();
        let loss = |outputs: &[f64], values: &[f64], log_std: &[f64]| {
            let rows = Rows {
                outputs,
                values,
                actions: &actions,
                old_log_probs: &old_log_probs,
                old_values: &old_values,
                advantages: &advantages,
                returns: &returns,
            };
            let mut g = (vec![0.0; outputs.len()], vec![0.0; values.len()], vec![0.0; dims]);
            let mut sums = Sums::default();
            clipped_loss(policy_of(gaussian, log_std), rows, how, &mut g.0, &mut g.1, &mut g.2, &mut sums);
            (sums.policy + 0.7 * sums.value - 0.05 * sums.entropy, sums.clipped, g)
        };
        let (_, clipped, (by_outputs, by_values, by_log_std)) = loss(&outputs, &values, &log_std);
        assert!(clipped > 0.0 && clipped < rows as f64, "{clipped}");
        differences(&outputs, &by_outputs, |x| loss(x, &values, &log_std).0);
        differences(&values, &by_values, |x| loss(&outputs, x, &log_std).0);
        if gaussian {
            differences(&log_std, &by_log_std, |x| loss(&outputs, &values, x).0);
        }
    }
}

#[test]
fn huge_logits_stay_finite_and_draws_follow_their_shares() {
    let policy = Policy::<f32>::Categorical;
    for logits in [[200f32, -200.0, 0.0], [-200.0, -200.0, -200.0], [1e30, -1e30, 0.0]] {
        let mut room = [0.0; 3];
        for action in [0f32, 1.0, 2.0] {
            let (log_prob, entropy) = policy.evaluate(&logits, &[action], &mut room);
            assert!(log_prob.is_finite() && entropy.is_finite(), "{logits:?} {log_prob} {entropy}");
            policy.backward(&[action], entropy, (1.0, 1.0), &mut room, &mut []);
            assert!(room.iter().all(|g| g.is_finite()), "{logits:?} {room:?}");
        }
    }
    let logits = [1.0f32, 0.0, -1e30];
    let mut counts = [0; 3];
    for i in 0..1000 {
        let mut action = [9.0];
        policy.sample(&logits, &mut action, &mut |_| f64::from(i) / 1000.0);
        counts[action[0] as usize] += 1;
    }
    // e / (e + 1) of them
    assert_eq!((counts[0] + counts[1], counts[2]), (1000, 0));
    assert!((730..=732).contains(&counts[0]), "{counts:?}");
    let mut action = [0.0];
    policy.sample(&[0.0, -1e30], &mut action, &mut |_| 1.0);
    assert_eq!(action[0], 0.0, "never one without a share");
}
