//! AdamW on the device: one launch for all variables. Its step count and factors live there too, so that a captured step
//! counts and goes on when it is replayed.

use super::device::{Clip, KernelError, blocks, function, over};
use super::flat::NORM_BLOCKS;
use super::layers::Address;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, LaunchConfig, PushKernelArg};
use std::sync::Arc;

/// Learning rate, beta1, beta2, eps and weight decay, as the kernel takes them.
pub type Settings = [f64; 5];

/// The step count, and the factors that follow from it.
#[derive(Debug)]
pub struct Rates {
    steps: CudaSlice<u64>,
    settings: CudaSlice<f64>,
    factors: CudaSlice<f32>,
}

impl Rates {
    /// No step taken, nothing set.
    pub fn new(stream: &Arc<CudaStream>) -> Result<Rates, KernelError> {
        Ok(Rates { steps: stream.alloc_zeros(1)?, settings: stream.alloc_zeros(5)?, factors: stream.alloc_zeros(8)? })
    }

    /// Changes the settings from the next step on.
    pub fn set(&mut self, stream: &Arc<CudaStream>, settings: &Settings) -> Result<(), KernelError> {
        Ok(stream.memcpy_htod(settings, &mut self.settings)?)
    }

    /// Goes on after `steps` steps.
    pub fn set_steps(&mut self, stream: &Arc<CudaStream>, steps: u64) -> Result<(), KernelError> {
        Ok(stream.memcpy_htod(&[steps], &mut self.steps)?)
    }

    /// Counts one step and computes its factors.
    pub fn advance(&mut self, stream: &CudaStream) -> Result<(), KernelError> {
        let kernel = function(stream, "adamw_rates")?;
        let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&mut self.steps).arg(&self.settings).arg(&mut self.factors);
        // SAFETY: the arguments are those of `adamw_rates` in flat.cu, which wants one thread, one count, five settings
        // and room for eight factors.
        unsafe { launch.launch(one) }?;
        Ok(())
    }
}

/// Divides `gradient` by `rows`, measures it as [`Clip::measure`] does, and counts one step with its factors: the bits of
/// `device::mean`, [`Clip::measure`] and [`Rates::advance`], in two launches. `halted` is 0 or the address of a word;
/// where its bits are not 0, the norm is none and no step is counted.
///
/// # Safety
///
/// `halted`, if not 0, must be the address of eight bytes on the device of `stream`, alive until the launches have ended.
pub unsafe fn mean_and_measure(
    stream: &CudaStream,
    gradient: &mut CudaViewMut<'_, f32>,
    rows: &CudaView<'_, f32>,
    max_norm: f64,
    (clip, rates): (&mut Clip, &mut Rates),
    halted: Address,
) -> Result<(), KernelError> {
    assert!(rows.len() == 1, "one number of rows");
    let (first, second) = (function(stream, "mean_norm_parts")?, function(stream, "finish_and_count")?);
    let n = gradient.len() as u64;
    let mut launch = stream.launch_builder(&first);
    launch.arg(gradient).arg(&n).arg(rows).arg(&mut clip.parts);
    // SAFETY: the arguments are those of `mean_norm_parts` in flat.cu; `parts` has one element for each block.
    unsafe { launch.launch(blocks(NORM_BLOCKS)) }?;
    let mut launch = stream.launch_builder(&second);
    launch.arg(&clip.parts).arg(&max_norm).arg(&mut clip.result);
    launch.arg(&mut rates.steps).arg(&rates.settings).arg(&mut rates.factors).arg(&halted);
    // SAFETY: the arguments are those of `finish_and_count` in flat.cu, which wants one block; the caller answers for
    // `halted`.
    unsafe { launch.launch(blocks(1)) }?;
    Ok(())
}

/// Where the variables lie: device addresses and elements of each, in the order of the flat gradient.
#[derive(Debug)]
pub struct Places {
    variables: Vec<(u64, usize)>,
    table: CudaSlice<u64>,
    elements: usize,
}

impl Places {
    /// The table for `variables`, each an address and a length.
    pub fn new(stream: &Arc<CudaStream>, variables: Vec<(u64, usize)>) -> Result<Places, KernelError> {
        let mut table: Vec<u64> = variables.iter().map(|(address, _)| *address).collect();
        let mut elements = 0;
        for (_, len) in &variables {
            table.push(elements as u64);
            elements += len;
        }
        table.push(elements as u64);
        Ok(Places { table: stream.clone_htod(&table)?, variables, elements })
    }

    /// Whether it is the table for these.
    pub fn are(&self, variables: &[(u64, usize)]) -> bool {
        self.variables == variables
    }
}

/// One AdamW step of the variables at `places` along the flat gradient `g`, multiplied by the factor of `clip`, with the
/// factors that [`Rates::advance`] left; `m` and `v` are the flat moments.
///
/// # Safety
///
/// Each address in `places` must be that of as many f32 as it says, on the device of `stream`, alive and written by
/// nothing else until the launch has ended.
pub unsafe fn adamw(
    stream: &CudaStream,
    places: &Places,
    g: &CudaView<'_, f32>,
    (m, v): (&mut CudaSlice<f32>, &mut CudaSlice<f32>),
    clip: &Clip,
    rates: &Rates,
) -> Result<(), KernelError> {
    let (n, count) = (places.elements, places.variables.len() as u32);
    assert!(g.len() >= n && m.len() >= n && v.len() >= n, "gradient and moments cover all variables");
    if n == 0 {
        return Ok(());
    }
    let kernel = function(stream, "adamw")?;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&places.table).arg(&count).arg(g).arg(m).arg(v).arg(&clip.result).arg(&rates.factors);
    // SAFETY: the arguments are those of `adamw` in flat.cu, in its order; gradient and moments have at least the
    // elements that the table names, and the caller answers for its addresses.
    unsafe { launch.launch(over(n)) }?;
    Ok(())
}
