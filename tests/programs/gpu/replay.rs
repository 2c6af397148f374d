//! The replay memory on the device: its draws, weights, noise and priorities against the host's, bit for bit; updates from
//! it against updates on the same rows brought up; how often it is read; and what an update that is no finite one leaves.

use crate::kernels::{numbers, same};
use anyhow::{Context, Result, ensure};
use foxlaunch_shared::config::{Layer, Layers};
use foxlaunch_worker::kernels::device_replay::{DeviceRows, Drawn, Key, NoisePlan, words_of_row};
use foxlaunch_worker::kernels::replay::ReplaySettings;
use foxlaunch_worker::networks::device::DeviceNetwork;
use foxlaunch_worker::networks::{Head, HostNetwork, Noise, QSettings};
use foxlaunch_worker::parallel::Shards;
use foxlaunch_worker::replay::{Priorities, Ring};
use foxlaunch_worker::seed::{Streams, uniform};
use foxlaunch_worker::trainers::learner::{Learner, LearnerSettings, ReplayRow, Rows};
use foxlaunch_worker::world::World;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// All checks.
pub(crate) fn check(world: &mut World) -> Result<()> {
    for (capacity, batch, priorities) in
        [(1, 1, true), (100, 32, true), (777, 256, true), (5000, 1000, true), (50_000, 256, true), (300, 64, false)]
    {
        draws(world, capacity, batch, priorities).with_context(|| format!("{capacity} rows, batches of {batch}"))?;
    }
    noise(world)?;
    for preset in ["rainbow", "vanilla", "iqn", "foxhunt"] {
        updates(world, preset).with_context(|| preset.to_owned())?;
    }
    Ok(())
}

/// Forty rounds of insertions, draws and new priorities, on the device and on the host.
fn draws(world: &World, capacity: usize, batch: usize, is_prioritised: bool) -> Result<()> {
    const WIDTH: usize = 3;
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let streams = Streams::new(capacity as u64);
    let settings = ReplaySettings {
        capacity,
        width: WIDTH,
        batch,
        shards: 1,
        priorities: is_prioritised.then_some((0.6, 1e-6)),
        records: 3,
    };
    let mut device = DeviceRows::new(&stream, settings)?;
    let key = Key::from(streams.purpose("sample").key());
    let plan = NoisePlan::new(&stream, &[])?;
    let mut no_noise = stream.alloc_zeros::<f32>(1)?;
    let clip = stream.clone_htod(&[1.0f64, 1.0])?;
    let (mut ring, mut priorities) = (Ring::new(capacity), Priorities::new(0.6, 1e-6));
    for number in 0..40u64 {
        let mut words = Vec::new();
        let count = (1 + number as usize * 7 % 50).min(capacity);
        for i in 0..count {
            let place = ring.push(());
            priorities.insert(place);
            let of = numbers(1000 * number + i as u64, 2 * WIDTH);
            words.extend([place as u32, (i % 3) as u32, 1.5f32.to_bits(), 0.9f32.to_bits()]);
            words.extend(of.iter().map(|x| x.to_bits()));
        }
        let up = stream.clone_htod(&words)?;
        debug_assert_eq!(words.len(), count * words_of_row(WIDTH));
        let beta = 0.4 + number as f64 / 100.0;
        device.insert(&stream, &up, count, (number, ring.len(), beta))?;
        device.draw(&stream, &key, &plan, &mut no_noise)?;
        let (indices, weights) = device.drawn(&stream)?;
        let mut draw = streams.draw("sample", number, 0);
        let expected = if is_prioritised {
            let places: Vec<f64> = (0..batch).map(|_| uniform(&mut draw)).collect();
            priorities.draw(&places)
        } else {
            ring.sample(batch, &mut draw)
        };
        let indices: Vec<usize> = indices.into_iter().map(|index| index as usize).collect();
        ensure!(indices == expected, "update {number}: other rows than the host's");
        // errors of very different sizes, and of equal rows different ones
        let errors: Vec<f32> =
            numbers(number, batch).iter().map(|x| x.abs() * 10f32.powi(number as i32 % 9 - 4)).collect();
        let extras: Vec<f32> = [batch as f32, 1.0, 2.0, 3.0, 4.0].into_iter().chain(errors.iter().copied()).collect();
        device.finish(&stream, &stream.clone_htod(&extras)?.as_view(), &clip)?;
        let record = device.records(&stream)?.swap_remove(number as usize % 3);
        let wide: Vec<f64> = errors.iter().map(|x| f64::from(*x)).collect();
        let sum: f64 = wide.iter().sum();
        let top = wide.iter().copied().fold(0.0, f64::max);
        ensure!(record.errors == (sum, top), "update {number}: {:?} instead of {sum} and {top}", record.errors);
        ensure!(record.extras == [batch as f64, 1.0, 2.0, 3.0, 4.0], "update {number}: {:?}", record.extras);
        if !is_prioritised {
            continue;
        }
        let expected = priorities.weights(&indices, beta);
        let alike =
            |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        ensure!(alike(&weights, &expected), "update {number}: other weights than the host's");
        ensure!(record.weights == expected.iter().sum::<f64>(), "update {number}: another sum of weights");
        for (index, error) in indices.iter().zip(&wide) {
            priorities.update(*index, *error);
        }
        let (masses, largest) = device.masses(&stream, ring.len())?;
        let expected: Vec<f64> = (0..ring.len()).map(|i| priorities.mass(i)).collect();
        ensure!(alike(&masses, &expected), "update {number}: other masses than the host's");
        ensure!(largest == priorities.largest(), "update {number}: {largest} is the largest priority");
    }
    println!(
        "foxlaunch-replay capacity={capacity} batch={batch} prioritised={is_prioritised}: the host's draws, to the bit"
    );
    Ok(())
}

