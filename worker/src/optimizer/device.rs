//! AdamW with its state in device memory: the same bits as [`AdamW`](super::AdamW) on the host, given the same gradient
//! and clip factor. Clip and step run without a word to the host.

use super::adamw::Rates;
use super::{AdamWSettings, Moments, OptimizerError};
use crate::kernels::device::{AdamWFactors, Clip, KernelError, adamw};
use candle_core::{CpuStorage, CudaStorage, Device, InplaceOp1, Layout, Var};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DriverError};
use std::cell::RefCell;
use std::sync::Arc;

/// The optimiser with its state on a CUDA device, for f32 variables.
#[derive(Debug)]
pub struct DeviceAdamW {
    /// What it is set to; the step size may change from step to step.
    pub settings: AdamWSettings,
    stream: Arc<CudaStream>,
    m: CudaSlice<f32>,
    v: CudaSlice<f32>,
    clip: Clip,
    steps: u64,
}

fn kernel(error: KernelError) -> OptimizerError {
    OptimizerError::Candle(error.into())
}

fn driver(error: DriverError) -> OptimizerError {
    OptimizerError::Candle(candle_core::Error::wrap(error))
}

impl DeviceAdamW {
    /// A fresh optimiser for `len` values on `device`.
    pub fn new(len: usize, settings: AdamWSettings, device: &Device) -> Result<DeviceAdamW, OptimizerError> {
        let stream = device.as_cuda_device()?.cuda_stream();
        let (m, v) = (stream.alloc_zeros(len).map_err(driver)?, stream.alloc_zeros(len).map_err(driver)?);
        let clip = Clip::new(&stream).map_err(kernel)?;
        Ok(DeviceAdamW { settings, stream, m, v, clip, steps: 0 })
    }

    /// Goes on from a saved state, which must be of 32 bits and of this length.
    pub fn restore(&mut self, moments: &Moments, steps: u64) -> Result<(), OptimizerError> {
        let Moments::F32 { m, v } = moments else {
            return Err(OptimizerError::Type { gradient: "f32", state: "f64" });
        };
        if m.len() != self.m.len() || v.len() != self.v.len() {
            return Err(OptimizerError::Size { moments: m.len(), gradient: v.len(), variables: self.m.len() });
        }
        self.steps = steps;
        // the driver cannot copy nothing
        if !m.is_empty() {
            self.stream.memcpy_htod(m, &mut self.m).map_err(driver)?;
            self.stream.memcpy_htod(v, &mut self.v).map_err(driver)?;
        }
        Ok(())
    }

    /// A copy of both moments on the host, in layout order, for a checkpoint. Waits for the device.
    pub fn moments(&self) -> Result<Moments, OptimizerError> {
        let m = self.stream.clone_dtoh(&self.m).map_err(driver)?;
        let v = self.stream.clone_dtoh(&self.v).map_err(driver)?;
        Ok(Moments::F32 { m, v })
    }

    /// Both moments where they are, to average them over ranks.
    pub fn moments_mut(&mut self) -> (&mut CudaSlice<f32>, &mut CudaSlice<f32>) {
        (&mut self.m, &mut self.v)
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Measures `gradient` for the next [`DeviceAdamW::step`]: its norm, and the factor that clips it to `max_norm`
    /// (0: not clipped). Returns when it is enqueued.
    pub fn measure(&mut self, gradient: &CudaView<'_, f32>, max_norm: f64) -> Result<(), OptimizerError> {
        self.clip.measure(&self.stream, gradient, max_norm).map_err(kernel)
    }

    /// The norm last measured, before the clip, and the factor that clips it. Waits for the device.
    pub fn last_clip(&self) -> Result<(f64, f64), OptimizerError> {
        self.clip.read(&self.stream).map_err(kernel)
    }

    /// One step of all `variables`, which stand in layout order, along the start of the flat `gradient`, clipped as
    /// it was measured. Extras behind the gradients have no part in it. Returns when it is enqueued.
    pub fn step(&mut self, variables: &[Var], gradient: &CudaSlice<f32>) -> Result<(), OptimizerError> {
        let len: usize = variables.iter().map(|var| var.elem_count()).sum();
        if self.m.len() != len || gradient.len() < len {
            let (moments, gradient) = (self.m.len(), gradient.len());
            return Err(OptimizerError::Size { moments, gradient, variables: len });
        }
        let gradient = gradient.slice(..len);
        self.steps += 1;
        let factors = AdamWFactors::from(&Rates::<f32>::at(&self.settings, self.steps));
        let mut start = 0;
        for variable in variables {
            let place = start..start + variable.elem_count();
            start = place.end;
            if place.is_empty() {
                continue;
            }
            variable.inplace_op1(&Step {
                stream: &self.stream,
                factors: &factors,
                clip: &self.clip,
                gradient: gradient.slice(place.clone()),
                moments: RefCell::new((self.m.slice_mut(place.clone()), self.v.slice_mut(place))),
            })?;
        }
        Ok(())
    }
}

impl From<&Rates<f32>> for AdamWFactors {
    fn from(rates: &Rates<f32>) -> AdamWFactors {
        AdamWFactors {
            decay: rates.decay,
            beta1: rates.beta1,
            one_minus_beta1: rates.one_minus_beta1,
            beta2: rates.beta2,
            one_minus_beta2: rates.one_minus_beta2,
            rate: rates.rate,
            root_scale: rates.root_scale,
            eps: rates.eps,
        }
    }
}

/// The step of one variable, as an operation on its storage.
struct Step<'a> {
    stream: &'a CudaStream,
    factors: &'a AdamWFactors,
    clip: &'a Clip,
    gradient: CudaView<'a, f32>,
    // candle hands an operation out as `&self`, though it runs it once
    moments: RefCell<(CudaViewMut<'a, f32>, CudaViewMut<'a, f32>)>,
}

impl InplaceOp1 for Step<'_> {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        candle_core::bail!("this AdamW keeps its state on a CUDA device, and was given a variable on the host")
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> candle_core::Result<()> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            candle_core::bail!("AdamW needs contiguous variables, not {layout:?}")
        };
        let mut values = storage.as_cuda_slice_mut::<f32>()?.slice_mut(start..end);
        let mut moments = self.moments.borrow_mut();
        let (m, v) = &mut *moments;
        Ok(adamw(self.stream, &mut values, &self.gradient, (m, v), self.clip, self.factors)?)
    }
}
