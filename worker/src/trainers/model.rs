//! A network where it is computed: on the host by our kernels, on a GPU by ours or, where one is missing there, by candle. A
//! trainer sees no difference: parameters
//! in the order of their names, outputs on the host, and gradients in one flat buffer.

use super::TrainError;
use super::stepper::Stepper;
use crate::checkpoint;
use crate::collectives::{Collective, ReduceOp};
use crate::networks::{CandleNetwork, HostNetwork, Levels, Network, Noise, Pass};
use crate::optimizer::Moment;
use crate::parallel::{FlatGradients, HostFloat, Layout, weights};
use crate::seed::Streams;
use candle_core::{DType, Device, Tensor};
use foxlaunch_shared::ids::WorldSize;
use std::ops::Range;
use std::sync::Arc;

/// f32 or f64.
pub trait Float: Moment + HostFloat {}

impl<T: Moment + HostFloat> Float for T {}

/// A network with its parameters.
pub enum Model<T> {
    /// On the host.
    Host(HostNetwork<T>),
    /// On a device, by candle.
    Candle(CandleNetwork),
    /// On a device, by our kernels.
    #[cfg(feature = "cuda")]
    Device(Box<super::device_model::DeviceModel>),
}

/// What a model computed for one batch.
#[derive(Debug)]
pub enum ModelPass<T> {
    /// On the host.
    Host(Pass<T>),
    /// On a device: the outputs, with their graph, and what they and their gradients are on the host.
    Candle {
        /// The outputs.
        graph: Vec<Tensor>,
        /// Their values.
        outputs: Vec<Vec<T>>,
        /// Their gradients.
        gradients: Vec<Vec<T>>,
    },
}

impl<T: Float> ModelPass<T> {
    /// Output `i`, row-major.
    pub fn output(&self, i: usize) -> &[T] {
        match self {
            ModelPass::Host(pass) => pass.output(i),
            ModelPass::Candle { outputs, .. } => &outputs[i],
        }
    }

    /// Output `i` and room for its gradient, which [`Model::backward`] begins with. All outputs need theirs.
    pub fn output_and_gradient(&mut self, i: usize) -> (&[T], &mut [T]) {
        match self {
            ModelPass::Host(pass) => pass.output_and_gradient(i),
            ModelPass::Candle { outputs, gradients, .. } => (&outputs[i], &mut gradients[i]),
        }
    }
}

impl<T: Float> Model<T> {
    /// Fresh parameters on `device`, which `streams` decide.
    pub fn new(network: Arc<Network>, device: &Device, streams: &Streams) -> Result<Model<T>, TrainError> {
        Ok(match device {
            Device::Cpu => Model::Host(HostNetwork::new(network, streams)),
            _ => Model::Candle(CandleNetwork::new(network, T::DTYPE, device, streams)?),
        })
    }

    /// As [`Model::new`], for a network of action values, which `device_update` updates: on a GPU by our kernels.
    pub fn of_values(network: Arc<Network>, device: &Device, streams: &Streams) -> Result<Model<T>, TrainError> {
        #[cfg(feature = "cuda")]
        if device.is_cuda() && T::DTYPE == DType::F32 {
            return Ok(Model::Device(Box::new(super::device_model::DeviceModel::new(&network, device, streams)?)));
        }
        Model::new(network, device, streams)
    }

    /// The order of the parameters of `network`.
    pub fn layout(network: &Network) -> Layout {
        let named = network.parameters().iter().map(|p| (p.name.clone(), p.shape.clone(), T::DTYPE));
        Layout::from_named(named)
    }

    /// The list of operations.
    pub fn network(&self) -> &Network {
        match self {
            Model::Host(host) => host.network(),
            Model::Candle(candle) => candle.network(),
            #[cfg(feature = "cuda")]
            Model::Device(model) => model.network.network(),
        }
    }

    /// Room for what it computes.
    pub fn pass(&self) -> ModelPass<T> {
        match self {
            Model::Host(_) => ModelPass::Host(Pass::new()),
            _ => ModelPass::Candle { graph: Vec::new(), outputs: Vec::new(), gradients: Vec::new() },
        }
    }

    /// Sets the noise on noisy weights; `None` for the weights' means alone.
    pub fn set_noise(&mut self, noise: Option<Noise<T>>) -> Result<(), TrainError> {
        match self {
            Model::Host(host) => host.set_noise(noise),
            Model::Candle(candle) => candle.set_noise(noise.as_ref())?,
            #[cfg(feature = "cuda")]
            Model::Device(model) => model.set_noise(noise.as_ref())?,
        }
        Ok(())
    }

