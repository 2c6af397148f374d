//! Networks computed by our kernels on the device against the host's, and how long an update takes.

use crate::kernels::{numbers, same};
use anyhow::{Context, Result, ensure};
use foxlaunch_shared::config::{Layer, Layers};
use foxlaunch_worker::kernels::layers::address;
use foxlaunch_worker::networks::device::{DeviceNetwork, LevelCount};
use foxlaunch_worker::networks::{Head, HostNetwork, Levels, Noise, Pass, QSettings};
use foxlaunch_worker::parallel::Shards;
use foxlaunch_worker::seed::Streams;
use foxlaunch_worker::trainers::learner::{Learner, LearnerSettings, Rows};
use foxlaunch_worker::world::World;
use std::sync::Arc;
use std::time::Instant;

/// Outputs and gradients of several networks, bit for bit: rectifiers only, since the device has another tanh.
pub(crate) fn check(world: &World) -> Result<()> {
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let streams = Streams::new(7);
    let mut checked = 0;
    for (observation, hidden, head, dueling, noise) in [
        (51, vec![256, 128, 64], Head::Categorical(51), true, Some(0.5)),
        (51, vec![256, 128, 64], Head::Value, false, None),
        (4, vec![120, 84], Head::Value, true, None),
        (7, vec![33, 65], Head::Categorical(5), false, Some(0.1)),
        (1, vec![], Head::Value, false, None),
        (3, vec![40], Head::Categorical(11), true, Some(0.5)),
    ] {
        let settings = QSettings { observation, actions: 3, hidden, head, dueling, noise };
        let network = Arc::new(settings.network());
        for (rows, graded) in [(1, 1), (31, 31), (64, 32), (300, 257)] {
            for is_noisy in [false, true] {
                let sample = is_noisy.then(|| Noise::<f32>::draw(&network, &streams, "noise", rows as u64));
                let mut host = HostNetwork::<f32>::new(Arc::clone(&network), &streams);
                host.set_noise(sample.clone());
                let observations = numbers(3, rows * observation);
                let device = DeviceNetwork::new(Arc::clone(&network), host.values(), &stream)?;
                let on_device = stream.clone_htod(&match &sample {
                    Some(sample) if device.noise_len() > 0 => device.flat_noise(sample),
                    _ => vec![0.0],
                })?;
                let noise = (is_noisy && device.noise_len() > 0).then(|| address(&on_device, 0, &stream));
                let mut ours = device.pass(rows)?;
                stream.memcpy_htod(&observations, ours.observations_mut())?;
                let gradient = stream.alloc_zeros::<f32>(network.total())?;
                let forward = device.forward(&ours, noise).ready();
                let backward = device.backward(&mut ours, graded, &gradient, noise)?.ready();
                // SAFETY: network, pass, noise and gradient live until the results are read below.
                unsafe { forward.enqueue(&stream) }?;
                let mut pass = Pass::new();
                host.forward(&mut pass, &observations, rows, Levels::None);
                let what = format!("{settings:?} with {rows} rows, noise {is_noisy}");
                same(&format!("outputs, {what}"), pass.output(0), &stream.clone_dtoh(ours.output())?)?;

                // the way back of the first rows alone
                host.forward(&mut pass, &observations[..graded * observation], graded, Levels::None);
                let (_, slopes) = pass.output_and_gradient(0);
                slopes.copy_from_slice(&numbers(4, slopes.len()));
                let slopes = slopes.to_vec();
                let mut expected = vec![0.0; network.total()];
                host.backward(&mut pass, &mut expected, false);
                let (_, to) = ours.output_and_gradient();
                let to = to.as_mut().context("room for slopes")?;
                stream.memcpy_htod(&slopes, &mut to.slice_mut(..slopes.len()))?;
                // SAFETY: as above.
                unsafe { backward.enqueue(&stream) }?;
                same(&format!("gradients, {what}"), &expected, &stream.clone_dtoh(&gradient)?)?;
                checked += 1;
            }
        }
    }
    checked += quantiles(world)?;
    println!("foxlaunch-network {checked} passes give the bits of the host, forward and back");
    Ok(())
}

