//! The CUDA forms: compiled once for each process and device, launched on the buffers' own stream.

use super::flat::{BLOCK, NORM_BLOCKS};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, CudaView, CudaViewMut};
use cudarc::driver::{DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::{CompileError, CompileOptions, compile_ptx_with_opts};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// The kernels' text.
const SOURCE: &str = concat!(
    include_str!("exact.cu"),
    include_str!("flat.cu"),
    include_str!("layers.cu"),
    include_str!("losses.cu"),
    include_str!("quantile.cu"),
    include_str!("replay.cu")
);
/// More blocks than this bring nothing: each thread takes several elements then.
const MOST_BLOCKS: usize = 2048;

/// Why a kernel could not run.
#[derive(Debug, Error)]
pub enum KernelError {
    /// NVRTC refused the text, or is not the version that the driver wants.
    #[error("NVRTC could not compile the kernels: {0}")]
    Compile(String),
    /// The driver refused the module or a launch.
    #[error("the CUDA driver refused a kernel: {0}")]
    Driver(#[from] DriverError),
}

impl From<KernelError> for candle_core::Error {
    fn from(error: KernelError) -> candle_core::Error {
        candle_core::Error::wrap(error)
    }
}

/// The modules compiled so far, by context: one, except in tests.
static MODULES: Mutex<Vec<(Arc<CudaContext>, Arc<CudaModule>)>> = Mutex::new(Vec::new());

/// The kernel `name` on the device of `stream`. The first call in a process compiles all, in about a quarter of a
/// second.
pub(super) fn function(stream: &CudaStream, name: &str) -> Result<CudaFunction, KernelError> {
    let context = stream.context();
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, module)) = modules.iter().find(|(known, _)| known == context) {
        return Ok(module.load_function(name)?);
    }
    let module = compile(context)?;
    modules.push((Arc::clone(context), Arc::clone(&module)));
    Ok(module.load_function(name)?)
}

fn compile(context: &Arc<CudaContext>) -> Result<Arc<CudaModule>, KernelError> {
    let (major, minor) = context.compute_capability()?;
    let options = CompileOptions {
        // fused multiply-add rounds once where the host rounds twice
        fmad: Some(false),
        options: vec![format!("--gpu-architecture=compute_{major}{minor}")],
        ..CompileOptions::default()
    };
    let ptx = compile_ptx_with_opts(SOURCE, options).map_err(|error| match error {
        CompileError::CompileError { log, .. } => KernelError::Compile(log.to_string_lossy().into_owned()),
        other => KernelError::Compile(format!("{other:?}")),
    })?;
    Ok(context.load_module(ptx)?)
}

/// Compiles the kernels now rather than at the first step.
pub fn prepare(stream: &CudaStream) -> Result<(), KernelError> {
    function(stream, "scale").map(drop)
}

/// A launch over `n` elements.
pub(super) fn over(n: usize) -> LaunchConfig {
    blocks(n.div_ceil(BLOCK).clamp(1, MOST_BLOCKS))
}

pub(super) fn blocks(count: usize) -> LaunchConfig {
    LaunchConfig { grid_dim: (count as u32, 1, 1), block_dim: (BLOCK as u32, 1, 1), shared_mem_bytes: 0 }
}

/// Multiplies each of `values` by `factor`.
pub fn scale(stream: &CudaStream, values: &mut CudaViewMut<'_, f32>, factor: f32) -> Result<(), KernelError> {
    let (kernel, n) = (function(stream, "scale")?, values.len() as u64);
    if n == 0 {
        return Ok(());
    }
    // SAFETY: the arguments are those of `scale` in flat.cu; `values` has `n` elements.
    unsafe { stream.launch_builder(&kernel).arg(values).arg(&n).arg(&factor).launch(over(n as usize)) }?;
    Ok(())
}

/// Adds `from` to `to`. The shorter of both decides how many elements.
pub fn add(stream: &CudaStream, to: &mut CudaViewMut<'_, f32>, from: &CudaView<'_, f32>) -> Result<(), KernelError> {
    let (kernel, n) = (function(stream, "add")?, to.len().min(from.len()) as u64);
    if n == 0 {
        return Ok(());
    }
    // SAFETY: the arguments are those of `add` in flat.cu; both buffers have at least `n` elements.
    unsafe { stream.launch_builder(&kernel).arg(to).arg(from).arg(&n).launch(over(n as usize)) }?;
    Ok(())
}

