//! The step of a small network on one thread: the same as `peers/torch_mlp.py` (one forward, squared error of one action's
//! value, backward, AdamW), its matrix products alone, candle's autograd for the same, and whole updates of the trainers.
//! Microseconds, median of 5 blocks.
//!
//! ```text
//! RAYON_NUM_THREADS=1 CANDLE_NUM_THREADS=1 cargo bench -p foxlaunch-benches --bench cpu_step
//! OMP_NUM_THREADS=1 python benches/peers/torch_mlp.py --dims 51,256,128,64,3 --batch 256
//! ```

use candle_core::{DType, Device, Tensor};
use foxlaunch_shared::config::{Config, Layer, Layers};
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_worker::collectives::Solo;
use foxlaunch_worker::kernels::matrix::{Left, Panels, Product, Start, multiply};
use foxlaunch_worker::kernels::td::square;
use foxlaunch_worker::networks::{CandleNetwork, Head, HostNetwork, Levels, Pass, QSettings};
use foxlaunch_worker::optimizer::{AdamW, AdamWSettings};
use foxlaunch_worker::parallel::Shards;
use foxlaunch_worker::seed::{Streams, uniform};
use foxlaunch_worker::trainers::learner::{Learner, LearnerSettings, Rows};
use std::sync::Arc;
use std::time::Instant;

/// Widths from the observation to the actions, and rows of a batch: those of `notes/cpu.md` and of the peer.
const SHAPES: [(&[usize], usize); 4] =
    [(&[51, 256, 128, 64, 3], 256), (&[4, 256, 256, 2], 64), (&[4, 120, 84, 2], 128), (&[64, 64, 64, 2], 256)];
const ADAM: AdamWSettings =
    AdamWSettings { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };

fn main() -> candle_core::Result<()> {
    for (dims, batch) in SHAPES {
        plain_step(dims, batch);
        products(dims, batch);
    }
    autograd(SHAPES[0].0, SHAPES[0].1)?;
    for pairs in [
        &["dqn.preset=vanilla", "dqn.double=true"][..],
        &["dqn.preset=rainbow"],
        &["dqn.preset=iqn"],
        &["dqn.preset=foxhunt"],
    ] {
        update(pairs);
    }
    Ok(())
}

fn network(dims: &[usize]) -> QSettings {
    let (observation, actions) = (dims[0], dims[dims.len() - 1]);
    let hidden = dims[1..dims.len() - 1].to_vec();
    QSettings { observation, actions, hidden, head: Head::Value, dueling: false, noise: None }
}

/// One forward, squared error, backward, AdamW, as the trainers do them.
fn plain_step(dims: &[usize], batch: usize) {
    let network = Arc::new(network(dims).network());
    let mut host = HostNetwork::<f32>::new(network.clone(), &Streams::new(1));
    let (mut pass, mut gradient) = (Pass::new(), vec![0.0; network.total()]);
    let mut adam = AdamW::f32(network.total(), ADAM);
    let (x, y, actions) = (noise(batch * dims[0]), noise(batch), dims[dims.len() - 1]);
    report("plain step", dims, batch, 100, &mut || {
        host.forward(&mut pass, &x, batch, Levels::None);
        let (q, slope) = pass.output_and_gradient(0);
        for ((q, slope), y) in q.chunks_exact(actions).zip(slope.chunks_exact_mut(actions)).zip(&y) {
            slope.fill(0.0);
            slope[0] = square(q[0] - y).1 / batch as f32;
        }
        host.backward(&mut pass, &mut gradient, false);
        adam.step_flat(host.values_mut(), &gradient).expect("one layout");
    });
}

