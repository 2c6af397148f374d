//! Values of actions: targets, distributions, quantiles, noise, the conservative penalty.

use super::harness::{Case, each, numbers};
use foxlaunch_worker::kernels::categorical::{Support, cross_entropy};
use foxlaunch_worker::kernels::linear::{self, Activation};
use foxlaunch_worker::kernels::matrix::Panels;
use foxlaunch_worker::kernels::{Scalar, conservative, dueling, noisy, quantile, softmax, td};

/// Discounts, 0 where the task ended.
fn discounts<T: Scalar>(case: &Case) -> Vec<T> {
    let ended = numbers(case.input("terminated"));
    case.inputs::<T>("discounts").into_iter().zip(ended).map(|(d, ended)| d * T::of(1.0 - ended)).collect()
}

fn c51<T: Scalar>(case: &Case) {
    let atoms = case.whole("n_atoms");
    let support = Support { low: T::of(case.number("v_min")), high: T::of(case.number("v_max")), atoms };
    let next = case.inputs::<T>("next_probs");
    let rows = case.inputs::<T>("rewards").into_iter().zip(discounts::<T>(case)).zip(next.chunks_exact(atoms));
    let mut all = Vec::new();
    for ((reward, discount), next) in rows {
        let mut m = vec![T::ZERO; atoms];
        support.project(reward, discount, next, &mut m);
        let (before, after) = (next.iter().copied().sum::<T>().wide(), m.iter().copied().sum::<T>().wide());
        assert!((before - after).abs() < 1e-5, "{}: mass {before} became {after}", case.note);
        // the loss is least at the target itself, where its gradient is none
        let logits: Vec<T> = m.iter().map(|m| if *m > T::ZERO { m.ln() } else { T::of(-90.0) }).collect();
        let mut slope = vec![T::ZERO; atoms];
        cross_entropy(&logits, &m, T::ONE, &mut vec![T::ZERO; atoms], &mut slope);
        assert!(slope.iter().all(|g| g.wide().abs() < 1e-5), "{}: {slope:?}", case.note);
        all.extend(m);
    }
    case.expect("target_probs", &all);
}

#[test]
fn c51_projection() {
    each("c51_projection", |case| {
        c51::<f64>(case);
        c51::<f32>(case);
    });
}

fn huber<T: Scalar>(case: &Case) {
    let (theta, target, levels) = (case.inputs::<T>("theta"), case.inputs::<T>("target"), case.inputs::<T>("taus"));
    let weights = case.inputs::<T>("is_weights");
    let rows = weights.len();
    let (n, m) = (theta.len() / rows, target.len() / rows);
    let share = T::ONE / T::of(rows as f64);
    let (mut per, mut total, mut gradient) = (Vec::new(), T::ZERO, vec![T::ZERO; theta.len()]);
    for (row, (weight, slope)) in weights.iter().zip(gradient.chunks_exact_mut(n)).enumerate() {
        let of = row * n..(row + 1) * n;
        let target = &target[row * m..(row + 1) * m];
        let kappa = T::of(case.number("kappa"));
        let loss = quantile::huber(&theta[of.clone()], target, &levels[of], kappa, *weight * share, slope);
        total += *weight * share * loss;
        per.push(loss);
    }
    case.expect("loss_per_sample", &per);
    case.expect("loss", &[total]);
    case.expect("grad_theta", &gradient);
}

#[test]
fn quantile_huber() {
    each("quantile_huber", |case| {
        huber::<f64>(case);
        huber::<f32>(case);
    });
}

fn cosines<T: Scalar>(case: &Case) {
    let (levels, count) = (case.inputs::<T>("taus"), case.whole("n_cos"));
    let mut out = vec![T::ZERO; levels.len() * count];
    quantile::cosines(&levels, count, case.whole("first_index"), &mut out);
    case.expect("cos", &out);
}

#[test]
fn iqn_cos() {
    each("iqn_cos", |case| {
        cosines::<f64>(case);
        cosines::<f32>(case);
    });
}

