//! AdamW (Loshchilov and Hutter 2019) with torch's semantics: decoupled decay, epsilon outside the corrected root.
//!
//! For a gradient g at step t:
//!
//! ```text
//! p <- p (1 - lr wd)
//! m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g g
//! p <- p - lr / (1 - b1^t) · m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//! ```
//!
//! The moments are flat, in layout order, so a checkpoint holds them as two tensors and local SGD averages them
//! in one call.

use super::Scalar;
use crate::kernels::widest;
use candle_core::{CpuStorage, InplaceOp1, Layout, Var};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use thiserror::Error;

/// What the optimiser is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamWSettings {
    /// Step size.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}

impl Default for AdamWSettings {
    /// What PyTorch's AdamW has: step size 0.001, betas 0.9 and 0.999, eps 1e-8, weight decay 0.01.
    fn default() -> AdamWSettings {
        AdamWSettings { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 }
    }
}

impl AdamWSettings {
    /// The settings of `[optimizer]` with a step size.
    pub fn new(learning_rate: f64, config: &foxlaunch_shared::config::OptimizerConfig) -> AdamWSettings {
        AdamWSettings {
            learning_rate,
            beta1: config.beta1,
            beta2: config.beta2,
            eps: config.eps,
            weight_decay: config.weight_decay,
        }
    }
}

/// Why a step was refused.
#[derive(Debug, Error)]
pub enum OptimizerError {
    /// Variables, gradient and moments do not belong together.
    #[error(
        "the optimiser holds {moments} values, the gradient {gradient}, the variables {variables}: all must be of one layout"
    )]
    Size {
        /// Values in each moment.
        moments: usize,
        /// Values in the gradient.
        gradient: usize,
        /// Values in the variables.
        variables: usize,
    },
    /// The gradient's number type is not the moments'.
    #[error("the gradient is {gradient}, the optimiser's state {state}")]
    Type {
        /// The gradient's type.
        gradient: &'static str,
        /// The state's type.
        state: &'static str,
    },
    /// candle failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// Both moments, in layout order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Moments {
    /// For 32-bit variables.
    F32 {
        /// First moment.
        m: Vec<f32>,
        /// Second moment.
        v: Vec<f32>,
    },
    /// For 64-bit variables.
    F64 {
        /// First moment.
        m: Vec<f64>,
        /// Second moment.
        v: Vec<f64>,
    },
}

/// The optimiser with its state.
#[derive(Clone, Debug)]
pub struct AdamW {
    /// What it is set to; the step size may change from step to step.
    pub settings: AdamWSettings,
    moments: Moments,
    steps: u64,
}

/// A host number type that [`AdamW`] keeps moments in.
pub trait Moment: Scalar {
    /// Its name.
    const NAME: &'static str;

    /// The moments, if they are of this type.
    fn of_moments(moments: &mut Moments) -> Option<(&mut [Self], &mut [Self])>;

    /// The values of `storage`, if they are of this type.
    fn of_storage(storage: &mut CpuStorage) -> Option<&mut [Self]>;
}

