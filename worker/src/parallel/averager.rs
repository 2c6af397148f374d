//! The short way to data-parallel training: give it each step's gradients, step with what comes back.
//!
//! ```
//! use candle_core::{DType, Tensor};
//! use candle_nn::{AdamW, Module, Optimizer, ParamsAdamW, VarBuilder, VarMap};
//! use foxlaunch_worker::{parallel::GradientAverager, world::World};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut world = World::join()?;
//! let device = world.device().clone();
//! let vars = VarMap::new();
//! let model = candle_nn::linear(4, 1, VarBuilder::from_varmap(&vars, DType::F32, &device))?;
//! let mut averager = GradientAverager::new(&mut world, &vars)?;
//! let mut optimizer = AdamW::new(vars.all_vars(), ParamsAdamW::default())?;
//! for _step in 0..10 {
//!     let x = Tensor::randn(0f32, 1., (8, 4), &device)?; // this rank's rows
//!     let loss = (model.forward(&x)? - x.sum_keepdim(1)?)?.sqr()?.sum_all()?; // summed over them, not averaged
//!     let gradients = averager.averaged(&mut world, loss.backward()?, 8)?;
//!     optimizer.step(&gradients)?;
//! }
//! world.leave();
//! # Ok(())
//! # }
//! ```

use super::{FlatGradients, Layout, ParallelError, weights};
use crate::world::World;
use candle_core::DType;
use candle_core::backprop::GradStore;
use candle_nn::VarMap;

/// Averages the gradients of one model over the rows of all ranks.
pub struct GradientAverager {
    layout: Layout,
    vars: VarMap,
    gradients: FlatGradients,
}

impl GradientAverager {
    /// For the model in `vars`: makes sure that all ranks built the same one, and gives them rank 0's weights.
    pub fn new(world: &mut World, vars: &VarMap) -> Result<GradientAverager, ParallelError> {
        let layout = Layout::of(vars);
        layout.agree(world.collective())?;
        weights::broadcast(&layout, vars, world.collective())?;
        let wide = layout.entries().iter().any(|entry| entry.dtype == DType::F64);
        let dtype = if wide { DType::F64 } else { DType::F32 };
        let gradients = FlatGradients::zeros(&layout, 1, dtype, world.device())?;
        Ok(GradientAverager { layout, vars: vars.clone(), gradients })
    }

    /// The order of the model's variables.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The gradient of the mean loss over the rows of all ranks, from `grads`, the gradient of the loss *summed*
    /// over this rank's `rows`. Ranks may have different numbers of rows, and none at all.
    pub fn average(
        &mut self,
        world: &mut World,
        grads: &GradStore,
        rows: usize,
    ) -> Result<&FlatGradients, ParallelError> {
        self.gradients.clear()?;
        self.gradients.add(&self.layout, &self.vars, grads)?;
        self.gradients.set_extras(&[rows as f64])?;
        self.gradients.sum(world.collective())?;
        // divided once, by the rows of the whole world: a mean of means would weigh rows of small shards more
        let rows = self.gradients.extras()?[0];
        if rows > 0. {
            self.gradients.scale(1. / rows)?;
        }
        Ok(&self.gradients)
    }

    /// As [`GradientAverager::average`], with the result in the form that candle's optimisers take.
    pub fn averaged(
        &mut self,
        world: &mut World,
        mut grads: GradStore,
        rows: usize,
    ) -> Result<GradStore, ParallelError> {
        self.average(world, &grads, rows)?;
        self.gradients.store(&self.layout, &self.vars, &mut grads)?;
        Ok(grads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Tensor};

    #[test]
    fn alone_it_gives_the_gradient_of_the_mean() {
        let vars = VarMap::new();
        vars.get(3, "w", candle_nn::Init::Const(1.), DType::F32, &Device::Cpu).unwrap();
        let w = vars.data().lock().unwrap()["w"].clone();
        let mut world = World::join().unwrap();
        let mut averager = GradientAverager::new(&mut world, &vars).unwrap();
        let x = Tensor::new(&[[1f32, 2., 3.], [3., 4., 5.]], &Device::Cpu).unwrap();
        let loss = x.broadcast_mul(&w).unwrap().sum_all().unwrap();
        let grads = averager.averaged(&mut world, loss.backward().unwrap(), 2).unwrap();
        assert_eq!(grads.get(&w).unwrap().to_vec1::<f32>().unwrap(), [2., 3., 4.]);
        world.leave();
    }
}
