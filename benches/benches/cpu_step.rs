//! The step of a small network on one thread: the same as `peers/torch_mlp.py`, taken apart, then a whole double
//! DQN update. Microseconds, median of 5 blocks.
//!
//! ```text
//! RAYON_NUM_THREADS=1 CANDLE_NUM_THREADS=1 cargo bench -p foxlaunch-benches --bench cpu_step
//! OMP_NUM_THREADS=1 python benches/peers/torch_mlp.py
//! ```

use candle_core::{DType, Device, Tensor};
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_worker::collectives::Solo;
use foxlaunch_worker::networks::QNetwork;
use foxlaunch_worker::optimizer::{AdamW, AdamWSettings, global_norm};
use foxlaunch_worker::parallel::{FlatGradients, Layout, Shards};
use foxlaunch_worker::seed::{Streams, uniform};
use foxlaunch_worker::trainers::learner::{Learner, LearnerSettings, Rows};
use std::time::Instant;

const ROWS: usize = 256;
const DIMS: (usize, &[usize], usize) = (51, &[256, 128, 64], 3);
const SETTINGS: AdamWSettings =
    AdamWSettings { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };

fn main() -> candle_core::Result<()> {
    let (observation, hidden, actions) = DIMS;
    let streams = Streams::new(1);
    let network = QNetwork::new(observation, hidden, actions, DType::F32, &Device::Cpu, &streams)?;
    let layout = Layout::of(network.parameters());
    let variables = network.variables();
    let x = Tensor::from_vec(noise(ROWS * observation), (ROWS, observation), &Device::Cpu)?;
    let index = Tensor::zeros((ROWS, 1), DType::U32, &Device::Cpu)?;
    let y = Tensor::from_vec(noise(ROWS), ROWS, &Device::Cpu)?;
    let backward = || {
        let chosen = network.forward(&x)?.gather(&index, 1)?.squeeze(1)?;
        (chosen - &y)?.sqr()?.mean_all()?.backward()
    };

    let mut gradients = FlatGradients::zeros(&layout, 0, DType::F32, &Device::Cpu).expect("host memory");
    let gradient = backward()?;
    let mut adam = AdamW::f32(layout.total(), SETTINGS);
    report("forward and backward", 50, &mut || drop(backward()));
    report("gradients into one buffer", 500, &mut || {
        gradients.clear().and_then(|()| gradients.add(&layout, network.parameters(), &gradient)).expect("one layout");
    });
    report("global norm", 500, &mut || {
        std::hint::black_box(global_norm(gradients.f32().unwrap_or_default()));
    });
    report("AdamW", 500, &mut || {
        adam.step(&variables, gradients.f32().unwrap_or_default()).expect("one layout");
    });

    let settings = LearnerSettings {
        observation,
        actions,
        hidden: hidden.to_vec(),
        dtype: DType::F32,
        double: true,
        optimizer: SETTINGS,
        max_grad_norm: 10.0,
    };
    let alone = Shards::new(1, WorldSize(1), Rank(0)).expect("one shard for one rank");
    let mut learner = Learner::new(settings, alone, &Device::Cpu, &streams).expect("a learner");
    let rows = Rows {
        observations: noise(ROWS * observation),
        actions: vec![0; ROWS],
        rewards: vec![0.5; ROWS],
        discounts: vec![0.9; ROWS],
        next_observations: noise(ROWS * observation),
    };
    report("double DQN update", 50, &mut || {
        learner.update(&mut Solo::new(), ROWS, &mut |_| rows.clone()).expect("an update");
    });
    Ok(())
}

fn noise(len: usize) -> Vec<f32> {
    let mut draw = Streams::new(2).draw("bench", len as u64, 0);
    (0..len).map(|_| (2.0 * uniform(&mut draw) - 1.0) as f32).collect()
}

fn report(what: &str, times: u32, job: &mut dyn FnMut()) {
    (0..times / 5).for_each(|_| job());
    let mut blocks: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..times).for_each(|_| job());
            start.elapsed().as_secs_f64() / f64::from(times) * 1e6
        })
        .collect();
    blocks.sort_by(f64::total_cmp);
    println!("foxlaunch-cpu-step what={what:?} dims={DIMS:?} batch={ROWS} us={:.1}", blocks[2]);
}