macro_rules! moment {
    ($t:ty, $variant:ident, $name:literal) => {
        impl Moment for $t {
            const NAME: &'static str = $name;

            fn of_moments(moments: &mut Moments) -> Option<(&mut [Self], &mut [Self])> {
                match moments {
                    Moments::$variant { m, v } => Some((m, v)),
                    _ => None,
                }
            }

            fn of_storage(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                match storage {
                    CpuStorage::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    };
}

moment!(f32, F32, "f32");
moment!(f64, F64, "f64");

impl AdamW {
    /// A fresh optimiser for `len` 32-bit values.
    pub fn f32(len: usize, settings: AdamWSettings) -> AdamW {
        AdamW { settings, moments: Moments::F32 { m: vec![0.0; len], v: vec![0.0; len] }, steps: 0 }
    }

    /// A fresh optimiser for `len` 64-bit values.
    pub fn f64(len: usize, settings: AdamWSettings) -> AdamW {
        AdamW { settings, moments: Moments::F64 { m: vec![0.0; len], v: vec![0.0; len] }, steps: 0 }
    }

    /// An optimiser that goes on from a saved state.
    pub fn resume(settings: AdamWSettings, moments: Moments, steps: u64) -> AdamW {
        AdamW { settings, moments, steps }
    }

    /// Both moments.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Both moments, to average them over ranks.
    pub fn moments_mut(&mut self) -> &mut Moments {
        &mut self.moments
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// One step of all `variables`, which stand in layout order, along the flat `gradient`. In place, without
    /// allocation.
    pub fn step<T: Moment>(&mut self, variables: &[Var], gradient: &[T]) -> Result<(), OptimizerError> {
        let state = match &self.moments {
            Moments::F32 { .. } => f32::NAME,
            Moments::F64 { .. } => f64::NAME,
        };
        let (m, v) = T::of_moments(&mut self.moments).ok_or(OptimizerError::Type { gradient: T::NAME, state })?;
        let len: usize = variables.iter().map(|var| var.elem_count()).sum();
        if m.len() != gradient.len() || len != gradient.len() {
            return Err(OptimizerError::Size { moments: m.len(), gradient: gradient.len(), variables: len });
        }
        self.steps += 1;
        let rates = Rates::at(&self.settings, self.steps);
        let (mut m, mut v, mut gradient) = (m, v, gradient);
        for variable in variables {
            let n = variable.elem_count();
            let (this_m, rest_m) = m.split_at_mut(n);
            let (this_v, rest_v) = v.split_at_mut(n);
            let (this_g, rest_g) = gradient.split_at(n);
            (m, v, gradient) = (rest_m, rest_v, rest_g);
            variable.inplace_op1(&Step { rates: &rates, gradient: this_g, moments: RefCell::new((this_m, this_v)) })?;
        }
        Ok(())
    }
}

impl AdamW {
    /// One step of `values`, a flat buffer in layout order, along `gradient`. In place, without allocation.
    pub fn step_flat<T: Moment>(&mut self, values: &mut [T], gradient: &[T]) -> Result<(), OptimizerError> {
        let state = match &self.moments {
            Moments::F32 { .. } => f32::NAME,
            Moments::F64 { .. } => f64::NAME,
        };
        let (m, v) = T::of_moments(&mut self.moments).ok_or(OptimizerError::Type { gradient: T::NAME, state })?;
        if m.len() != gradient.len() || values.len() != gradient.len() {
            let (moments, variables) = (m.len(), values.len());
            return Err(OptimizerError::Size { moments, gradient: gradient.len(), variables });
        }
        self.steps += 1;
        update(values, gradient, m, v, &Rates::at(&self.settings, self.steps));
        Ok(())
    }
}

/// The factors of one step, rounded once.
struct Rates<T> {
    decay: T,
    beta1: T,
    one_minus_beta1: T,
    beta2: T,
    one_minus_beta2: T,
    rate: T,
    root_scale: T,
    eps: T,
}

impl<T: Scalar> Rates<T> {
    fn at(s: &AdamWSettings, step: u64) -> Rates<T> {
        let power = i32::try_from(step).unwrap_or(i32::MAX);
        Rates {
            decay: T::of(1.0 - s.learning_rate * s.weight_decay),
            beta1: T::of(s.beta1),
            one_minus_beta1: T::of(1.0 - s.beta1),
            beta2: T::of(s.beta2),
            one_minus_beta2: T::of(1.0 - s.beta2),
            rate: T::of(s.learning_rate / (1.0 - s.beta1.powi(power))),
            root_scale: T::of((1.0 - s.beta2.powi(power)).sqrt()),
            eps: T::of(s.eps),
        }
    }
}

/// The step of one variable, as an operation on its storage.
struct Step<'a, T> {
    rates: &'a Rates<T>,
    gradient: &'a [T],
    // candle hands an operation out as `&self`, though it runs it once
    moments: RefCell<(&'a mut [T], &'a mut [T])>,
}

impl<T: Moment> InplaceOp1 for Step<'_, T> {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            candle_core::bail!("AdamW needs contiguous variables, not {layout:?}")
        };
        let Some(values) = T::of_storage(storage) else {
            candle_core::bail!("AdamW was given {} gradients for a variable of another type", T::NAME)
        };
        let mut moments = self.moments.borrow_mut();
        let (m, v) = &mut *moments;
        update(&mut values[start..end], self.gradient, m, v, self.rates);
        Ok(())
    }
}

