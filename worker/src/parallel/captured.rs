//! A whole training step of any candle model: loss, backward, average over all ranks, clip, AdamW. On a GPU it is
//! captured once as a CUDA graph, NCCL included, and then replayed by one launch.
//!
//! ```
//! use candle_core::{DType, Tensor};
//! use candle_nn::{Module, VarBuilder, VarMap};
//! use foxlaunch_worker::{optimizer::AdamWSettings, parallel::CapturedStep, world::World};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut world = World::join()?;
//! let device = world.device().clone();
//! let vars = VarMap::new();
//! let model = candle_nn::linear(4, 1, VarBuilder::from_varmap(&vars, DType::F32, &device))?;
//! let settings = AdamWSettings { learning_rate: 0.05, ..AdamWSettings::default() };
//! let mut trainer = CapturedStep::new(&mut world, &vars, settings)?;
//! for _step in 0..10 {
//!     let x = Tensor::randn(0f32, 1., (8, 4), &device)?; // this rank's rows
//!     // the loss is summed over them, not averaged
//!     trainer.step(&mut world, &[x], 8, |of| (model.forward(&of[0])? - of[0].sum_keepdim(1)?)?.sqr()?.sum_all())?;
//! }
//! let loss = trainer.last_loss()?; // the mean over the rows of all ranks
//! # assert!(loss.is_finite());
//! world.leave();
//! # Ok(())
//! # }
//! ```
//!
//! **What a graph asks for.** It repeats what was done while it was captured: the same shapes, the same branches, the
//! same constants. So whatever differs from step to step is an input; a closure that draws random numbers, counts, or
//! looks at a value is not for capture ([`CapturedStep::eager`] is for it). Inputs of another shape, such as a smaller
//! last batch, are taken without the graph, with the same result. [`CapturedStep::how`] says whether steps are captured,
//! and if not, why.

use super::{FlatGradients, Layout, ParallelError, weights};
use crate::optimizer::{AdamW, AdamWSettings, OptimizerError, clip_coefficient, global_norm};
use crate::world::World;
use candle_core::{DType, Tensor};
use candle_nn::VarMap;
use std::fmt;
use thiserror::Error;

/// Scalars that travel with the gradients: rows, and the sum of the loss over them.
const EXTRAS: usize = 2;

/// Why a step failed. Model and optimiser are as before it, unless another rank was lost in the middle of it.
#[derive(Debug, Error)]
pub enum StepError {
    /// The gradients could not be made, or not be averaged.
    #[error(transparent)]
    Parallel(#[from] ParallelError),
    /// The optimiser refused.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// The model's variables are not of 32 bits.
    #[error("variable {name:?} is {dtype:?}: a step keeps f32 variables, so cast inside the loss")]
    NotF32 {
        /// The variable.
        name: String,
        /// What it is.
        dtype: DType,
    },
    /// What the closure returned is no loss.
    #[error("the loss must be one f32 number, summed over this rank's rows; it is {dtype:?} of shape {shape:?}")]
    NotALoss {
        /// Its type.
        dtype: DType,
        /// Its shape.
        shape: Vec<usize>,
    },
}

impl From<candle_core::Error> for StepError {
    fn from(error: candle_core::Error) -> StepError {
        StepError::Parallel(error.into())
    }
}

impl From<crate::collectives::CollectiveError> for StepError {
    fn from(error: crate::collectives::CollectiveError) -> StepError {
        StepError::Parallel(error.into())
    }
}

/// How steps are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// Operation by operation, since the graph is captured only after a few steps.
    WarmingUp,
    /// By one launch of a graph.
    Captured,
    /// Operation by operation, for this reason.
    Eager(String),
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::WarmingUp => f.write_str("eager until the graph is captured"),
            How::Captured => f.write_str("captured"),
            How::Eager(why) => write!(f, "eager: {why}"),
        }
    }
}

/// Trains one model, step by step.
pub struct CapturedStep {
    layout: Layout,
    vars: VarMap,
    max_norm: f64,
    how: How,
    device: Place,
}