/// The noise of a network.
fn noise(world: &World) -> Result<()> {
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let streams = Streams::new(5);
    let settings = QSettings {
        observation: 51,
        actions: 3,
        hidden: vec![256, 130, 63],
        head: Head::Categorical(51),
        dueling: true,
        noise: Some(0.5),
    };
    let network = Arc::new(settings.network());
    let host = HostNetwork::<f32>::new(Arc::clone(&network), &streams);
    let device = DeviceNetwork::new(Arc::clone(&network), host.values(), &stream)?;
    let key = Key::from(streams.purpose("noise-online").key());
    let parts: Vec<_> = device.noise_parts().map(|(op, place)| Drawn::noise(key, op, place)).collect();
    let plan = NoisePlan::new(&stream, &parts)?;
    let settings = ReplaySettings { capacity: 1, width: 1, batch: 1, shards: 1, priorities: None, records: 1 };
    let mut rows = DeviceRows::new(&stream, settings)?;
    let mut sample = stream.alloc_zeros::<f32>(device.noise_len())?;
    let row = stream.alloc_zeros::<u32>(words_of_row(1))?;
    for number in [0, 1, 17, 123_456_789, u64::from(u32::MAX) + 5] {
        rows.insert(&stream, &row, 1, (number, 1, 1.0))?;
        rows.draw(&stream, &key, &plan, &mut sample)?;
        let expected = device.flat_noise(&Noise::<f32>::draw(&network, &streams, "noise-online", number));
        same(&format!("noise {number}"), &expected, &stream.clone_dtoh(&sample)?)?;
    }
    println!("foxlaunch-replay {} numbers of noise a sample: the host's, to the bit", device.noise_len());
    Ok(())
}

const WIDTH: usize = 51;
const CAPACITY: usize = 3000;

fn settings(preset: &str, hidden: &str) -> Result<LearnerSettings> {
    let mut layers = Layers::new();
    let (preset, hidden) = (format!("dqn.preset={preset}"), format!("network.hidden=[{hidden}]"));
    layers.push(Layer::from_pairs("replay", [hidden.as_str(), preset.as_str()])?)?;
    Ok(LearnerSettings::new(&layers.resolve()?.0, WIDTH, 3))
}