fn targets<T: Scalar>(case: &Case) {
    let rewards = case.inputs::<T>("rewards");
    let (online, valued) = (case.inputs::<T>("q_online_next"), case.inputs::<T>("q_target_next"));
    let actions = online.len() / rewards.len();
    let rows =
        rewards.iter().zip(discounts::<T>(case)).zip(online.chunks_exact(actions).zip(valued.chunks_exact(actions)));
    let (mut chosen, mut double, mut single) = (Vec::new(), Vec::new(), Vec::new());
    for ((reward, discount), (online, valued)) in rows {
        chosen.push(T::of(td::greedy(online) as f64));
        double.push(td::target(*reward, discount, online, valued));
        single.push(td::target(*reward, discount, valued, valued));
    }
    case.expect("next_actions", &chosen);
    case.expect("target", &double);
    case.expect("target_if_single_dqn", &single);
    case.refuse("target_if_single_dqn", "target", &double);
    let advantage = case.inputs::<T>("advantage");
    let mut q = vec![T::ZERO; advantage.len()];
    dueling::forward(&case.inputs::<T>("value"), &advantage, actions, 1, &mut q);
    case.expect("dueling_q", &q);
}

#[test]
fn dqn_target() {
    each("dqn_target", |case| {
        targets::<f64>(case);
        targets::<f32>(case);
    });
}

fn noise<T: Scalar>(case: &Case) {
    let (mut inputs, mut outputs) = (case.inputs::<T>("eps_in"), case.inputs::<T>("eps_out"));
    noisy::scale(&mut inputs);
    noisy::scale(&mut outputs);
    case.expect("f_in", &inputs);
    case.expect("f_out", &outputs);
    let (i, o) = (inputs.len(), outputs.len());
    let mut noise = vec![T::ZERO; i * o];
    noisy::weight(&vec![T::ZERO; i * o], &vec![T::ONE; i * o], &outputs, &inputs, &mut noise);
    case.expect("weight_eps", &noise);
    let mut noise = vec![T::ZERO; o];
    noisy::bias(&vec![T::ZERO; o], &vec![T::ONE; o], &outputs, &mut noise);
    case.expect("bias_eps", &noise);

    let (mu, x, bias_mu) = (case.inputs::<T>("weight_mu"), case.inputs::<T>("x"), case.inputs::<T>("bias_mu"));
    let (mut weight, mut bias) = (mu.clone(), bias_mu.clone());
    noisy::weight(&mu, &case.inputs::<T>("weight_sigma"), &outputs, &inputs, &mut weight);
    noisy::bias(&bias_mu, &case.inputs::<T>("bias_sigma"), &outputs, &mut bias);
    let y = |weight: &[T], bias: &[T]| {
        let (mut panels, mut y) = (Panels::new(), vec![T::ZERO; x.len() / i * o]);
        linear::pack_forward(&mut panels, weight, o, i);
        linear::forward(&x, &panels, bias, Activation::None, &mut y);
        y
    };
    case.expect("y", &y(&weight, &bias));
    case.expect("y_eval", &y(&mu, &bias_mu));
}

#[test]
fn noisy_layer() {
    each("noisy", |case| {
        noise::<f64>(case);
        noise::<f32>(case);
    });
}

fn penalty<T: Scalar>(case: &Case) {
    let (q, alpha) = (case.inputs::<T>("q"), T::of(case.number("alpha")));
    let (actions, targets) = (numbers(case.input("actions")), case.inputs::<T>("td_target"));
    let width = q.len() / actions.len();
    let share = T::ONE / T::of(actions.len() as f64);
    let (mut td_loss, mut conservative, mut levels) = (T::ZERO, T::ZERO, Vec::new());
    let mut gradient = vec![T::ZERO; q.len()];
    let rows = q.chunks_exact(width).zip(gradient.chunks_exact_mut(width)).zip(actions.iter().zip(&targets));
    for ((q, slope), (action, target)) in rows {
        let action = *action as usize;
        conservative += share * conservative::penalty(q, action, alpha * share, slope);
        levels.push(softmax::log_sum_exp(q));
        let delta = *target - q[action];
        let square = case.input("td_loss") == "mse";
        let (loss, by_delta) = if square { td::square(delta) } else { td::huber(delta) };
        td_loss += share * loss;
        slope[action] -= share * by_delta;
    }
    case.expect("td_loss", &[td_loss]);
    case.expect("conservative", &[conservative]);
    case.expect("total", &[td_loss + alpha * conservative]);
    case.expect("logsumexp", &levels);
    case.expect("grad_q", &gradient);
}

#[test]
fn cql() {
    each("cql", |case| {
        penalty::<f64>(case);
        penalty::<f32>(case);
    });
}