/// The products of a step and what is packed for them, and nothing else.
fn products(dims: &[usize], batch: usize) {
    let mut layers: Vec<_> = dims
        .windows(2)
        .map(|pair| {
            let (i, o) = (pair[0], pair[1]);
            (
                i,
                o,
                noise(i * o),
                noise(batch * i),
                noise(batch * o),
                noise(o),
                [Panels::new(), Panels::new(), Panels::new()],
            )
        })
        .collect();
    report("products alone", dims, batch, 100, &mut || {
        for (l, (i, o, w, x, y, bias, [forward, backward, rows])) in layers.iter_mut().enumerate() {
            forward.pack_transposed(w, *i, *o);
            multiply(Product { left: Left::Rows(x), right: forward, start: Start::Row(bias), out: y });
            if l > 0 {
                backward.pack(w, *o, *i);
                multiply(Product { left: Left::Rows(y), right: backward, start: Start::Zero, out: x });
            }
            rows.pack(x, batch, *i);
            multiply(Product { left: Left::Columns(y), right: rows, start: Start::Zero, out: w });
            // what grows without an optimiser would overflow
            w.iter_mut().chain(x.iter_mut()).for_each(|v| *v = v.clamp(-1.0, 1.0));
        }
    });
}

/// candle's forward and backward, without an optimiser.
fn autograd(dims: &[usize], batch: usize) -> candle_core::Result<()> {
    let network = Arc::new(network(dims).network());
    let candle = CandleNetwork::new(network, DType::F32, &Device::Cpu, &Streams::new(1))?;
    let x = Tensor::from_vec(noise(batch * dims[0]), (batch, dims[0]), &Device::Cpu)?;
    let index = Tensor::zeros((batch, 1), DType::U32, &Device::Cpu)?;
    let y = Tensor::from_vec(noise(batch), batch, &Device::Cpu)?;
    report("candle's autograd", dims, batch, 20, &mut || {
        let step = || {
            let chosen = candle.forward(&x, None, false)?[0].gather(&index, 1)?.squeeze(1)?;
            (chosen - &y)?.sqr()?.mean_all()?.backward()
        };
        step().map(drop).expect("shapes fit");
    });
    Ok(())
}

/// A whole update of the trainer under `pairs`, three or more forward passes, noise, loss, backward, clip and step.
fn update(pairs: &[&str]) {
    let (dims, batch) = SHAPES[0];
    let mut layers = Layers::new();
    layers.push(Layer::from_pairs("bench", pairs.iter().copied()).expect("pairs")).expect("known keys");
    layers.push(Layer::from_pairs("bench", ["network.hidden=[256, 128, 64]"]).expect("pairs")).expect("known keys");
    let config: Config = layers.resolve().expect("valid settings").0;
    let settings = LearnerSettings::new(&config, dims[0], dims[dims.len() - 1]);
    let alone = Shards::new(1, WorldSize(1), Rank(0)).expect("one shard for one rank");
    let mut learner = Learner::<f32>::new(settings, alone, batch, &Device::Cpu, &Streams::new(1)).expect("a learner");
    let rows = Rows {
        observations: noise(batch * dims[0]),
        actions: vec![0; batch],
        rewards: vec![0.5; batch],
        discounts: vec![0.9; batch],
        next_observations: noise(batch * dims[0] + 1)[1..].to_vec(),
        weights: vec![1.0; batch],
    };
    let mut number = 0;
    report(&format!("update {}", pairs.join(" ")), dims, batch, 20, &mut || {
        learner.update(&mut Solo::new(), number, &mut |_| rows.clone()).expect("an update");
        number += 1;
    });
}

fn noise(len: usize) -> Vec<f32> {
    let mut draw = Streams::new(2).draw("bench", len as u64, 0);
    (0..len).map(|_| (2.0 * uniform(&mut draw) - 1.0) as f32).collect()
}

fn report(what: &str, dims: &[usize], batch: usize, times: u32, job: &mut dyn FnMut()) {
    (0..times / 5).for_each(|_| job());
    let mut blocks: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..times).for_each(|_| job());
            start.elapsed().as_secs_f64() / f64::from(times) * 1e6
        })
        .collect();
    blocks.sort_by(f64::total_cmp);
    println!("foxlaunch-cpu-step what={what:?} dims={dims:?} batch={batch} us={:.1}", blocks[2]);
}
