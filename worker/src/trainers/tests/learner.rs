//! The learner on frozen rows: averaged over ranks it is what one rank does, for every variant; its target, loss and
//! gradient are the paper's.

use super::threads::as_ranks;
use crate::collectives::{Collective, Solo};
use crate::optimizer::AdamWSettings;
use crate::parallel::Shards;
use crate::seed::{Streams, below, normal, uniform};
use crate::trainers::learner::{Learner, LearnerSettings, Rows};
use crate::trainers::model::{Float, Model};
use candle_core::Device;
use foxlaunch_shared::ids::{Rank, WorldSize};
use std::ops::Range;

const OBSERVATION: usize = 5;
const ACTIONS: usize = 3;
const BATCH: usize = 30;
/// Settings of each variant.
const VARIANTS: [&[&str]; 6] = [
    &["dqn.preset=vanilla"],
    &["dqn.preset=vanilla", "dqn.double=true", "dqn.dueling=true"],
    &["dqn.preset=rainbow"],
    &["dqn.preset=rainbow", "dqn.conservative=0.5", "dqn.noisy=false"],
    &["dqn.preset=iqn"],
    &["dqn.preset=foxhunt"],
];

fn settings(variant: &[&str]) -> LearnerSettings {
    let small = ["network.hidden=[16, 8]", "dqn.atoms=7", "dqn.cosines=4", "dqn.choice_quantiles=5"];
    let config = super::config(&[variant, &small].concat());
    LearnerSettings {
        optimizer: AdamWSettings { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 },
        // always at work: clipping before averaging would show
        max_grad_norm: 0.1,
        ..LearnerSettings::new(&config, OBSERVATION, ACTIONS)
    }
}

/// The rows `range` of the frozen batch of `update`.
fn frozen(update: u64, range: Range<usize>) -> Rows {
    let mut rows = Rows::default();
    for row in range {
        let mut draw = Streams::new(9).draw("frozen", update, row as u64);
        rows.observations.extend((0..OBSERVATION).map(|_| normal(&mut draw) as f32));
        rows.next_observations.extend((0..OBSERVATION).map(|_| normal(&mut draw) as f32));
        rows.rewards.push(2.0 * normal(&mut draw));
        rows.actions.push(below(&mut draw, ACTIONS) as u32);
        rows.discounts.push(if below(&mut draw, 5) == 0 { 0.0 } else { 0.9 });
        rows.weights.push(0.2 + 0.8 * uniform(&mut draw));
    }
    rows
}

/// All weights, and the priorities of the last batch, after `updates` updates as rank of `collective`, with one shard for
/// each rank.
fn learned<T: Float>(collective: &mut dyn Collective, variant: &[&str], updates: u64) -> Vec<f64> {
    let (world, rank) = (collective.world_size(), collective.rank());
    let shards = Shards::new(world.index(), world, rank).unwrap();
    let mut learner = Learner::<T>::new(settings(variant), shards, BATCH, &Device::Cpu, &Streams::new(1)).unwrap();
    let mut last = Vec::new();
    for update in 0..updates {
        last = learner.update(collective, update, &mut |range| frozen(update, range)).unwrap().priorities;
        if update % 10 == 9 {
            learner.update_target(1.0).unwrap();
        }
    }
    assert!(last.len() == BATCH && last.iter().all(|p| *p > 0.0), "{last:?}");
    learner.online().values().unwrap().into_iter().map(|x| x.wide()).chain(last).collect()
}

/// The largest difference between `ranks` ranks and one, relative to the larger of 1 and the number.
fn distance<T: Float>(variant: &[&str], updates: u64, ranks: usize) -> f64 {
    let one = learned::<T>(&mut Solo::new(), variant, updates);
    let many = as_ranks(ranks, |mut world| learned::<T>(world.collective(), variant, updates));
    assert!(many.iter().all(|weights| *weights == many[0]), "ranks differ among themselves");
    one.iter().zip(&many[0]).map(|(a, b)| (a - b).abs() / a.abs().max(1.0)).fold(0.0, f64::max)
}

#[test]
fn averaging_over_ranks_equals_one_rank() {
    for variant in VARIANTS {
        for ranks in 2..=4 {
            let wide = distance::<f64>(variant, 200, ranks);
            assert!(wide < 1e-9, "{variant:?}, f64 on {ranks} ranks: {wide} after 200 updates");
            let narrow = distance::<f32>(variant, 20, ranks);
            assert!(narrow < 1e-5, "{variant:?}, f32 on {ranks} ranks: {narrow} after 20 updates");
        }
    }
}