/// Where the step's state is.
enum Place {
    Host {
        gradients: FlatGradients,
        optimizer: AdamW,
    },
    #[cfg(feature = "cuda")]
    Cuda(Box<super::captured_cuda::DeviceStep>),
}

impl CapturedStep {
    /// For the model in `vars`, whose variables are f32: makes sure that all ranks built the same one, and gives them
    /// rank 0's weights.
    pub fn new(world: &mut World, vars: &VarMap, settings: AdamWSettings) -> Result<CapturedStep, StepError> {
        let layout = Layout::of(vars);
        if let Some(entry) = layout.entries().iter().find(|entry| entry.dtype != DType::F32) {
            return Err(StepError::NotF32 { name: entry.name.clone(), dtype: entry.dtype });
        }
        layout.agree(world.collective())?;
        weights::broadcast(&layout, vars, world.collective())?;
        let gradients = FlatGradients::zeros(&layout, EXTRAS, DType::F32, world.device())?;
        #[cfg(feature = "cuda")]
        if world.device().is_cuda() {
            let step = super::captured_cuda::DeviceStep::new(world, gradients, settings)?;
            let device = Place::Cuda(Box::new(step));
            return Ok(CapturedStep { layout, vars: vars.clone(), max_norm: 0.0, how: How::WarmingUp, device });
        }
        let optimizer = AdamW::f32(layout.total(), settings);
        let how = How::Eager("there are no graphs on the processor".into());
        Ok(CapturedStep {
            layout,
            vars: vars.clone(),
            max_norm: 0.0,
            how,
            device: Place::Host { gradients, optimizer },
        })
    }

    /// Clips the averaged gradient to this global norm (torch's `clip_grad_norm_`); 0 stands for no clip. Set before
    /// the first step.
    pub fn clip(mut self, max_norm: f64) -> CapturedStep {
        self.max_norm = max_norm;
        self
    }

    /// Never captures. All ranks must choose the same.
    pub fn eager(mut self) -> CapturedStep {
        if self.how == How::WarmingUp {
            self.how = How::Eager("it was asked for".into());
        }
        self
    }

    /// How steps are taken by now.
    pub fn how(&self) -> &How {
        &self.how
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        match &self.device {
            Place::Host { optimizer, .. } => optimizer.steps(),
            #[cfg(feature = "cuda")]
            Place::Cuda(step) => step.optimizer.steps(),
        }
    }

    /// Changes the learning rate from the next step on, captured or not.
    pub fn set_learning_rate(&mut self, learning_rate: f64) {
        match &mut self.device {
            Place::Host { optimizer, .. } => optimizer.settings.learning_rate = learning_rate,
            #[cfg(feature = "cuda")]
            Place::Cuda(step) => step.optimizer.settings.learning_rate = learning_rate,
        }
    }

    /// One step on this rank's `rows` rows, which are in `inputs`: `loss` gets the inputs on the world's device and
    /// gives the loss summed over the rows. The gradient is that of the mean over the rows of all ranks; ranks may
    /// have different numbers, and none at all. Once captured, `loss` is not called any more: see the module's page.
    /// On a GPU this returns when the step is enqueued.
    pub fn step(
        &mut self,
        world: &mut World,
        inputs: &[Tensor],
        rows: usize,
        loss: impl Fn(&[Tensor]) -> candle_core::Result<Tensor>,
    ) -> Result<(), StepError> {
        match &mut self.device {
            Place::Host { gradients, optimizer } => {
                let loss = checked(loss(inputs)?)?;
                gradients.clear()?;
                gradients.add(&self.layout, &self.vars, &loss.backward()?)?;
                gradients.set_extras(&[rows as f64, f64::from(loss.to_scalar::<f32>()?)])?;
                gradients.sum(world.collective())?;
                let rows = gradients.extras()?[0];
                if rows > 0. {
                    gradients.scale(1. / rows)?;
                }
                let flat = gradients.f32_mut().unwrap_or_default();
                let factor = clip_coefficient(global_norm(flat), self.max_norm) as f32;
                if factor != 1.0 {
                    flat.iter_mut().for_each(|x| *x *= factor);
                }
                Ok(optimizer.step(&self.layout.variables(&self.vars)?, flat)?)
            }
            #[cfg(feature = "cuda")]
            Place::Cuda(step) => {
                let model =
                    super::captured_cuda::Model { layout: &self.layout, vars: &self.vars, max_norm: self.max_norm };
                step.take(world, &model, inputs, rows, &loss, &mut self.how)
            }
        }
    }

