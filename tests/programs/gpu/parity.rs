//! The same frozen batches on one device and on two: the losses must agree.

use crate::kernels::numbers;
use anyhow::{Context, Result, bail, ensure};
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Module, VarBuilder, VarMap};
use foxlaunch_worker::optimizer::{AdamWSettings, DeviceAdamW};
use foxlaunch_worker::parallel::{FlatGradients, Layout, Shards, Values};
use foxlaunch_worker::world::World;
use serde_json::json;

/// Sizes of the layers.
const WIDTHS: [usize; 5] = [51, 256, 128, 64, 3];
/// Rows of the global batch.
const ROWS: usize = 256;
const UPDATES: u64 = 20;
/// How far two losses may be apart, relative to the larger.
const TOLERANCE: f64 = 1e-4;

/// Trains, and has rank 0 write the losses to `file`; with `other`, a file of another world, compares both.
pub(crate) fn train(world: &mut World, file: &str, other: Option<&str>) -> Result<()> {
    ensure!(!candle_core::cuda_backend::gemm_reduced_precision_f32(), "matrix products are in TF32, not in f32");
    let device = world.device().clone();
    let vars = VarMap::new();
    let model = Mlp::new(VarBuilder::from_varmap(&vars, DType::F32, &device))?;
    let layout = Layout::of(&vars);
    layout.agree(world.collective())?;
    let variables = fill(&layout, &vars)?;
    let settings = AdamWSettings { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
    let mut adam = DeviceAdamW::new(layout.total(), settings, &device)?;
    let mut gradients = FlatGradients::zeros(&layout, 1, DType::F32, &device)?;
    let mine = Shards::new(world.world_size().0 as usize, world.world_size(), world.rank())?.owned_rows(ROWS);
    let mut losses = Vec::new();
    for update in 0..UPDATES {
        let (x, y) = batch(update, &device)?;
        let (x, y) = (x.narrow(0, mine.start, mine.len())?, y.narrow(0, mine.start, mine.len())?);
        let loss = (model.forward(&x)? - y)?.sqr()?.sum_all()?;
        gradients.clear()?;
        gradients.add(&layout, &vars, &loss.backward()?)?;
        gradients.set_extras(&[f64::from(loss.to_scalar::<f32>()?)])?;
        gradients.sum(world.collective())?;
        gradients.scale(1.0 / ROWS as f64)?;
        losses.push(gradients.extras()?[0] / ROWS as f64);
        let Values::CudaF32(values) = gradients.values() else { bail!("the gradients are not on the device") };
        adam.measure(&values.slice(..layout.total()), 1.0)?;
        adam.step(&variables, values)?;
    }
    if !world.is_first() {
        return Ok(());
    }
    let ranks = world.world_size().0;
    std::fs::write(file, json!({ "ranks": ranks, "losses": losses }).to_string()).with_context(|| file.to_owned())?;
    println!("foxlaunch-parity ranks={ranks} first={:.6} last={:.6}", losses[0], losses[losses.len() - 1]);
    ensure!(losses[losses.len() - 1] < losses[0], "the loss did not fall");
    other.map_or(Ok(()), |other| compare(&losses, other))
}

fn compare(losses: &[f64], other: &str) -> Result<()> {
    let text = std::fs::read_to_string(other).with_context(|| other.to_owned())?;
    let read: serde_json::Value = serde_json::from_str(&text).with_context(|| other.to_owned())?;
    let theirs: Vec<f64> =
        read["losses"].as_array().map(|all| all.iter().filter_map(|x| x.as_f64()).collect()).unwrap_or_default();
    ensure!(theirs.len() == losses.len(), "{other} holds {} losses instead of {}", theirs.len(), losses.len());
    let apart = |(a, b): (&f64, &f64)| (a - b).abs() / a.abs().max(b.abs());
    let worst = losses.iter().zip(&theirs).map(apart).fold(0.0, f64::max);
    println!("foxlaunch-parity updates={} worst_relative_difference={worst:.2e} allowed={TOLERANCE:.0e}", losses.len());
    ensure!(worst <= TOLERANCE, "losses differ by {worst:e}");
    Ok(())
}

/// Weights that depend on the layout alone, about as large as PyTorch's.
fn fill(layout: &Layout, vars: &VarMap) -> Result<Vec<Var>> {
    let data = vars.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut variables = Vec::new();
    for (entry, seed) in layout.entries().iter().zip(1..) {
        let var = data.get(&entry.name).with_context(|| entry.name.clone())?;
        let bound = 1.0 / (*entry.shape.last().unwrap_or(&1) as f64).sqrt();
        let values = Tensor::from_vec(numbers(seed, entry.len), entry.shape.as_slice(), var.device())?;
        var.set(&(values * bound)?)?;
        variables.push(var.clone());
    }
    Ok(variables)
}

/// Batch `update`, all rows of it: the target is a smooth function of the input.
fn batch(update: u64, device: &Device) -> Result<(Tensor, Tensor)> {
    let x = Tensor::from_vec(numbers(1000 + update, ROWS * WIDTHS[0]), (ROWS, WIDTHS[0]), device)?;
    let part = |from: usize| x.narrow(1, from, 17)?.sum_keepdim(1)?.tanh();
    let y = Tensor::cat(&[part(0)?, part(17)?, part(34)?], 1)?;
    Ok((x, y))
}

struct Mlp {
    layers: Vec<candle_nn::Linear>,
}

impl Mlp {
    fn new(vars: VarBuilder<'_>) -> Result<Mlp> {
        let sizes = WIDTHS.iter().zip(&WIDTHS[1..]).enumerate();
        let layers = sizes.map(|(at, (from, to))| candle_nn::linear(*from, *to, vars.pp(format!("layer{at}"))));
        Ok(Mlp { layers: layers.collect::<candle_core::Result<_>>()? })
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let mut x = x.clone();
        for (at, layer) in self.layers.iter().enumerate() {
            x = layer.forward(&x)?;
            if at + 1 < self.layers.len() {
                x = x.relu()?;
            }
        }
        Ok(x)
    }
}
