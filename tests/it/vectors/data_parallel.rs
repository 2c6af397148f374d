//! What many rows become together: gradients accumulated, clipped, stepped along.

use super::harness::{Case, each, numbers};
use foxlaunch_worker::collectives::Solo;
use foxlaunch_worker::kernels::linear::{self, Activation};
use foxlaunch_worker::kernels::matrix::Panels;
use foxlaunch_worker::kernels::{Scalar, td};
use foxlaunch_worker::optimizer::{AdamW, AdamWSettings, Moment, Moments, clip_coefficient, global_norm};
use foxlaunch_worker::parallel::{FlatGradients, HostFloat, Layout};

fn adamw<T: Moment>(case: &Case, fresh: fn(usize, AdamWSettings) -> AdamW) {
    let x = |key: &str| case.number(key);
    let (learning_rate, beta1, beta2) = (x("lr"), x("beta1"), x("beta2"));
    let settings = AdamWSettings { learning_rate, beta1, beta2, eps: x("eps"), weight_decay: x("weight_decay") };
    let mut values = case.inputs::<T>("param");
    let gradients = case.inputs::<T>("grads");
    let mut adam = fresh(values.len(), settings);
    let trace = case.output("trace").as_array().unwrap();
    for (gradient, expected) in gradients.chunks_exact(values.len()).zip(trace) {
        adam.step_flat(&mut values, gradient).unwrap();
        let (m, v): (Vec<T>, Vec<T>) = match adam.moments() {
            Moments::F64 { m, v } => (of(m.iter().copied()), of(v.iter().copied())),
            Moments::F32 { m, v } => (of(m.iter().map(|x| f64::from(*x))), of(v.iter().map(|x| f64::from(*x)))),
        };
        for (key, got) in [("param", &values), ("exp_avg", &m), ("exp_avg_sq", &v)] {
            let close = |(got, want): (&T, f64)| {
                let tolerance = if size_of::<T>() == 4 { 2e-5 } else { 1e-9 };
                assert!((got.wide() - want).abs() <= tolerance * want.abs() + 1e-12, "{}: {key}", case.note);
            };
            got.iter().zip(numbers(&expected[key])).for_each(close);
        }
    }
}

fn of<T: Scalar>(values: impl Iterator<Item = f64>) -> Vec<T> {
    values.map(T::of).collect()
}

#[test]
fn adamw_step() {
    each("adamw_step", |case| {
        adamw::<f64>(case, AdamW::f64);
        adamw::<f32>(case, AdamW::f32);
    });
}

/// Sums over each rank's rows in one buffer with the count of rows behind, added, and divided once.
fn averaged<T: HostFloat>(parts: &[(Vec<f64>, f64)]) -> Vec<T> {
    let len = parts[0].0.len();
    let layout = Layout::from_named([("w".to_owned(), vec![len], T::DTYPE)]);
    let mut sum = FlatGradients::zeros(&layout, 1, T::DTYPE, &candle_core::Device::Cpu).unwrap();
    let mut rows = 0.0;
    for (mean, count) in parts {
        let to = sum.host_mut::<T>().unwrap();
        to.iter_mut().zip(mean).for_each(|(to, mean)| *to += T::of(mean * count));
        rows += count;
    }
    sum.set_extras(&[rows]).unwrap();
    sum.sum(&mut Solo::new()).unwrap();
    sum.scale(1.0 / sum.extras().unwrap()[0]).unwrap();
    sum.host::<T>().unwrap().to_vec()
}

fn clipped<T: HostFloat>(case: &Case) {
    let max = case.number("max_norm");
    let over_ranks = case.kind() == Some("ranks");
    let gradient: Vec<T> = if over_ranks {
        let ranks = case.input("grads_per_rank").as_array().unwrap();
        let rows: Vec<f64> = case
            .input("rows_per_rank")
            .as_array()
            .map_or(vec![1.0; ranks.len()], |rows| rows.iter().flat_map(numbers).collect());
        averaged(&ranks.iter().map(numbers).zip(rows).collect::<Vec<_>>())
    } else {
        case.inputs("grads")
    };
    if over_ranks {
        case.expect("mean_grads", &gradient);
    }
    let norm = global_norm(&gradient);
    let coefficient = clip_coefficient(norm, max);
    case.expect("total_norm", &[T::of(norm)]);
    case.expect("coef", &[T::of(coefficient)]);
    let clipped: Vec<T> = gradient.iter().map(|g| *g * T::of(coefficient)).collect();
    case.expect("clipped", &clipped);
    if case.has_output("clip_before_reduce_WRONG") {
        case.refuse("clip_before_reduce_WRONG", "clipped", &clipped);
    }
}

#[test]
fn clip_grad_norm() {
    each("clip_grad_norm", |case| {
        clipped::<f64>(case);
        clipped::<f32>(case);
    });
}

fn accumulated<T: HostFloat>(case: &Case) {
    let (x, y, w) = (case.inputs::<T>("X"), case.inputs::<T>("y"), case.inputs::<T>("w"));
    let inputs = w.len();
    let mut panels = Panels::new();
    linear::pack_forward(&mut panels, &w, 1, inputs);
    let (mut loss, mut gradient, mut start) = (T::ZERO, vec![T::ZERO; inputs], 0);
    let micro = case.output("micro").as_array().unwrap();
    for (rows, expected) in numbers(case.input("micro_batch_rows")).into_iter().zip(micro) {
        let rows = rows as usize;
        let part = &x[start * inputs..(start + rows) * inputs];
        let mut predicted = vec![T::ZERO; rows];
        linear::forward(part, &panels, &[T::ZERO], Activation::None, &mut predicted);
        let mut dz = predicted;
        for (z, y) in dz.iter_mut().zip(&y[start..start + rows]) {
            let (cost, slope) = td::square(*z - *y);
            loss += cost;
            *z = slope;
        }
        let mut alone = vec![T::ZERO; inputs];
        linear::backward_weight(&dz, part, (rows, inputs), &mut Panels::new(), false, &mut alone);
        for (got, want) in alone.iter().zip(numbers(&expected["grad_sum"])) {
            let tolerance = if size_of::<T>() == 4 { 2e-5 } else { 1e-9 };
            assert!((got.wide() - want).abs() <= tolerance * (1.0 + want.abs()), "{}: a micro-batch", case.note);
        }
        // added to what the micro-batches before left
        linear::backward_weight(&dz, part, (rows, inputs), &mut Panels::new(), true, &mut gradient);
        start += rows;
    }
    let share = T::ONE / T::of(start as f64);
    gradient.iter_mut().for_each(|g| *g *= share);
    case.expect("loss", &[loss * share]);
    case.expect("grad", &gradient);
    case.refuse("mean_of_means_WRONG_when_uneven", "grad", &gradient);
}

#[test]
fn grad_accum() {
    each("grad_accum", |case| {
        accumulated::<f64>(case);
        accumulated::<f32>(case);
    });
}