#[test]
fn more_ranks_than_rows_still_join() {
    for variant in VARIANTS {
        let few = |collective: &mut dyn Collective| {
            let (world, rank) = (collective.world_size(), collective.rank());
            let shards = Shards::new(world.index(), world, rank).unwrap();
            let of = settings(variant);
            let mut learner = Learner::<f64>::new(of, shards, 2, &Device::Cpu, &Streams::new(1)).unwrap();
            let update = learner.update(collective, 0, &mut |range| frozen(0, range)).unwrap();
            assert_eq!(update.rows, 2.0);
            [vec![update.loss_sum(), update.q_max, update.grad_norm], update.priorities].concat()
        };
        let one = few(&mut Solo::new());
        for other in as_ranks(4, |mut world| few(world.collective())) {
            for (a, b) in one.iter().zip(&other) {
                assert!((a - b).abs() < 1e-9, "{variant:?} {a} {b}");
            }
        }
    }
}

/// A learner alone whose weights stay where they are, with the online weights away from the target's, or choosing by one
/// and valuing by the other would not show.
fn at_rest(variant: &[&str]) -> Learner<f64> {
    let alone = Shards::new(1, WorldSize(1), Rank(0)).unwrap();
    let mut of = settings(variant);
    (of.max_grad_norm, of.optimizer.learning_rate, of.optimizer.weight_decay) = (0.0, 1e-300, 0.0);
    let mut learner = Learner::new(of, alone, BATCH, &Device::Cpu, &Streams::new(1)).unwrap();
    let values = weights(learner.online_mut());
    values.iter_mut().enumerate().for_each(|(i, x)| *x *= 1.3 - 0.7 * (i % 5) as f64);
    learner
}

fn weights(model: &mut Model<f64>) -> &mut [f64] {
    let Model::Host(host) = model else { panic!("on the host") };
    host.values_mut()
}

#[test]
fn target_and_loss_of_plain_values_equal_a_scalar_computation() {
    let rows = frozen(3, 0..BATCH);
    for double in [true, false] {
        let double_flag = format!("dqn.double={double}");
        let mut learner = at_rest(&["dqn.preset=vanilla", &double_flag]);
        let now = learner.values(&rows.observations, BATCH).unwrap();
        let chosen = learner.values(&rows.next_observations, BATCH).unwrap();
        let valued = {
            let online = learner.online().values().unwrap();
            let target = learner.target().values().unwrap();
            weights(learner.online_mut()).copy_from_slice(&target);
            let valued = learner.values(&rows.next_observations, BATCH).unwrap();
            weights(learner.online_mut()).copy_from_slice(&online);
            valued
        };
        let (mut loss, mut max_td) = (0.0, 0f64);
        for i in 0..BATCH {
            let row = |q: &[f32]| -> Vec<f64> { q[i * ACTIONS..][..ACTIONS].iter().map(|x| f64::from(*x)).collect() };
            let by = if double { row(&chosen) } else { row(&valued) };
            let best = (0..ACTIONS).max_by(|a, b| by[*a].total_cmp(&by[*b])).unwrap();
            let y = rows.rewards[i] + rows.discounts[i] * row(&valued)[best];
            let td: f64 = y - row(&now)[rows.actions[i] as usize];
            loss += rows.weights[i] * if td.abs() < 1.0 { td * td / 2.0 } else { td.abs() - 0.5 };
            max_td = max_td.max(td.abs());
        }
        assert!(max_td > 1.0, "both branches of the loss are to be seen");
        let update = learner.update(&mut Solo::new(), 3, &mut |range| frozen(3, range)).unwrap();
        assert!((update.loss_sum() - loss).abs() < 1e-4 * loss, "{} {loss}", update.loss_sum());
        let largest = update.priorities.iter().copied().fold(0.0, f64::max);
        assert!((largest - max_td).abs() < 1e-4 * max_td, "priorities are unweighted: {largest} {max_td}");
    }
}

#[test]
fn the_gradient_of_every_variant_is_the_losss_steepest_rise() {
    for variant in VARIANTS {
        let mut learner = at_rest(variant);
        let update = learner.update(&mut Solo::new(), 3, &mut |range| frozen(3, range)).unwrap();
        let count = learner.layout().total();
        let mut squares = 0.0;
        for i in 0..count {
            let mut moved = |by: f64| {
                weights(learner.online_mut())[i] += by;
                let loss = learner.update(&mut Solo::new(), 3, &mut |range| frozen(3, range)).unwrap().loss_sum();
                weights(learner.online_mut())[i] -= by;
                loss / BATCH as f64
            };
            squares += ((moved(1e-6) - moved(-1e-6)) / 2e-6).powi(2);
        }
        let rise = squares.sqrt();
        assert!((update.grad_norm - rise).abs() < 1e-5 * rise, "{variant:?}: {} {rise}", update.grad_norm);
    }
}
