//! A network on a CUDA device, computed by our own kernels: its parameters, and its outputs for those who act.

use super::TrainError;
use crate::kernels::Scalar;
use crate::kernels::device::{self, KernelError};
use crate::kernels::layers::address;
use crate::networks::device::{DeviceNetwork, DevicePass, LevelCount};
use crate::networks::device_plan::Launches;
use crate::networks::{Levels, Network, Noise};
use crate::seed::Streams;
use candle_core::Device;
use cudarc::driver::{CudaSlice, CudaStream, DriverError};
use std::sync::Arc;

/// Passes of so many sizes are kept: training acts in one, validation and test in another.
const KEPT: usize = 4;

/// A network with its parameters.
pub struct DeviceModel {
    pub(super) network: DeviceNetwork,
    pub(super) stream: Arc<CudaStream>,
    /// The noise of those who act.
    noise: CudaSlice<f32>,
    noisy: bool,
    acting: Vec<Acting>,
}

/// A planned pass.
struct Acting {
    noisy: bool,
    levels: CudaSlice<f32>,
    pass: DevicePass,
    launches: Launches,
}

impl From<KernelError> for TrainError {
    fn from(error: KernelError) -> TrainError {
        candle_core::Error::from(error).into()
    }
}

pub(super) fn driver(error: DriverError) -> TrainError {
    candle_core::Error::wrap(error).into()
}

impl DeviceModel {
    /// Fresh parameters, which `streams` decide.
    pub fn new(network: &Arc<Network>, device: &Device, streams: &Streams) -> Result<DeviceModel, TrainError> {
        let stream = device.as_cuda_device()?.cuda_stream();
        let values: Vec<f32> = network.init(streams).into_iter().map(|x| x as f32).collect();
        let network = DeviceNetwork::new(Arc::clone(network), &values, &stream)?;
        let noise = stream.alloc_zeros(network.noise_len().max(1)).map_err(driver)?;
        Ok(DeviceModel { network, stream, noise, noisy: false, acting: Vec::new() })
    }

    /// Acts from now on under this sample of noise, if any.
    pub fn set_noise<T: Scalar>(&mut self, noise: Option<&Noise<T>>) -> Result<(), TrainError> {
        self.noisy = noise.is_some() && self.network.noise_len() > 0;
        if let Some(noise) = noise.filter(|_| self.noisy) {
            self.stream.memcpy_htod(&self.network.flat_noise(noise), &mut self.noise).map_err(driver)?;
        }
        Ok(())
    }

    /// The outputs for `rows` row-major observations, at these `levels` if it is a network of quantiles. Waits for the
    /// device.
    pub fn forward<T: Scalar>(
        &mut self,
        observations: &[f32],
        rows: usize,
        levels: Levels<'_, T>,
    ) -> Result<Vec<f32>, TrainError> {
        if rows == 0 {
            return Ok(Vec::new());
        }
        let (levels, count) = match levels {
            Levels::None => (&[][..], LevelCount::None),
            Levels::Shared(levels) => (levels, LevelCount::Shared(levels.len())),
            Levels::Own(levels, count) => (levels, LevelCount::Own(count)),
        };
        let fits = |a: &Acting| a.noisy == self.noisy && a.pass.rows() == rows && a.pass.level_count() == count;
        let known = self.acting.iter().position(fits);
        let at = match known {
            Some(at) => at,
            None => {
                if self.acting.len() == KEPT {
                    self.acting.remove(0);
                }
                let on_device = self.stream.alloc_zeros(levels.len().max(1)).map_err(driver)?;
                let pass = self.network.pass_at(rows, count, address(&on_device, 0, &self.stream))?;
                let noise = self.noisy.then(|| address(&self.noise, 0, &self.stream));
                let launches = self.network.forward(&pass, noise).ready();
                self.acting.push(Acting { noisy: self.noisy, levels: on_device, pass, launches });
                self.acting.len() - 1
            }
        };
        let acting = &mut self.acting[at];
        if !levels.is_empty() {
            let levels: Vec<f32> = levels.iter().map(|x| x.wide() as f32).collect();
            self.stream.memcpy_htod(&levels, &mut acting.levels).map_err(driver)?;
        }
        self.stream.memcpy_htod(observations, acting.pass.observations_mut()).map_err(driver)?;
        // SAFETY: the plan was made of this network, this noise and this pass, which live in `self`; one stream orders
        // all that reads and writes them, and what is freed, as a pass that is no longer kept, is freed in its order.
        unsafe { acting.launches.enqueue(&self.stream) }?;
        self.stream.clone_dtoh(acting.pass.output()).map_err(driver)
    }

    /// A copy of the parameters. Waits for the device.
    pub fn values(&self) -> Result<Vec<f32>, TrainError> {
        let mut values = self.stream.clone_dtoh(self.network.values()).map_err(driver)?;
        values.truncate(self.network.network().total());
        Ok(values)
    }

    /// Sets the parameters, in place.
    pub fn set_values(&mut self, values: &[f32]) -> Result<(), TrainError> {
        if values.is_empty() {
            return Ok(());
        }
        self.stream.memcpy_htod(values, self.network.values_mut()).map_err(driver)
    }

    /// Takes the parameters the share `tau` of the way to those of `source`; 1 copies.
    pub fn follow(&mut self, source: &DeviceModel, tau: f64) -> Result<(), TrainError> {
        let (mine, theirs) = (self.network.values_mut(), source.network.values());
        if tau == 1.0 {
            return self.stream.memcpy_dtod(theirs, mine).map_err(driver);
        }
        Ok(device::follow(&self.stream, mine, theirs, (1.0 - tau) as f32, tau as f32)?)
    }
}