fn memory(batch: usize, shards: usize, is_prioritised: bool) -> ReplaySettings {
    let priorities = is_prioritised.then_some((0.5, 1e-6));
    ReplaySettings { capacity: CAPACITY, width: WIDTH, batch, shards, priorities, records: 100 }
}

/// The row that stands at `place` when it was put there in round `round`.
fn row_at(place: usize, round: u64) -> (Vec<f32>, Vec<f32>, u32, f64) {
    let seed = 2 * (round * CAPACITY as u64 + place as u64);
    let now = numbers(seed, WIDTH);
    let reward = f64::from(now.iter().take(17).sum::<f32>()).tanh();
    (now, numbers(seed + 1, WIDTH), (place % 3) as u32, reward)
}

/// Three hundred updates from the memory, and as many with the host's draws and rows brought up: the same weights.
fn updates(world: &mut World, preset: &str) -> Result<()> {
    const BATCH: usize = 256;
    const UPDATES: u64 = 300;
    let ranks = world.world_size().0 as usize;
    let shards = Shards::new(ranks, world.world_size(), world.rank())?;
    let streams = Streams::new(3);
    let is_prioritised = matches!(preset, "rainbow" | "foxhunt");
    let make = |world: &World| {
        Learner::<f32>::new(settings(preset, "256,128,64")?, shards, BATCH, world.device(), &streams)
            .context("a learner")
    };
    let (mut there, mut here) = (make(world)?, make(world)?);
    ensure!(there.keep_replay(memory(BATCH, ranks, is_prioritised))?, "the updates are not on the device");
    let mut rows: Vec<(Vec<f32>, Vec<f32>, u32, f64)> = Vec::new();
    let (mut ring, mut priorities) = (Ring::new(CAPACITY), Priorities::new(0.5, 1e-6));
    let mut losses = Vec::new();
    let mut said = Vec::new();
    for number in 0..UPDATES {
        for i in 0..if number == 0 { 500 } else { number % 12 } {
            let place = ring.push(());
            priorities.insert(place);
            let row = row_at(place, number * 1000 + i);
            let (now, next, action, reward) = (&row.0, &row.1, row.2, row.3);
            let up = ReplayRow { now, action, reward, discount: 0.9, next };
            there.replay().context("a replay memory")?.push(place, &up)?;
            if place < rows.len() { rows[place] = row } else { rows.push(row) }
        }
        let beta = 0.4 + number as f64 / 1000.0;
        there.update_from_replay(world.collective(), number, ring.len(), beta)?;
        let mut draw = streams.draw("sample", number, 0);
        let (indices, weights) = if is_prioritised {
            let places: Vec<f64> = (0..BATCH).map(|_| uniform(&mut draw)).collect();
            let indices = priorities.draw(&places);
            let weights = priorities.weights(&indices, beta);
            (indices, weights)
        } else {
            (ring.sample(BATCH, &mut draw), Vec::new())
        };
        let update =
            here.update(world.collective(), number, &mut |range| gathered(&rows, &indices, &weights, range))?;
        for (index, error) in indices.iter().zip(&update.priorities) {
            priorities.update(*index, *error);
        }
        losses.push((update.loss_sum(), update.grad_norm));
        if number % 50 == 49 {
            there.update_target(1.0)?;
            here.update_target(1.0)?;
        }
        if number % 100 == 99 {
            said.extend(there.replay().context("a replay memory")?.read(number + 1)?);
        }
    }
    let reads = there.replay().context("a replay memory")?.reads();
    ensure!(reads == UPDATES / 100, "{reads} reads in {UPDATES} updates");
    for ((number, record), (loss, norm)) in said.iter().zip(&losses) {
        let theirs: f64 = record.extras[3..3 + ranks].iter().sum();
        ensure!(
            theirs == *loss && record.norm == *norm,
            "update {number}: {theirs}, {} instead of {loss}, {norm}",
            record.norm
        );
    }
    ensure!(said.len() == UPDATES as usize, "{} updates were said", said.len());
    same("weights", &here.online().values()?, &there.online().values()?)?;
    println!(
        "foxlaunch-replay preset={preset} ranks={ranks}: {UPDATES} updates with {reads} reads end with the bits of those whose rows go up"
    );

    // a reward that is no number stops all that follows, and what made it is still there
    let (now, next) = (numbers(1, WIDTH), numbers(2, WIDTH));
    for place in 0..ring.len() {
        let up = ReplayRow { now: &now, action: 0, reward: f64::NAN, discount: 0.9, next: &next };
        there.replay().context("a replay memory")?.push(place, &up)?;
    }
    let (before, steps) = (there.online().values()?, 5);
    for number in UPDATES..UPDATES + steps {
        there.update_from_replay(world.collective(), number, ring.len(), 1.0)?;
    }
    same("weights after an update that is no finite one", &before, &there.online().values()?)?;
    let last = there.replay().context("a replay memory")?.read(UPDATES + 1)?;
    ensure!(last.len() == 1 && !last[0].1.extras[3].is_finite(), "{last:?}");
    let (indices, _) = there.replay().context("a replay memory")?.drawn()?;
    let [_, _, meta] = there.replay().context("a replay memory")?.row(indices[0] as usize)?;
    ensure!(meta[0].is_nan(), "the batch that failed is not there any more");
    Ok(())
}

