//! The learner on frozen rows: averaged over ranks it is what one rank does; its target and loss are the paper's.

use super::threads::as_ranks;
use crate::collectives::{Collective, Solo};
use crate::optimizer::AdamWSettings;
use crate::parallel::Shards;
use crate::seed::{Streams, below, uniform};
use crate::trainers::learner::{Learner, LearnerSettings, Rows};
use candle_core::{DType, Device};
use foxlaunch_shared::ids::{Rank, WorldSize};
use std::ops::Range;

const OBSERVATION: usize = 5;
const ACTIONS: usize = 3;
const BATCH: usize = 30;

fn settings(dtype: DType) -> LearnerSettings {
    LearnerSettings {
        observation: OBSERVATION,
        actions: ACTIONS,
        hidden: vec![16, 8],
        dtype,
        double: true,
        optimizer: AdamWSettings { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 },
        // always at work: clipping before averaging would show
        max_grad_norm: 0.1,
    }
}

/// The rows `range` of the frozen batch of `update`.
fn frozen(update: u64, range: Range<usize>) -> Rows {
    let mut rows = Rows::default();
    for row in range {
        let mut draw = Streams::new(9).draw("frozen", update, row as u64);
        let mut normal = || (0..12).map(|_| uniform(&mut draw)).sum::<f64>() - 6.0;
        rows.observations.extend((0..OBSERVATION).map(|_| normal() as f32));
        rows.next_observations.extend((0..OBSERVATION).map(|_| normal() as f32));
        rows.rewards.push(2.0 * normal());
        rows.actions.push(below(&mut draw, ACTIONS) as u32);
        rows.discounts.push(if below(&mut draw, 5) == 0 { 0.0 } else { 0.9 });
    }
    rows
}

/// All weights after `updates` updates as rank of `collective`, with one shard for each rank.
fn learned(collective: &mut dyn Collective, dtype: DType, updates: u64) -> Vec<f64> {
    let (world, rank) = (collective.world_size(), collective.rank());
    let shards = Shards::new(world.index(), world, rank).unwrap();
    let mut learner = Learner::new(settings(dtype), shards, &Device::Cpu, &Streams::new(1)).unwrap();
    for update in 0..updates {
        learner.update(collective, BATCH, &mut |range| frozen(update, range)).unwrap();
        if update % 10 == 9 {
            learner.update_target(1.0).unwrap();
        }
    }
    let flat = |v: candle_core::Var| v.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
    learner.online().variables().into_iter().flat_map(flat).collect()
}

/// The largest difference between `ranks` ranks and one, relative to the larger of 1 and the weight.
fn distance(dtype: DType, updates: u64, ranks: usize) -> f64 {
    let one = learned(&mut Solo::new(), dtype, updates);
    let many = as_ranks(ranks, |mut world| learned(world.collective(), dtype, updates));
    assert!(many.iter().all(|weights| *weights == many[0]), "ranks differ among themselves");
    one.iter().zip(&many[0]).map(|(a, b)| (a - b).abs() / a.abs().max(1.0)).fold(0.0, f64::max)
}

#[test]
fn averaging_over_ranks_equals_one_rank() {
    for ranks in 2..=4 {
        let wide = distance(DType::F64, 200, ranks);
        assert!(wide < 1e-9, "f64 on {ranks} ranks: {wide} after 200 updates");
        let narrow = distance(DType::F32, 20, ranks);
        assert!(narrow < 1e-5, "f32 on {ranks} ranks: {narrow} after 20 updates");
    }
}