    /// The mean loss of the last step over the rows of all ranks; not a number if nobody had rows. Waits for the
    /// device, so ask every hundred steps rather than at each.
    pub fn last_loss(&self) -> Result<f64, StepError> {
        let extras = match &self.device {
            Place::Host { gradients, .. } => gradients.extras()?,
            #[cfg(feature = "cuda")]
            Place::Cuda(step) => step.gradients.extras()?,
        };
        Ok(extras[1] / extras[0])
    }
}

/// A loss that can be stepped on.
pub(super) fn checked(loss: Tensor) -> Result<Tensor, StepError> {
    if loss.dtype() == DType::F32 && loss.elem_count() == 1 {
        return Ok(loss.flatten_all()?.squeeze(0)?);
    }
    Err(StepError::NotALoss { dtype: loss.dtype(), shape: loss.dims().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};
    use candle_nn::Init;

    fn model(dtype: DType) -> (VarMap, Var) {
        let vars = VarMap::new();
        vars.get(2, "w", Init::Const(1.), dtype, &Device::Cpu).unwrap();
        let w = vars.data().lock().unwrap()["w"].clone();
        (vars, w)
    }

    fn settings() -> AdamWSettings {
        AdamWSettings { learning_rate: 0.1, ..AdamWSettings::default() }
    }

    #[test]
    fn a_step_is_loss_backward_mean_clip_and_adamw() {
        let (vars, w) = model(DType::F32);
        let mut world = World::join().unwrap();
        let mut trainer = CapturedStep::new(&mut world, &vars, settings()).unwrap().clip(0.5);
        assert_eq!(trainer.how(), &How::Eager("there are no graphs on the processor".into()));
        let x = Tensor::new(&[[1f32, 2.], [3., 4.]], &Device::Cpu).unwrap();
        let summed = |of: &[Tensor]| of[0].broadcast_mul(&w)?.sqr()?.sum_all();
        trainer.step(&mut world, std::slice::from_ref(&x), 2, summed).unwrap();
        // gradient of the mean at w = 1: (1 + 9, 4 + 16); the loss is that of before the step
        assert_eq!(trainer.last_loss().unwrap(), 15.0);
        let (other, expected) = (Var::new(&[1f32, 1.], &Device::Cpu).unwrap(), [10f32, 20.]);
        let factor = (0.5 / (500f64.sqrt() + 1e-6)) as f32;
        let mut adam = AdamW::f32(2, settings());
        adam.step(std::slice::from_ref(&other), &expected.map(|g| g * factor)).unwrap();
        assert_eq!(w.to_vec1::<f32>().unwrap(), other.to_vec1::<f32>().unwrap());
        trainer.set_learning_rate(0.0);
        let before = w.to_vec1::<f32>().unwrap();
        trainer.step(&mut world, &[x], 2, summed).unwrap();
        assert_eq!((w.to_vec1::<f32>().unwrap(), trainer.steps()), (before, 2));
    }

    #[test]
    fn what_cannot_be_stepped_on_is_refused_and_changes_nothing() {
        let mut world = World::join().unwrap();
        let error = CapturedStep::new(&mut world, &model(DType::F64).0, settings()).err().unwrap().to_string();
        assert!(error.contains("\"w\" is F64"), "{error}");
        let (vars, w) = model(DType::F32);
        let mut trainer = CapturedStep::new(&mut world, &vars, settings()).unwrap();
        let error = trainer.step(&mut world, &[], 1, |_| w.sqr()).unwrap_err().to_string();
        assert!(error.contains("shape [2]"), "{error}");
        assert_eq!((trainer.steps(), w.to_vec1::<f32>().unwrap()), (0, vec![1.0, 1.0]));
    }
}
