//! The optimiser where the parameters are: on the host, or on a CUDA device, where neither gradients nor moments leave it.

use super::TrainError;
use super::model::Float;
use crate::collectives::{Buffer, Collective, ReduceOp};
#[cfg(feature = "cuda")]
use crate::optimizer::DeviceAdamW;
use crate::optimizer::{AdamW, AdamWSettings, Moments, clip_coefficient, global_norm};
use crate::parallel::{FlatGradients, Values};
use candle_core::{DType, Device, Var};
use std::borrow::Cow;

/// Clip and AdamW over flat gradients.
#[derive(Debug)]
pub enum Stepper {
    /// In host memory, f32 or f64.
    Host(AdamW),
    /// In device memory, f32.
    #[cfg(feature = "cuda")]
    Device(Box<DeviceAdamW>),
}

impl Stepper {
    /// A fresh optimiser for `len` values of `dtype` on `device`.
    pub fn new(len: usize, dtype: DType, settings: AdamWSettings, device: &Device) -> Result<Stepper, TrainError> {
        Ok(match (dtype, device) {
            #[cfg(feature = "cuda")]
            (DType::F32, Device::Cuda(_)) => Stepper::Device(Box::new(DeviceAdamW::new(len, settings, device)?)),
            (DType::F64, _) => Stepper::Host(AdamW::f64(len, settings)),
            _ => Stepper::Host(AdamW::f32(len, settings)),
        })
    }

    /// Goes on from a saved state, on the same device and with the same settings.
    pub fn restore(&mut self, moments: Moments, steps: u64) -> Result<(), TrainError> {
        match self {
            Stepper::Host(adam) => *adam = AdamW::resume(adam.settings.clone(), moments, steps),
            #[cfg(feature = "cuda")]
            Stepper::Device(adam) => adam.restore(&moments, steps)?,
        }
        Ok(())
    }

    /// Both moments, on the host.
    pub fn moments(&self) -> Result<Cow<'_, Moments>, TrainError> {
        Ok(match self {
            Stepper::Host(adam) => Cow::Borrowed(adam.moments()),
            #[cfg(feature = "cuda")]
            Stepper::Device(adam) => Cow::Owned(adam.moments()?),
        })
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        match self {
            Stepper::Host(adam) => adam.steps(),
            #[cfg(feature = "cuda")]
            Stepper::Device(adam) => adam.steps(),
        }
    }

    /// The global norm of `gradients`, to be asked before [`Stepper::step`], which clips it to `max_norm` (0: not).
    pub fn norm(&mut self, gradients: &FlatGradients, max_norm: f64) -> Result<f64, TrainError> {
        #[cfg(not(feature = "cuda"))]
        let _ = max_norm;
        match (self, gradients.values()) {
            (Stepper::Host(_), Values::F32(_)) => Ok(gradients.f32().map_or(0.0, global_norm)),
            (Stepper::Host(_), Values::F64(_)) => Ok(gradients.f64().map_or(0.0, global_norm)),
            #[cfg(feature = "cuda")]
            (Stepper::Device(adam), Values::CudaF32(values)) => {
                adam.measure(&values.slice(..gradients.len()), max_norm)?;
                Ok(adam.last_clip()?.0)
            }
            #[cfg(feature = "cuda")]
            _ => Err(elsewhere()),
        }
    }

    /// One step of all `variables`, in layout order, along `gradients` of norm `norm`, clipped to `max_norm`.
    pub fn step(
        &mut self,
        variables: &[Var],
        gradients: &mut FlatGradients,
        norm: f64,
        max_norm: f64,
    ) -> Result<(), TrainError> {
        match self {
            Stepper::Host(adam) => {
                let coefficient = clip_coefficient(norm, max_norm);
                if coefficient < 1.0 {
                    gradients.scale(coefficient)?;
                }
                match (gradients.f32(), gradients.f64()) {
                    (Some(gradient), _) => adam.step(variables, gradient)?,
                    (_, Some(gradient)) => adam.step(variables, gradient)?,
                    _ => return Err(elsewhere()),
                }
            }
            #[cfg(feature = "cuda")]
            Stepper::Device(adam) => match gradients.values() {
                Values::CudaF32(values) => adam.step(variables, values)?,
                _ => return Err(elsewhere()),
            },
        }
        Ok(())
    }

    /// As [`Stepper::step`], for flat parameters on the host.
    pub fn step_flat<T: Float>(
        &mut self,
        values: &mut [T],
        gradients: &mut FlatGradients,
        norm: f64,
        max_norm: f64,
    ) -> Result<(), TrainError> {
        let coefficient = clip_coefficient(norm, max_norm);
        if coefficient < 1.0 {
            gradients.scale(coefficient)?;
        }
        match (self, gradients.host::<T>()) {
            (Stepper::Host(adam), Some(gradient)) => Ok(adam.step_flat(values, gradient)?),
            _ => Err(elsewhere()),
        }
    }

    /// Sets the step size of the next steps.
    pub fn set_learning_rate(&mut self, learning_rate: f64) {
        match self {
            Stepper::Host(adam) => adam.settings.learning_rate = learning_rate,
            #[cfg(feature = "cuda")]
            Stepper::Device(adam) => adam.settings.learning_rate = learning_rate,
        }
    }

    /// Averages both moments over all ranks: local SGD.
    pub fn average(&mut self, collective: &mut dyn Collective) -> Result<(), TrainError> {
        let (m, v) = match self {
            Stepper::Host(adam) => match adam.moments_mut() {
                Moments::F32 { m, v } => (Buffer::F32(m), Buffer::F32(v)),
                Moments::F64 { m, v } => (Buffer::F64(m), Buffer::F64(v)),
            },
            #[cfg(feature = "cuda")]
            Stepper::Device(adam) => {
                let (m, v) = adam.moments_mut();
                (Buffer::CudaF32(m), Buffer::CudaF32(v))
            }
        };
        collective.all_reduce(m, ReduceOp::Avg)?;
        collective.all_reduce(v, ReduceOp::Avg)?;
        Ok(())
    }
}

fn elsewhere() -> TrainError {
    TrainError::Unsupported("gradients and optimiser are not on one device".into())
}