/// A gradient's norm, and the factor that clips it, on the device.
#[derive(Debug)]
pub struct Clip {
    pub(super) parts: CudaSlice<f64>,
    /// Norm, then factor.
    pub(super) result: CudaSlice<f64>,
}

impl Clip {
    /// Room for the result, on `stream`.
    pub fn new(stream: &Arc<CudaStream>) -> Result<Clip, KernelError> {
        Ok(Clip { parts: stream.alloc_zeros(NORM_BLOCKS)?, result: stream.alloc_zeros(2)? })
    }

    /// Computes the norm of `gradient`, and the factor by which it is clipped to `max_norm`; 0 stands for no clip.
    /// Nothing comes back to the host: the step reads the factor where it is.
    pub fn measure(
        &mut self,
        stream: &CudaStream,
        gradient: &CudaView<'_, f32>,
        max_norm: f64,
    ) -> Result<(), KernelError> {
        let (first, second) = (function(stream, "norm_parts")?, function(stream, "norm_finish")?);
        let n = gradient.len() as u64;
        // SAFETY: the arguments are those of `norm_parts` in flat.cu; `parts` has one element for each block.
        unsafe {
            stream.launch_builder(&first).arg(gradient).arg(&n).arg(&mut self.parts).launch(blocks(NORM_BLOCKS))
        }?;
        // SAFETY: the arguments are those of `norm_finish`, which wants one block and writes two elements.
        unsafe {
            stream.launch_builder(&second).arg(&self.parts).arg(&max_norm).arg(&mut self.result).launch(blocks(1))
        }?;
        Ok(())
    }

    /// The norm and the factor, where they are.
    pub fn result(&self) -> &CudaSlice<f64> {
        &self.result
    }

    /// The norm and the factor. Waits for the device.
    pub fn read(&self, stream: &Arc<CudaStream>) -> Result<(f64, f64), KernelError> {
        let result = stream.clone_dtoh(&self.result)?;
        Ok((result[0], result[1]))
    }
}

/// Takes `p` the share `take` of the way to `q`, and keeps the share `keep`. The shorter of both decides how many elements.
pub fn follow(
    stream: &CudaStream,
    p: &mut CudaSlice<f32>,
    q: &CudaSlice<f32>,
    keep: f32,
    take: f32,
) -> Result<(), KernelError> {
    let (kernel, n) = (function(stream, "follow")?, p.len().min(q.len()) as u64);
    // SAFETY: the arguments are those of `follow` in flat.cu; both buffers have at least `n` elements.
    unsafe { stream.launch_builder(&kernel).arg(p).arg(q).arg(&n).arg(&keep).arg(&take).launch(over(n as usize)) }?;
    Ok(())
}

/// Sets what rides behind a flat gradient: `rows`, and the `loss` summed over them, which stays on the device.
pub fn set_extras(
    stream: &CudaStream,
    at: &mut CudaViewMut<'_, f32>,
    rows: f32,
    loss: &CudaView<'_, f32>,
) -> Result<(), KernelError> {
    assert!(at.len() == 2 && loss.len() == 1, "two extras, one loss");
    let kernel = function(stream, "set_extras")?;
    // SAFETY: the arguments are those of `set_extras` in flat.cu; `at` has two elements and `loss` one.
    unsafe { stream.launch_builder(&kernel).arg(at).arg(&rows).arg(loss).launch(blocks(1)) }?;
    Ok(())
}

/// Divides `values` by `rows`, one number on the device; leaves them where it is 0.
pub fn mean(
    stream: &CudaStream,
    values: &mut CudaViewMut<'_, f32>,
    rows: &CudaView<'_, f32>,
) -> Result<(), KernelError> {
    assert!(rows.len() == 1, "one number of rows");
    let (kernel, n) = (function(stream, "mean")?, values.len() as u64);
    if n == 0 {
        return Ok(());
    }
    // SAFETY: the arguments are those of `mean` in flat.cu; `values` has `n` elements and `rows` one.
    unsafe { stream.launch_builder(&kernel).arg(values).arg(&n).arg(rows).launch(over(n as usize)) }?;
    Ok(())
}
