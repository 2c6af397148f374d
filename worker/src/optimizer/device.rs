//! AdamW with its state in device memory: the same bits as [`AdamW`](super::AdamW) on the host, given the same gradient
//! and clip factor. Clip and step run without a word to the host.

use super::{AdamWSettings, Moments, OptimizerError};
use crate::kernels::device::{Clip, KernelError};
use crate::kernels::device_adamw::{Places, Rates, adamw, mean_and_measure};
use candle_core::{Device, Storage, Var};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr, DriverError};
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
    rates: Rates,
    /// The settings that the device has.
    sent: Option<AdamWSettings>,
    places: Option<Places>,
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
        let rates = Rates::new(&stream).map_err(kernel)?;
        Ok(DeviceAdamW { settings, stream, m, v, clip, rates, sent: None, places: None, steps: 0 })
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
        self.rates.set_steps(&self.stream, steps).map_err(kernel)?;
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

    /// The same where it is, on the device.
    pub fn last_clip_there(&self) -> &CudaSlice<f64> {
        self.clip.result()
    }

    /// The norm last measured, before the clip, and the factor that clips it. Waits for the device.
    pub fn last_clip(&self) -> Result<(f64, f64), OptimizerError> {
        self.clip.read(&self.stream).map_err(kernel)
    }

    /// One step of all `variables`, which stand in layout order, along the start of the flat `gradient`, clipped as
    /// it was measured. One launch, whatever their number. Extras behind the gradients have no part in it. Returns when it is enqueued.
    pub fn step(&mut self, variables: &[Var], gradient: &CudaSlice<f32>) -> Result<(), OptimizerError> {
        let len: usize = variables.iter().map(|var| var.elem_count()).sum();
        if self.m.len() != len || gradient.len() < len {
            let (moments, gradient) = (self.m.len(), gradient.len());
            return Err(OptimizerError::Size { moments, gradient, variables: len });
        }
        self.prepare(variables)?;
        self.step_prepared(gradient, len)
    }

    /// As [`DeviceAdamW::step`], for parameters in one flat buffer on the device.
    pub fn step_flat(&mut self, values: &mut CudaSlice<f32>, gradient: &CudaSlice<f32>) -> Result<(), OptimizerError> {
        let len = self.m.len();
        if values.len() < len || gradient.len() < len {
            let gradient = gradient.len();
            return Err(OptimizerError::Size { moments: len, gradient, variables: values.len() });
        }
        self.prepare_flat(values)?;
        self.step_prepared(gradient, len)
    }

    /// The whole step of parameters in one flat buffer, in three launches: divides the start of `gradient` by the rows,
    /// which stand right behind it, measures and clips it to `max_norm` (0: not), and steps along it. No step is taken
    /// where the norm is no finite number, or where the word at `halted`, if that is not 0, has other bits than 0.
    ///
    /// # Safety
    ///
    /// `halted`, if not 0, must be the address of eight bytes on the optimiser's device, alive until the launches have
    /// ended.
    pub unsafe fn step_mean_flat(
        &mut self,
        values: &mut CudaSlice<f32>,
        gradient: &mut CudaSlice<f32>,
        max_norm: f64,
        halted: u64,
    ) -> Result<(), OptimizerError> {
        let len = self.m.len();
        if values.len() < len || gradient.len() <= len {
            let gradient = gradient.len();
            return Err(OptimizerError::Size { moments: len, gradient, variables: values.len() });
        }
        self.prepare_flat(values)?;
        let (mut along, behind) = gradient.split_at_mut(len);
        let (clip, rates) = (&mut self.clip, &mut self.rates);
        // SAFETY: the caller answers for `halted`.
        unsafe { mean_and_measure(&self.stream, &mut along, &behind.slice(..1), max_norm, (clip, rates), halted) }
            .map_err(kernel)?;
        self.step_measured(gradient, len)
    }

    fn step_prepared(&mut self, gradient: &CudaSlice<f32>, len: usize) -> Result<(), OptimizerError> {
        self.rates.advance(&self.stream).map_err(kernel)?;
        self.step_measured(gradient, len)
    }

    fn step_measured(&mut self, gradient: &CudaSlice<f32>, len: usize) -> Result<(), OptimizerError> {
        let Some(places) = &self.places else { return Ok(()) };
        let moments = (&mut self.m, &mut self.v);
        // SAFETY: the addresses have just been taken from variables that live as long as the call that does this; the
        // stream is the one that candle works on, so what else reads or writes them comes before or after. Memory that
        // is freed meanwhile is freed in the stream's order too.
        unsafe { adamw(&self.stream, places, &gradient.slice(..len), moments, &self.clip, &self.rates) }
            .map_err(kernel)?;
        self.steps += 1;
        Ok(())
    }

    /// Sends the device what has changed: settings, and where `variables` lie. Called by [`DeviceAdamW::step`], and
    /// before a captured step is replayed, which cannot do so itself.
    pub(crate) fn prepare(&mut self, variables: &[Var]) -> Result<(), OptimizerError> {
        let mut now = Vec::with_capacity(variables.len());
        for variable in variables {
            now.push((address(variable, &self.stream)?, variable.elem_count()));
        }
        self.send(now)
    }

    /// As [`DeviceAdamW::prepare`], for parameters in one flat buffer.
    pub(crate) fn prepare_flat(&mut self, values: &CudaSlice<f32>) -> Result<(), OptimizerError> {
        let address = crate::kernels::layers::address(values, 0, &self.stream);
        self.send(vec![(address, self.m.len())])
    }

    fn send(&mut self, places: Vec<(u64, usize)>) -> Result<(), OptimizerError> {
        if self.sent.as_ref() != Some(&self.settings) {
            let s = &self.settings;
            let settings = [s.learning_rate, s.beta1, s.beta2, s.eps, s.weight_decay];
            self.rates.set(&self.stream, &settings).map_err(kernel)?;
            self.sent = Some(self.settings.clone());
        }
        if self.places.as_ref().is_none_or(|there| !there.are(&places)) {
            self.places = Some(Places::new(&self.stream, places).map_err(kernel)?);
        }
        Ok(())
    }

    /// Counts a step that a captured graph has taken. The device has counted it itself.
    pub(crate) fn replayed(&mut self) {
        self.steps += 1;
    }

    /// Takes back a step that was recorded into a graph, not taken.
    pub(crate) fn recorded(&mut self) {
        self.steps -= 1;
    }
}

/// Where the f32 of `variable` lie on the device.
fn address(variable: &Var, stream: &Arc<CudaStream>) -> Result<u64, OptimizerError> {
    let refuse = |why: String| OptimizerError::Candle(candle_core::Error::Msg(why));
    let (storage, layout) = variable.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        return Err(refuse("this AdamW keeps its state on a CUDA device, and was given a variable on the host".into()));
    };
    let Some((start, _)) = layout.contiguous_offsets() else {
        return Err(refuse(format!("AdamW needs contiguous variables, not {layout:?}")));
    };
    let slice = storage.as_cuda_slice::<f32>()?;
    let (address, _ordered) = slice.device_ptr(stream);
    Ok(address + (start * size_of::<f32>()) as u64)
}
