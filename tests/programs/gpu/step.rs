//! The whole training step of a plain network, captured and not: the same numbers, and how long each takes.

use anyhow::{Context, Result, ensure};
use candle_core::{DType, Device, Tensor};
use candle_nn::{Linear, Module, VarBuilder, VarMap};
use foxlaunch_worker::optimizer::AdamWSettings;
use foxlaunch_worker::parallel::CapturedStep;
use foxlaunch_worker::parallel::captured::How;
use foxlaunch_worker::world::World;
use std::time::Instant;

const BLOCKS: usize = 5;
const STEPS: usize = 300;

struct Mlp(Vec<Linear>);

impl Mlp {
    fn new(dims: &[usize], seed: u64, vars: &VarMap, device: &Device) -> Result<Mlp> {
        let builder = VarBuilder::from_varmap(vars, DType::F32, device);
        let layers = dims.windows(2).enumerate().map(|(at, pair)| {
            let layer = candle_nn::linear(pair[0], pair[1], builder.pp(format!("layer{at}")))?;
            let scale = (1.0 / pair[0] as f32).sqrt();
            for (variable, salt) in [(layer.weight(), 0), (layer.bias().context("a bias")?, 1)] {
                let values = super::kernels::numbers(seed + 2 * at as u64 + salt, variable.elem_count());
                let values: Vec<f32> = values.iter().map(|x| x * scale).collect();
                let from = Tensor::from_vec(values, variable.elem_count(), device)?;
                variable.flatten_all()?.slice_set(&from, 0, 0)?;
            }
            Ok(layer)
        });
        layers.collect::<Result<_>>().map(Mlp)
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let mut x = x.clone();
        for (at, layer) in self.0.iter().enumerate() {
            x = layer.forward(&x)?;
            if at + 1 < self.0.len() {
                x = x.relu()?;
            }
        }
        Ok(x)
    }
}

/// As `benches/peers/torch_mlp.py`: the value of one action, squared error, backward, AdamW. `dims` as 51,256,128,64,3.
pub(crate) fn time(world: &mut World, dims: &str, batch: &str) -> Result<()> {
    let dims: Vec<usize> = dims.split(',').map(|d| d.parse().context("--dims")).collect::<Result<_>>()?;
    let batch: usize = batch.parse().context("the batch")?;
    let device = world.device().clone();
    let rank = u64::from(world.rank().0);
    let x = Tensor::from_vec(super::kernels::numbers(1 + rank, batch * dims[0]), (batch, dims[0]), &device)?;
    let y = Tensor::from_vec(super::kernels::numbers(1000 + rank, batch), batch, &device)?;
    let action = Tensor::zeros((batch, 1), DType::U32, &device)?;
    let inputs = [x, action, y];
    let mut weights = Vec::new();
    for captured in [true, false] {
        let vars = VarMap::new();
        let model = Mlp::new(&dims, 50, &vars, &device)?;
        let trainer = CapturedStep::new(world, &vars, AdamWSettings::default())?;
        let mut trainer = if captured { trainer.clip(10.0) } else { trainer.clip(10.0).eager() };
        let loss = |of: &[Tensor]| (model.forward(&of[0])?.gather(&of[1], 1)?.squeeze(1)? - &of[2])?.sqr()?.sum_all();
        for _ in 0..50 {
            trainer.step(world, &inputs, batch, loss)?;
        }
        ensure!(!captured || *trainer.how() == How::Captured, "{}", trainer.how());
        let mut micros = Vec::new();
        for _ in 0..BLOCKS {
            device.synchronize()?;
            let start = Instant::now();
            for _ in 0..STEPS {
                trainer.step(world, &inputs, batch, loss)?;
            }
            device.synchronize()?;
            micros.push(start.elapsed().as_secs_f64() / STEPS as f64 * 1e6);
        }
        micros.sort_by(f64::total_cmp);
        if world.is_first() {
            println!(
                "foxlaunch-step how={} ranks={} dims={dims:?} batch={batch} us_per_step={:.1} loss={:e}",
                trainer.how(),
                world.world_size(),
                micros[BLOCKS / 2],
                trainer.last_loss()?
            );
        }
        // a smaller batch goes beside the graph, on this rank alone
        let rows = if rank == 0 { batch / 2 } else { batch };
        let cut: Vec<Tensor> = inputs.iter().map(|t| t.narrow(0, 0, rows)).collect::<Result<_, _>>()?;
        trainer.step(world, &cut, rows, loss)?;
        // and the graph goes on after it
        trainer.set_learning_rate(1e-4);
        trainer.step(world, &inputs, batch, loss)?;
        ensure!(trainer.steps() == (50 + BLOCKS * STEPS + 2) as u64, "{} steps", trainer.steps());
        let all: Vec<f32> = model
            .0
            .iter()
            .map(|layer| layer.weight().flatten_all()?.to_vec1())
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        weights.push(all);
    }
    super::kernels::same("weights, eager against captured", &weights[1], &weights[0])
}
