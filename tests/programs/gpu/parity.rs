//! The same frozen batches on one device and on two: the losses of the learner must agree, under every preset.

use crate::kernels::numbers;
use anyhow::{Context, Result, ensure};
use foxlaunch_shared::config::{Layer, Layers, PRESETS};
use foxlaunch_worker::optimizer::AdamWSettings;
use foxlaunch_worker::parallel::Shards;
use foxlaunch_worker::seed::Streams;
use foxlaunch_worker::trainers::learner::{Learner, LearnerSettings, Rows};
use foxlaunch_worker::world::World;
use serde_json::json;
use std::ops::Range;

/// Values of an observation, and actions.
const OBSERVATION: usize = 51;
const ACTIONS: usize = 3;
/// Rows of the global batch.
const ROWS: usize = 256;
const UPDATES: u64 = 20;
/// How far two losses may be apart, relative to the larger.
const TOLERANCE: f64 = 1e-4;

/// Trains under each preset, and has rank 0 write the losses to `file`; with `other`, a file of another world, compares
/// both.
pub(crate) fn train(world: &mut World, file: &str, other: Option<&str>) -> Result<()> {
    ensure!(!candle_core::cuda_backend::gemm_reduced_precision_f32(), "matrix products are in TF32, not in f32");
    let mut losses = Vec::new();
    for (preset, _) in PRESETS {
        losses.extend(learn(world, preset).with_context(|| preset.to_owned())?);
    }
    if !world.is_first() {
        return Ok(());
    }
    let (ranks, first, last) = (world.world_size().0, losses[0], losses[UPDATES as usize - 1]);
    std::fs::write(file, json!({ "ranks": ranks, "losses": losses }).to_string()).with_context(|| file.to_owned())?;
    println!("foxlaunch-parity device={:?} ranks={ranks} first={first:.6} last={last:.6}", world.device().location());
    ensure!(last < first, "the loss of plain DQN did not fall");
    other.map_or(Ok(()), |other| compare(&losses, other))
}

/// The mean losses of all updates under `preset`.
fn learn(world: &mut World, preset: &str) -> Result<Vec<f64>> {
    let mut layers = Layers::new();
    let preset = format!("dqn.preset={preset}");
    layers.push(Layer::from_pairs("parity", ["network.hidden=[256, 128, 64]", &preset])?)?;
    let settings = LearnerSettings {
        // small: a large one soon ties two actions, and which is chosen then is a matter of rounding
        optimizer: AdamWSettings { learning_rate: 2.5e-4, ..AdamWSettings::default() },
        max_grad_norm: 1.0,
        ..LearnerSettings::new(&layers.resolve()?.0, OBSERVATION, ACTIONS)
    };
    let shards = Shards::new(world.world_size().0 as usize, world.world_size(), world.rank())?;
    let mut learner = Learner::<f32>::new(settings, shards, ROWS, world.device(), &Streams::new(1))?;
    let mut losses = Vec::new();
    for update in 0..UPDATES {
        let batch = batch(update);
        let done = learner.update(world.collective(), update, &mut |rows| part(&batch, rows))?;
        losses.push(done.loss_sum() / done.rows);
        if update % 7 == 6 {
            learner.update_target(0.5)?;
        }
    }
    Ok(losses)
}

fn compare(losses: &[f64], other: &str) -> Result<()> {
    let text = std::fs::read_to_string(other).with_context(|| other.to_owned())?;
    let read: serde_json::Value = serde_json::from_str(&text).with_context(|| other.to_owned())?;
    let theirs: Vec<f64> =
        read["losses"].as_array().map(|all| all.iter().filter_map(|x| x.as_f64()).collect()).unwrap_or_default();
    ensure!(losses.iter().chain(&theirs).all(|loss| loss.is_finite()), "not all losses are finite numbers");
    ensure!(theirs.len() == losses.len(), "{other} holds {} losses instead of {}", theirs.len(), losses.len());
    let apart = |(a, b): (&f64, &f64)| (a - b).abs() / a.abs().max(b.abs());
    let worst = losses.iter().zip(&theirs).map(apart).fold(0.0, f64::max);
    println!("foxlaunch-parity updates={} worst_relative_difference={worst:.2e} allowed={TOLERANCE:.0e}", losses.len());
    ensure!(worst <= TOLERANCE, "losses differ by {worst:e}");
    Ok(())
}

/// Batch `update`, all rows of it: the reward of an action is a smooth function of the observation.
fn batch(update: u64) -> Rows {
    let observations = numbers(1000 + 2 * update, ROWS * OBSERVATION);
    let actions: Vec<u32> = (0..ROWS).map(|row| ((row as u64 * 7 + update) % ACTIONS as u64) as u32).collect();
    let rewards = observations.chunks_exact(OBSERVATION).zip(&actions).map(|(observation, action)| {
        let seen = &observation[*action as usize * 17..][..17];
        f64::from(seen.iter().sum::<f32>()).tanh()
    });
    Rows {
        rewards: rewards.collect(),
        discounts: (0..ROWS).map(|row| if row % 10 == 9 { 0.0 } else { 0.9 }).collect(),
        next_observations: numbers(1001 + 2 * update, ROWS * OBSERVATION),
        weights: (0..ROWS).map(|row| 1.0 - row as f64 / 512.0).collect(),
        observations,
        actions,
    }
}

/// Rows `rows` of `batch`.
fn part(batch: &Rows, rows: Range<usize>) -> Rows {
    let values = rows.start * OBSERVATION..rows.end * OBSERVATION;
    Rows {
        observations: batch.observations[values.clone()].to_vec(),
        actions: batch.actions[rows.clone()].to_vec(),
        rewards: batch.rewards[rows.clone()].to_vec(),
        discounts: batch.discounts[rows.clone()].to_vec(),
        next_observations: batch.next_observations[values].to_vec(),
        weights: batch.weights[rows].to_vec(),
    }
}