fn gathered(rows: &[(Vec<f32>, Vec<f32>, u32, f64)], indices: &[usize], weights: &[f64], range: Range<usize>) -> Rows {
    let mut batch = Rows { weights: weights.get(range.clone()).unwrap_or_default().to_vec(), ..Rows::default() };
    for index in &indices[range] {
        let (now, next, action, reward) = &rows[*index];
        batch.observations.extend(now);
        batch.next_observations.extend(next);
        batch.actions.push(*action);
        batch.rewards.push(*reward);
        batch.discounts.push(0.9);
    }
    batch
}

/// The time of an update from the memory: four new rows up, draw, update, priorities, and a read every hundred.
pub(crate) fn time(world: &mut World, preset: &str, batch: &str, hidden: &str) -> Result<()> {
    const BLOCKS: usize = 5;
    const UPDATES: u64 = 1000;
    let batch: usize = batch.parse().context("the batch")?;
    let ranks = world.world_size().0 as usize;
    let shards = Shards::new(ranks, world.world_size(), world.rank())?;
    let total = batch * ranks;
    let mut learner = Learner::<f32>::new(settings(preset, hidden)?, shards, total, world.device(), &Streams::new(1))?;
    ensure!(
        learner.keep_replay(memory(total, ranks, matches!(preset, "rainbow" | "foxhunt")))?,
        "the updates are not on the device"
    );
    let rows: Vec<_> = (0..CAPACITY).map(|place| row_at(place, 0)).collect();
    let up = |place: usize| {
        let (now, next, action, reward) = &rows[place];
        ReplayRow { now, action: *action, reward: *reward, discount: 0.97, next }
    };
    for place in 0..CAPACITY {
        learner.replay().context("a replay memory")?.push(place, &up(place))?;
    }
    let (mut number, mut micros) = (0, Vec::new());
    for block in 0..=BLOCKS {
        let start = Instant::now();
        for _ in 0..UPDATES {
            for i in 0..4 {
                let place = (4 * number as usize + i) % CAPACITY;
                learner.replay().context("a replay memory")?.push(place, &up(place))?;
            }
            learner.update_from_replay(world.collective(), number, CAPACITY, 0.6)?;
            number += 1;
            if number % 100 == 0 {
                for (number, record) in learner.replay().context("a replay memory")?.read(number)? {
                    ensure!(record.norm.is_finite(), "update {number}: the norm is {}", record.norm);
                }
            }
        }
        if block > 0 {
            micros.push(start.elapsed().as_secs_f64() / UPDATES as f64 * 1e6);
        }
    }
    micros.sort_by(f64::total_cmp);
    if world.is_first() {
        println!(
            "foxlaunch-update from=replay preset={preset} ranks={ranks} batch={batch} hidden={hidden} us_per_update={:.1}",
            micros[BLOCKS / 2]
        );
    }
    Ok(())
}