    /// Computes the outputs for `rows` row-major observations; with `learning` so that [`Model::backward`] can follow.
    pub fn forward(
        &mut self,
        pass: &mut ModelPass<T>,
        observations: &[f32],
        rows: usize,
        levels: Levels<'_, T>,
        learning: bool,
    ) -> Result<(), TrainError> {
        match (self, pass) {
            (Model::Host(host), ModelPass::Host(pass)) => host.forward(pass, observations, rows, levels),
            (Model::Candle(candle), ModelPass::Candle { graph, outputs, gradients }) => {
                let variable = &candle.variables()[0];
                let place = |t: Tensor| t.to_dtype(variable.dtype())?.to_device(variable.device());
                let width = observations.len() / rows.max(1);
                let x = place(Tensor::from_slice(observations, (rows, width), &Device::Cpu)?)?;
                let wide = |levels: &[T]| -> Vec<f64> { levels.iter().map(|x| x.wide()).collect() };
                let levels = match levels {
                    Levels::None => None,
                    Levels::Shared(levels) => Some(wide(levels).repeat(rows)),
                    Levels::Own(levels, _) => Some(wide(levels)),
                };
                let tensor = |values: Vec<f64>| {
                    let shape = (rows, values.len() / rows.max(1));
                    place(Tensor::from_vec(values, shape, &Device::Cpu)?)
                };
                let levels = levels.map(tensor).transpose()?;
                *graph = candle.forward(&x, levels.as_ref(), !learning)?;
                let host = |t: &Tensor| -> candle_core::Result<Vec<T>> {
                    let values = t.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
                    Ok(values.into_iter().map(T::of).collect())
                };
                *outputs = graph.iter().map(host).collect::<Result<_, _>>()?;
                *gradients = outputs.iter().map(|output| vec![T::ZERO; output.len()]).collect();
            }
            #[cfg(feature = "cuda")]
            (Model::Device(model), ModelPass::Candle { outputs, .. }) => {
                let values = model.forward(observations, rows, levels)?;
                *outputs = vec![values.into_iter().map(|x| T::of(f64::from(x))).collect()];
            }
            _ => return Err(elsewhere()),
        }
        Ok(())
    }

    /// The gradient by all parameters of what has the gradients that were written into `pass` by its outputs: into `into`,
    /// which are zero, or with `add` added to what is there.
    pub fn backward(
        &mut self,
        layout: &Layout,
        pass: &mut ModelPass<T>,
        into: &mut FlatGradients,
        add: bool,
    ) -> Result<(), TrainError> {
        match (self, pass) {
            (Model::Host(host), ModelPass::Host(pass)) => {
                host.backward(pass, into.host_mut::<T>().ok_or_else(elsewhere)?, add);
            }
            (Model::Candle(candle), ModelPass::Candle { graph, gradients, .. }) => {
                // The derivative of the sum of output times slope, slopes held fixed, is the loss's derivative: the loss
                // itself need not pass through the graph.
                let mut sum: Option<Tensor> = None;
                for (output, slope) in graph.iter().zip(gradients) {
                    let slope: Vec<f64> = slope.iter().map(|x| x.wide()).collect();
                    let slope = Tensor::from_vec(slope, output.shape(), &Device::Cpu)?.to_dtype(output.dtype())?;
                    let this = (output * slope.to_device(output.device())?)?.sum_all()?;
                    sum = Some(match sum {
                        Some(sum) => (sum + this)?,
                        None => this,
                    });
                }
                if let Some(sum) = sum {
                    into.add(layout, candle.parameters(), &sum.backward()?)?;
                }
            }
            _ => return Err(elsewhere()),
        }
        Ok(())
    }

    /// One step of `stepper` along `gradients` of norm `norm`, clipped to `max_norm` (0: not).
    pub fn step(
        &mut self,
        stepper: &mut Stepper,
        gradients: &mut FlatGradients,
        norm: f64,
        max_norm: f64,
    ) -> Result<(), TrainError> {
        match self {
            Model::Host(host) => stepper.step_flat(host.values_mut(), gradients, norm, max_norm),
            Model::Candle(candle) => stepper.step(candle.variables(), gradients, norm, max_norm),
            #[cfg(feature = "cuda")]
            Model::Device(_) => Err(elsewhere()), // its updates are steps themselves: `device_update`
        }
    }

    /// Moves the parameters the share `tau` of the way to those of `source`: p <- (1 - tau) p + tau p_source; 1 copies.
    pub fn follow(&mut self, source: &Model<T>, tau: f64) -> Result<(), TrainError> {
        match (self, source) {
            (Model::Host(mine), Model::Host(theirs)) => {
                let (keep, take) = (T::of(1.0 - tau), T::of(tau));
                let pairs = mine.values_mut().iter_mut().zip(theirs.values());
                pairs.for_each(|(p, q)| *p = if tau == 1.0 { *q } else { keep * *p + take * *q });
            }
            (Model::Candle(mine), Model::Candle(theirs)) => {
                for (mine, theirs) in mine.variables().iter().zip(theirs.variables()) {
                    if tau == 1.0 {
                        mine.set(&theirs.as_detached_tensor())?;
                    } else {
                        let kept = mine.as_detached_tensor().affine(1.0 - tau, 0.0)?;
                        mine.set(&(kept + theirs.as_detached_tensor().affine(tau, 0.0)?)?)?;
                    }
                }
            }
            #[cfg(feature = "cuda")]
            (Model::Device(mine), Model::Device(theirs)) => mine.follow(theirs, tau)?,
            _ => return Err(elsewhere()),
        }
        Ok(())
    }