/// One step over equally long slices. Element by element, so the compiler may widen it without changing a bit.
fn update<T: Scalar>(p: &mut [T], g: &[T], m: &mut [T], v: &mut [T], r: &Rates<T>) {
    widest(|| {
        for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
            *m = r.beta1 * *m + r.one_minus_beta1 * *g;
            *v = r.beta2 * *v + r.one_minus_beta2 * (*g * *g);
            *p = *p * r.decay - r.rate * *m / (v.root() / r.root_scale + r.eps);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{cases, close, numbers};
    use candle_core::Device;

    fn settings(input: &serde_json::Value) -> AdamWSettings {
        let x = |key: &str| input[key].as_f64().unwrap();
        AdamWSettings {
            learning_rate: x("lr"),
            beta1: x("beta1"),
            beta2: x("beta2"),
            eps: x("eps"),
            weight_decay: x("weight_decay"),
        }
    }

    #[test]
    fn every_step_equals_torch_in_64_and_32_bits() {
        let mut seen = 0;
        for case in cases("adamw_step") {
            let input = &case["input"];
            let start = numbers(&input["param"]);
            let narrow: Vec<f32> = start.iter().map(|x| *x as f32).collect();
            let wide = Var::from_vec(start.clone(), start.len(), &Device::Cpu).unwrap();
            let narrow = Var::from_vec(narrow, start.len(), &Device::Cpu).unwrap();
            let mut adam64 = AdamW::f64(start.len(), settings(input));
            let mut adam32 = AdamW::f32(start.len(), settings(input));
            let trace = case["output"]["trace"].as_array().unwrap();
            for (gradient, expected) in input["grads"].as_array().unwrap().iter().zip(trace) {
                let gradient = numbers(gradient);
                adam64.step(std::slice::from_ref(&wide), &gradient).unwrap();
                let gradient: Vec<f32> = gradient.iter().map(|g| *g as f32).collect();
                adam32.step(std::slice::from_ref(&narrow), &gradient).unwrap();
                let param = numbers(&expected["param"]);
                close(&wide.to_vec1::<f64>().unwrap(), &param, 1e-9);
                let narrow: Vec<f64> = narrow.to_vec1::<f32>().unwrap().iter().map(|x| f64::from(*x)).collect();
                close(&narrow, &param, 2e-5);
                let Moments::F64 { m, v } = adam64.moments() else { panic!("64-bit moments") };
                close(m, &numbers(&expected["exp_avg"]), 1e-9);
                close(v, &numbers(&expected["exp_avg_sq"]), 1e-9);
            }
            seen += 1;
        }
        assert_eq!(seen, 6);
    }

    #[test]
    fn several_variables_take_their_own_parts_of_the_gradient() {
        let s = AdamWSettings { learning_rate: 0.1, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
        let whole = Var::from_vec(vec![1f32, 2., 3., 4., 5., 6.], 6, &Device::Cpu).unwrap();
        let parts = [
            Var::from_vec(vec![1f32, 2., 3., 4.], (2, 2), &Device::Cpu).unwrap(),
            Var::from_vec(vec![5f32, 6.], 2, &Device::Cpu).unwrap(),
        ];
        let (mut one, mut two, mut three) = (AdamW::f32(6, s.clone()), AdamW::f32(6, s.clone()), AdamW::f32(6, s));
        let mut flat = [1f32, 2., 3., 4., 5., 6.];
        for k in 0..3 {
            let g: Vec<f32> = (0..6).map(|i| (i * 7 + k) as f32 - 10.0).collect();
            one.step(std::slice::from_ref(&whole), &g).unwrap();
            two.step(&parts, &g).unwrap();
            three.step_flat(&mut flat, &g).unwrap();
        }
        let mut joined = parts[0].flatten_all().unwrap().to_vec1::<f32>().unwrap();
        joined.extend(parts[1].to_vec1::<f32>().unwrap());
        assert_eq!(whole.to_vec1::<f32>().unwrap(), joined);
        assert_eq!(flat[..], joined);
        assert_eq!(one.moments(), two.moments());
        assert_eq!(one.moments(), three.moments());
    }

    #[test]
    fn a_wrong_size_or_type_is_refused_before_anything_changes() {
        let s = AdamWSettings { learning_rate: 0.1, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
        let variable = [Var::from_vec(vec![1f32, 2.], 2, &Device::Cpu).unwrap()];
        let mut adam = AdamW::f32(2, s);
        assert!(matches!(adam.step(&variable, &[1f32]), Err(OptimizerError::Size { .. })));
        assert!(matches!(adam.step(&variable, &[1f64, 1.]), Err(OptimizerError::Type { .. })));
        assert_eq!(adam.steps(), 0);
        assert_eq!(variable[0].to_vec1::<f32>().unwrap(), [1.0, 2.0]);
    }
}