/// The same for networks of quantiles, at levels of each row's own, and forward at levels that all rows share.
fn quantiles(world: &World) -> Result<usize> {
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let streams = Streams::new(11);
    let mut checked = 0;
    for (observation, hidden, cosines, first, dueling, samples) in
        [(51, vec![256, 128, 64], 64, 0, true, 8), (4, vec![], 5, 1, false, 1), (7, vec![33, 65], 16, 1, false, 33)]
    {
        let head = Head::Quantile { cosines, first };
        let settings = QSettings { observation, actions: 3, hidden, head, dueling, noise: None };
        let network = Arc::new(settings.network());
        for (rows, is_shared) in [(1, false), (64, false), (40, true), (77, false)] {
            let mut host = HostNetwork::<f32>::new(Arc::clone(&network), &streams);
            let device = DeviceNetwork::new(Arc::clone(&network), host.values(), &stream)?;
            let count = if is_shared { samples } else { rows * samples };
            let levels: Vec<f32> = numbers(9, count).iter().map(|x| x.abs()).collect();
            let there = stream.clone_htod(&levels)?;
            let own = if is_shared { LevelCount::Shared(samples) } else { LevelCount::Own(samples) };
            let mut ours = device.pass_at(rows, own, address(&there, 0, &stream))?;
            let observations = numbers(3, rows * observation);
            stream.memcpy_htod(&observations, ours.observations_mut())?;
            let what = format!("{settings:?} with {rows} rows, shared levels {is_shared}");
            // SAFETY: network, pass and levels live until the results are read below.
            unsafe { device.forward(&ours, None).ready().enqueue(&stream) }?;
            let mut pass = Pass::new();
            let levels = if is_shared { Levels::Shared(&levels) } else { Levels::Own(&levels, samples) };
            host.forward(&mut pass, &observations, rows, levels);
            same(&format!("outputs, {what}"), pass.output(0), &stream.clone_dtoh(ours.output())?)?;
            checked += 1;
            if is_shared {
                continue;
            }
            let (_, slopes) = pass.output_and_gradient(0);
            slopes.copy_from_slice(&numbers(4, slopes.len()));
            let slopes = slopes.to_vec();
            let mut expected = vec![0.0; network.total()];
            host.backward(&mut pass, &mut expected, false);
            let gradient = stream.alloc_zeros::<f32>(network.total())?;
            let backward = device.backward(&mut ours, rows, &gradient, None)?.ready();
            let (_, to) = ours.output_and_gradient();
            stream.memcpy_htod(&slopes, to.as_mut().context("room for slopes")?)?;
            // SAFETY: as above.
            unsafe { backward.enqueue(&stream) }?;
            same(&format!("gradients, {what}"), &expected, &stream.clone_dtoh(&gradient)?)?;
        }
    }
    Ok(checked)
}

/// The time of a whole update of the learner: batch up, update, priorities back. `hidden` as 256,128,64.
pub(crate) fn time(world: &mut World, preset: &str, batch: &str, hidden: &str) -> Result<()> {
    const BLOCKS: usize = 5;
    const UPDATES: u64 = 300;
    let batch: usize = batch.parse().context("the batch")?;
    let mut layers = Layers::new();
    let (preset_pair, hidden_pair) = (format!("dqn.preset={preset}"), format!("network.hidden=[{hidden}]"));
    layers.push(Layer::from_pairs("bench", [hidden_pair.as_str(), preset_pair.as_str()])?)?;
    let settings = LearnerSettings::new(&layers.resolve()?.0, 51, 3);
    let shards = Shards::new(world.world_size().0 as usize, world.world_size(), world.rank())?;
    let total = batch * world.world_size().0 as usize;
    let mut learner = Learner::<f32>::new(settings, shards, total, world.device(), &Streams::new(1))?;
    let rows = Rows {
        observations: numbers(1, batch * 51),
        next_observations: numbers(2, batch * 51),
        actions: (0..batch as u32).map(|row| row % 3).collect(),
        rewards: numbers(3, batch).into_iter().map(f64::from).collect(),
        discounts: vec![0.97; batch],
        weights: vec![1.0; batch],
    };
    let mut number = 0;
    let mut micros = Vec::new();
    for block in 0..=BLOCKS {
        let start = Instant::now();
        for _ in 0..UPDATES {
            let update = learner.update(world.collective(), number, &mut |range| {
                debug_assert_eq!(range.len(), batch);
                rows.clone()
            })?;
            ensure!(update.loss_sum().is_finite(), "update {number}: the loss is {}", update.loss_sum());
            number += 1;
        }
        if block > 0 {
            micros.push(start.elapsed().as_secs_f64() / UPDATES as f64 * 1e6);
        }
    }
    micros.sort_by(f64::total_cmp);
    if world.is_first() {
        println!(
            "foxlaunch-update preset={preset} ranks={} batch={batch} hidden={hidden} us_per_update={:.1}",
            world.world_size(),
            micros[BLOCKS / 2]
        );
    }
    Ok(())
}