    /// Replaces all ranks' parameters by their average.
    pub fn average(&mut self, layout: &Layout, collective: &mut dyn Collective) -> Result<(), TrainError> {
        if collective.world_size() == WorldSize(1) {
            return Ok(());
        }
        match self {
            Model::Host(host) => collective.all_reduce(T::buffer(host.values_mut()), ReduceOp::Avg)?,
            Model::Candle(candle) => weights::average(layout, candle.parameters(), collective)?,
            #[cfg(feature = "cuda")]
            Model::Device(model) => {
                collective
                    .all_reduce(crate::collectives::Buffer::CudaF32(model.network.values_mut()), ReduceOp::Avg)?;
            }
        }
        Ok(())
    }

    /// The parameters as the bytes of a safetensors file.
    pub fn bytes(&self, layout: &Layout) -> Result<Vec<u8>, TrainError> {
        Ok(match self {
            Model::Host(host) => checkpoint::flat_bytes(layout, host.values())?,
            Model::Candle(candle) => checkpoint::weights_bytes(layout, candle.parameters())?,
            #[cfg(feature = "cuda")]
            Model::Device(model) => checkpoint::flat_bytes(layout, &model.values()?)?,
        })
    }

    /// Sets the parameters from such bytes.
    pub fn load(&mut self, bytes: &[u8], layout: &Layout) -> Result<(), TrainError> {
        match self {
            Model::Host(host) => checkpoint::load_flat(bytes, layout, host.values_mut())?,
            Model::Candle(candle) => checkpoint::load_weights(bytes, layout, candle.parameters())?,
            #[cfg(feature = "cuda")]
            Model::Device(model) => {
                let mut values = vec![0f32; layout.total()];
                checkpoint::load_flat(bytes, layout, &mut values)?;
                model.set_values(&values)?;
            }
        }
        Ok(())
    }

    /// Adds `slope` to the gradient of the parameters at `place`, which no operation reads.
    pub fn add_slope(
        &self,
        layout: &Layout,
        place: Range<usize>,
        slope: &[T],
        into: &mut FlatGradients,
    ) -> Result<(), TrainError> {
        match self {
            Model::Host(_) => {
                let all = into.host_mut::<T>().ok_or_else(elsewhere)?;
                all[place].iter_mut().zip(slope).for_each(|(to, from)| *to += *from);
            }
            Model::Candle(candle) => {
                let at = layout.entries().iter().position(|e| e.offset == place.start).ok_or_else(elsewhere)?;
                let variable = &candle.variables()[at];
                let slope: Vec<f64> = slope.iter().map(|x| x.wide()).collect();
                let slope = Tensor::from_vec(slope, variable.shape(), &Device::Cpu)?.to_dtype(variable.dtype())?;
                let sum = (variable.as_tensor() * slope.to_device(variable.device())?)?.sum_all()?;
                into.add(layout, candle.parameters(), &sum.backward()?)?;
            }
            #[cfg(feature = "cuda")]
            Model::Device(_) => return Err(elsewhere()),
        }
        Ok(())
    }

    /// A copy of the parameters at `place`.
    pub fn part(&self, place: Range<usize>) -> Result<Vec<T>, TrainError> {
        match self {
            Model::Host(host) => Ok(host.values()[place].to_vec()),
            _ => Ok(self.values()?[place].to_vec()),
        }
    }

    /// Sets all parameters.
    pub fn set_values(&mut self, values: &[T]) -> Result<(), TrainError> {
        match self {
            Model::Host(host) => host.values_mut().copy_from_slice(values),
            Model::Candle(candle) => {
                let mut rest = values;
                for variable in candle.variables() {
                    let (these, others) = rest.split_at(variable.elem_count());
                    rest = others;
                    let these: Vec<f64> = these.iter().map(|x| x.wide()).collect();
                    let tensor = Tensor::from_vec(these, variable.shape(), &Device::Cpu)?.to_dtype(variable.dtype())?;
                    variable.set(&tensor.to_device(variable.device())?)?;
                }
            }
            #[cfg(feature = "cuda")]
            Model::Device(model) => {
                let values: Vec<f32> = values.iter().map(|x| x.wide() as f32).collect();
                model.set_values(&values)?;
            }
        }
        Ok(())
    }

    /// A copy of the parameters, flat.
    pub fn values(&self) -> Result<Vec<T>, TrainError> {
        match self {
            Model::Host(host) => Ok(host.values().to_vec()),
            Model::Candle(candle) => {
                let mut all = Vec::new();
                for var in candle.variables() {
                    all.extend(var.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?.into_iter().map(T::of));
                }
                Ok(all)
            }
            #[cfg(feature = "cuda")]
            Model::Device(model) => Ok(model.values()?.into_iter().map(|x| T::of(f64::from(x))).collect()),
        }
    }
}

fn elsewhere() -> TrainError {
    TrainError::Unsupported("a network and what it computed are not on one device".into())
}