#[test]
fn more_ranks_than_rows_still_join() {
    let few = |collective: &mut dyn Collective| {
        let (world, rank) = (collective.world_size(), collective.rank());
        let shards = Shards::new(world.index(), world, rank).unwrap();
        let mut learner = Learner::new(settings(DType::F64), shards, &Device::Cpu, &Streams::new(1)).unwrap();
        let update = learner.update(collective, 2, &mut |range| frozen(0, range)).unwrap();
        (update.loss_sum(), update.rows, update.q_max, update.grad_norm)
    };
    let one = few(&mut Solo::new());
    for other in as_ranks(4, |mut world| few(world.collective())) {
        assert_eq!(other.1, 2.0);
        for (a, b) in [(one.0, other.0), (one.2, other.2), (one.3, other.3)] {
            assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
    }
}

#[test]
fn target_loss_and_gradient_equal_a_scalar_computation() {
    let alone = Shards::new(1, WorldSize(1), Rank(0)).unwrap();
    let rows = frozen(3, 0..BATCH);
    for double in [true, false] {
        // no clip and no step worth the name: the gradient stays to be looked at
        let mut of = settings(DType::F64);
        (of.double, of.max_grad_norm, of.optimizer.learning_rate) = (double, 0.0, 1e-300);
        let mut learner = Learner::new(of, alone, &Device::Cpu, &Streams::new(1)).unwrap();
        // the target network must differ, or choosing by one and valuing by the other would not show
        perturb(&learner);
        let q = |observations: &[f32]| learner.values(observations, BATCH).unwrap();
        let (now, chosen) = (q(&rows.observations), q(&rows.next_observations));
        let valued = target_values(&learner, &rows.next_observations);
        let mut loss = 0.0;
        let mut max_td: f64 = 0.0;
        for i in 0..BATCH {
            let row = |q: &[f32]| -> Vec<f64> { q[i * ACTIONS..][..ACTIONS].iter().map(|x| f64::from(*x)).collect() };
            let by = if double { row(&chosen) } else { row(&valued) };
            let best = (0..ACTIONS).max_by(|a, b| by[*a].total_cmp(&by[*b])).unwrap();
            let y = rows.rewards[i] + rows.discounts[i] * row(&valued)[best];
            let td: f64 = y - row(&now)[rows.actions[i] as usize];
            loss += if td.abs() < 1.0 { td * td / 2.0 } else { td.abs() - 0.5 };
            max_td = max_td.max(td.abs());
        }
        assert!(max_td > 1.0, "both branches of the loss are to be seen");
        let update = learner.update(&mut Solo::new(), BATCH, &mut |range| frozen(3, range)).unwrap();
        assert!((update.loss_sum() - loss).abs() < 1e-4 * loss, "{} {loss}", update.loss_sum());
        // the gradient's length is the loss's steepest rise
        let rise = steepest_rise(&learner, &rows);
        assert!((update.grad_norm - rise).abs() < 1e-5 * rise, "double {double}: {} {rise}", update.grad_norm);
    }
}

/// Moves the online weights away from the target's.
fn perturb(learner: &Learner) {
    for (i, v) in learner.online().variables().iter().enumerate() {
        v.set(&(v.as_tensor() * (1.3 - 0.2 * i as f64)).unwrap()).unwrap();
    }
}

fn target_values(learner: &Learner, observations: &[f32]) -> Vec<f32> {
    let x = candle_core::Tensor::from_slice(observations, (BATCH, OBSERVATION), &Device::Cpu).unwrap();
    let q = learner.target().forward(&x.to_dtype(DType::F64).unwrap()).unwrap();
    q.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The norm of the gradient of the mean loss by finite differences, targets held fixed.
fn steepest_rise(learner: &Learner, rows: &Rows) -> f64 {
    let x = candle_core::Tensor::from_slice(&rows.observations, (BATCH, OBSERVATION), &Device::Cpu).unwrap();
    let x = x.to_dtype(DType::F64).unwrap();
    let next = candle_core::Tensor::from_slice(&rows.next_observations, (BATCH, OBSERVATION), &Device::Cpu).unwrap();
    let next = next.to_dtype(DType::F64).unwrap();
    let table = |q: candle_core::Tensor| q.to_vec2::<f64>().unwrap();
    let valued = table(learner.target().forward(&next).unwrap());
    let double = learner.settings().double;
    let chosen = if double { table(learner.online().forward(&next).unwrap()) } else { valued.clone() };
    let target: Vec<f64> = (0..BATCH)
        .map(|i| {
            let best = (0..ACTIONS).max_by(|a, b| chosen[i][*a].total_cmp(&chosen[i][*b])).unwrap();
            rows.rewards[i] + rows.discounts[i] * valued[i][best]
        })
        .collect();
    let loss = || {
        let q = table(learner.online().forward(&x).unwrap());
        let huber = |x: f64| if x.abs() < 1.0 { x * x / 2.0 } else { x.abs() - 0.5 };
        (0..BATCH).map(|i| huber(target[i] - q[i][rows.actions[i] as usize])).sum::<f64>() / BATCH as f64
    };
    let step = 1e-6;
    let mut squares = 0.0;
    for v in learner.online().variables() {
        let original = v.as_tensor().copy().unwrap();
        let flat = original.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        for i in 0..flat.len() {
            let moved = |by: f64| {
                let mut values = flat.clone();
                values[i] += by;
                v.set(&candle_core::Tensor::from_vec(values, v.dims(), &Device::Cpu).unwrap()).unwrap();
                loss()
            };
            squares += ((moved(step) - moved(-step)) / (2.0 * step)).powi(2);
        }
        v.set(&original).unwrap();
    }
    squares.sqrt()
}
