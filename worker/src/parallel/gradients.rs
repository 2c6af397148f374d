//! One flat buffer for all gradients of a model, so that they travel in one all-reduce.
//!
//! Behind the gradients ride a few *extras*: scalars such as the loss sum and the row count, so that no second
//! message is needed. Gradients are sums over rows; they are divided once, by the row count of the whole world.

use super::{Entry, Layout, ParallelError};
use crate::collectives::{Buffer, Collective, ReduceOp, SharedF32};
use crate::kernels::{Scalar, widest};
use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use candle_nn::VarMap;

/// Where the numbers are.
#[derive(Debug)]
pub enum Values {
    /// Host memory, 32 bits; shared with the other ranks once they are summed, where the collective lends it.
    F32(SharedF32),
    /// Host memory, 64 bits.
    F64(Vec<f64>),
    /// Device memory, 32 bits.
    #[cfg(feature = "cuda")]
    CudaF32(cudarc::driver::CudaSlice<f32>),
}

/// A number type that gradients have in host memory.
pub trait HostFloat: Scalar {
    /// Its name for candle.
    const DTYPE: DType;

    /// All numbers, if they are of this type in host memory.
    fn of_values(values: &Values) -> Option<&[Self]>;

    /// All numbers, to be changed, if they are of this type in host memory.
    fn of_values_mut(values: &mut Values) -> Option<&mut [Self]>;

    /// A slice as a collective takes it.
    fn buffer(values: &mut [Self]) -> Buffer<'_>;
}

macro_rules! host_float {
    ($t:ty, $variant:ident) => {
        impl HostFloat for $t {
            const DTYPE: DType = DType::$variant;

            fn of_values(values: &Values) -> Option<&[Self]> {
                if let Values::$variant(values) = values { Some(values) } else { None }
            }

            fn of_values_mut(values: &mut Values) -> Option<&mut [Self]> {
                if let Values::$variant(values) = values { Some(values) } else { None }
            }

            fn buffer(values: &mut [Self]) -> Buffer<'_> {
                Buffer::$variant(values)
            }
        }
    };
}

host_float!(f32, F32);
host_float!(f64, F64);

/// All gradients of a model, in the order of its [`Layout`], followed by the extras.
#[derive(Debug)]
pub struct FlatGradients {
    values: Values,
    parameters: usize,
    extras: usize,
}

impl FlatGradients {
    /// A buffer of zeros for `layout` and `extras` scalars, kept in `dtype` (f32 or f64).
    pub fn zeros(
        layout: &Layout,
        extras: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<FlatGradients, ParallelError> {
        let (parameters, len) = (layout.total(), layout.total() + extras);
        let values = match (dtype, device) {
            #[cfg(feature = "cuda")]
            (DType::F32, Device::Cuda(cuda)) => Values::CudaF32(cuda.alloc_zeros(len)?),
            (DType::F32, _) => Values::F32(vec![0.; len].into()),
            (DType::F64, _) => Values::F64(vec![0.; len]),
            (other, _) => return Err(ParallelError::Unkept(other)),
        };
        Ok(FlatGradients { values, parameters, extras })
    }

    /// How many elements the gradients have, without extras.
    pub fn len(&self) -> usize {
        self.parameters
    }

    /// Whether the model has no parameters.
    pub fn is_empty(&self) -> bool {
        self.parameters == 0
    }

    /// The numbers: gradients, then extras.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The numbers, to be changed: gradients, then extras.
    pub fn values_mut(&mut self) -> &mut Values {
        &mut self.values
    }

    /// The gradients without extras, if they are f32 in host memory.
    pub fn f32(&self) -> Option<&[f32]> {
        match &self.values {
            Values::F32(values) => Some(&values[..self.parameters]),
            _ => None,
        }
    }

    /// The gradients without extras, to be changed, if they are f32 in host memory.
    pub fn f32_mut(&mut self) -> Option<&mut [f32]> {
        match &mut self.values {
            Values::F32(values) => Some(&mut values[..self.parameters]),
            _ => None,
        }
    }

    /// The gradients without extras, if they are f64 in host memory.
    pub fn f64(&self) -> Option<&[f64]> {
        match &self.values {
            Values::F64(values) => Some(&values[..self.parameters]),
            _ => None,
        }
    }

    /// The gradients without extras, to be changed, if they are f64 in host memory.
    pub fn f64_mut(&mut self) -> Option<&mut [f64]> {
        match &mut self.values {
            Values::F64(values) => Some(&mut values[..self.parameters]),
            _ => None,
        }
    }

    /// The gradients without extras, if they are of type `T` in host memory.
    pub fn host<T: HostFloat>(&self) -> Option<&[T]> {
        T::of_values(&self.values).map(|values| &values[..self.parameters])
    }

    /// The gradients without extras, to be changed, if they are of type `T` in host memory.
    pub fn host_mut<T: HostFloat>(&mut self) -> Option<&mut [T]> {
        let parameters = self.parameters;
        T::of_values_mut(&mut self.values).map(|values| &mut values[..parameters])
    }

    /// One variable's gradient, if it is f32 in host memory.
    pub fn view(&self, entry: &Entry) -> Option<&[f32]> {
        self.f32().and_then(|values| values.get(entry.offset..entry.offset + entry.len))
    }

    /// One variable's gradient, to be changed, if it is f32 in host memory.
    pub fn view_mut(&mut self, entry: &Entry) -> Option<&mut [f32]> {
        self.f32_mut().and_then(|values| values.get_mut(entry.offset..entry.offset + entry.len))
    }

    /// The extras. On a device this waits for it.
    pub fn extras(&self) -> Result<Vec<f64>, ParallelError> {
        Ok(match &self.values {
            Values::F32(values) => values[self.parameters..].iter().map(|x| f64::from(*x)).collect(),
            Values::F64(values) => values[self.parameters..].to_vec(),
            #[cfg(feature = "cuda")]
            Values::CudaF32(values) => {
                let tail = values.slice(self.parameters..);
                let host = values.stream().clone_dtoh(&tail).map_err(candle_core::Error::wrap)?;
                host.into_iter().map(f64::from).collect()
            }
        })
    }

    /// Sets the extras, all of them.
    pub fn set_extras(&mut self, extras: &[f64]) -> Result<(), ParallelError> {
        if extras.len() != self.extras {
            let (given, there) = (extras.len(), self.extras);
            return Err(ParallelError::Unlike(format!("{given} extras given to a buffer with {there}")));
        }
        match &mut self.values {
            Values::F32(values) => {
                values[self.parameters..].iter_mut().zip(extras).for_each(|(to, from)| *to = *from as f32);
            }
            Values::F64(values) => values[self.parameters..].copy_from_slice(extras),
            #[cfg(feature = "cuda")]
            Values::CudaF32(values) => {
                let host: Vec<f32> = extras.iter().map(|x| *x as f32).collect();
                let stream = values.stream().clone();
                let mut tail = values.slice_mut(self.parameters..);
                stream.memcpy_htod(&host, &mut tail).map_err(candle_core::Error::wrap)?;
            }
        }
        Ok(())
    }

    /// Sets everything to zero.
    pub fn clear(&mut self) -> Result<(), ParallelError> {
        match &mut self.values {
            Values::F32(values) => values.fill(0.),
            Values::F64(values) => values.fill(0.),
            #[cfg(feature = "cuda")]
            Values::CudaF32(values) => {
                let stream = values.stream().clone();
                stream.memset_zeros(values).map_err(candle_core::Error::wrap)?;
            }
        }
        Ok(())
    }

    /// Adds the gradients of `vars` that `grads` holds. A variable without one counts as zeros: it is not in the
    /// graph of this loss, on this rank, in this step.
    pub fn add(&mut self, layout: &Layout, vars: &VarMap, grads: &GradStore) -> Result<(), ParallelError> {
        if layout.total() != self.parameters {
            let (given, there) = (layout.total(), self.parameters);
            return Err(ParallelError::Unlike(format!("a layout of {given} elements for a buffer of {there}")));
        }
        // The store also holds gradients of constants and inputs, so it is asked for our variables, in our order.
        for (var, entry) in layout.variables(vars)?.iter().zip(layout.entries()) {
            if let Some(gradient) = grads.get(var) {
                self.add_one(entry, gradient)?;
            }
        }
        Ok(())
    }

    fn add_one(&mut self, entry: &Entry, gradient: &Tensor) -> Result<(), ParallelError> {
        if gradient.elem_count() != entry.len {
            let why = format!("its gradient has {} elements instead of {}", gradient.elem_count(), entry.len);
            return Err(ParallelError::Variable { name: entry.name.clone(), why });
        }
        let place = entry.offset..entry.offset + entry.len;
        match &mut self.values {
            Values::F32(values) => on_host(gradient, |source| match source {
                HostSlice::F32(from) => add_into(&mut values[place], from, |x| x),
                HostSlice::F64(from) => add_into(&mut values[place], from, |x| x as f32),
            }),
            Values::F64(values) => on_host(gradient, |source| match source {
                HostSlice::F32(from) => add_into(&mut values[place], from, f64::from),
                HostSlice::F64(from) => add_into(&mut values[place], from, |x| x),
            }),
            #[cfg(feature = "cuda")]
            Values::CudaF32(values) => super::gradients_cuda::add(values, place, gradient),
        }
    }

    /// Puts the gradients into `grads`, as candle's optimisers take them.
    pub fn store(&self, layout: &Layout, vars: &VarMap, grads: &mut GradStore) -> Result<(), ParallelError> {
        for (var, entry) in layout.variables(vars)?.iter().zip(layout.entries()) {
            let place = entry.offset..entry.offset + entry.len;
            let (shape, device) = (entry.shape.as_slice(), var.device());
            let gradient = match &self.values {
                Values::F32(values) => Tensor::from_slice(&values[place], shape, device)?,
                Values::F64(values) => Tensor::from_slice(&values[place], shape, device)?,
                #[cfg(feature = "cuda")]
                Values::CudaF32(values) => super::gradients_cuda::tensor(values, place, shape, device)?,
            };
            grads.insert(var, gradient.to_dtype(entry.dtype)?);
        }
        Ok(())
    }

    /// Multiplies the gradients by `factor`, and leaves the extras.
    pub fn scale(&mut self, factor: f64) -> Result<(), ParallelError> {
        match &mut self.values {
            Values::F32(values) => {
                let factor = factor as f32;
                let values = &mut values[..self.parameters];
                widest(|| values.iter_mut().for_each(|x| *x *= factor));
            }
            Values::F64(values) => values[..self.parameters].iter_mut().for_each(|x| *x *= factor),
            #[cfg(feature = "cuda")]
            Values::CudaF32(values) => super::gradients_cuda::scale(values, self.parameters, factor as f32)?,
        }
        Ok(())
    }

    /// Adds all ranks' buffers, gradients and extras, in rank order. Every rank gets the sum. The first time, the
    /// buffer moves into shared memory where the collective lends some, so that no later sum copies it.
    pub fn sum(&mut self, collective: &mut dyn Collective) -> Result<(), ParallelError> {
        let Values::F32(values) = &mut self.values else {
            return Ok(collective.all_reduce(self.buffer(), ReduceOp::Sum)?);
        };
        if !values.is_shared()
            && let Some(mut shared) = collective.shared(values.len())
        {
            shared.copy_from_slice(values);
            *values = shared;
        }
        Ok(collective.all_reduce_shared(values, ReduceOp::Sum)?)
    }

    /// Gradients and extras as a collective takes them.
    pub fn buffer(&mut self) -> Buffer<'_> {
        match &mut self.values {
            Values::F32(values) => Buffer::F32(values),
            Values::F64(values) => Buffer::F64(values),
            #[cfg(feature = "cuda")]
            Values::CudaF32(values) => Buffer::CudaF32(values),
        }
    }

    /// Makes this a copy of `other`, which must be of the same kind and size.
    pub fn copy_from(&mut self, other: &FlatGradients) -> Result<(), ParallelError> {
        match (&mut self.values, &other.values) {
            (Values::F32(to), Values::F32(from)) if to.len() == from.len() => to.copy_from_slice(from),
            (Values::F64(to), Values::F64(from)) if to.len() == from.len() => to.copy_from_slice(from),
            #[cfg(feature = "cuda")]
            (Values::CudaF32(to), Values::CudaF32(from)) if to.len() == from.len() => {
                let stream = to.stream().clone();
                stream.memcpy_dtod(from, to).map_err(candle_core::Error::wrap)?;
            }
            _ => return Err(ParallelError::Unlike("gradient buffers of different kinds or sizes".into())),
        }
        Ok(())
    }
}

/// A tensor's elements in host memory, in order.
enum HostSlice<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
}

/// Calls `f` with the elements of `tensor`, without a copy where they lie in order already.
fn on_host(tensor: &Tensor, f: impl FnOnce(HostSlice<'_>)) -> Result<(), ParallelError> {
    let tensor = match tensor.dtype() {
        DType::F32 | DType::F64 => tensor.clone(),
        _ => tensor.to_dtype(DType::F32)?,
    };
    let tensor = tensor.to_device(&Device::Cpu)?.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let (from, len) = (layout.start_offset(), tensor.elem_count());
    match &*storage {
        Storage::Cpu(CpuStorage::F32(values)) => f(HostSlice::F32(&values[from..from + len])),
        Storage::Cpu(CpuStorage::F64(values)) => f(HostSlice::F64(&values[from..from + len])),
        _ => return Err(ParallelError::Unkept(tensor.dtype())),
    }
    Ok(())
}

fn add_into<T: Copy + std::ops::AddAssign, S: Copy>(to: &mut [T], from: &[S], convert: impl Fn(S) -> T) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += convert(*from));
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Var;

    fn model() -> (VarMap, Var, Var) {
        let vars = VarMap::new();
        let get = |name: &str, shape: (usize, usize)| {
            vars.get(shape, name, candle_nn::Init::Const(2.), DType::F32, &Device::Cpu).unwrap();
            vars.data().lock().unwrap()[name].clone()
        };
        let (w, unused) = (get("w", (2, 2)), get("a.unused", (1, 3)));
        (vars, w, unused)
    }

    #[test]
    fn gradients_lie_in_name_order_and_missing_ones_are_zeros() {
        let (vars, w, _) = model();
        let layout = Layout::of(&vars);
        let x = Tensor::new(&[[1f32, 2.], [3., 4.]], &Device::Cpu).unwrap();
        // transposed, so that the gradient does not lie in order
        let loss = w.t().unwrap().mul(&x).unwrap().sum_all().unwrap();
        let grads = loss.backward().unwrap();
        for dtype in [DType::F32, DType::F64] {
            let mut flat = FlatGradients::zeros(&layout, 2, dtype, &Device::Cpu).unwrap();
            flat.set_extras(&[7., 8.]).unwrap();
            flat.add(&layout, &vars, &grads).unwrap();
            flat.add(&layout, &vars, &grads).unwrap();
            flat.scale(0.5).unwrap();
            assert_eq!(flat.extras().unwrap(), [7., 8.]);
            let expected = [0., 0., 0., 1., 3., 2., 4.];
            match flat.values() {
                Values::F32(values) => assert_eq!(values[..7], expected.map(|x| x as f32)),
                Values::F64(values) => assert_eq!(values[..7], expected),
                #[cfg(feature = "cuda")]
                Values::CudaF32(_) => panic!("on the host"),
            }
            flat.clear().unwrap();
            assert_eq!(flat.extras().unwrap(), [0., 0.]);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (vars, w, _) = model();
        let layout = Layout::of(&vars);
        let other = Layout::of(&VarMap::new());
        let grads = w.sum_all().unwrap().backward().unwrap();
        assert!(FlatGradients::zeros(&layout, 0, DType::BF16, &Device::Cpu).is_err());
        let mut small = FlatGradients::zeros(&other, 1, DType::F32, &Device::Cpu).unwrap();
        assert!(small.add(&layout, &vars, &grads).is_err());
        assert!(small.set_extras(&[]).is_err());
        let mut flat = FlatGradients::zeros(&layout, 0, DType::F32, &Device::Cpu).unwrap();
        let error = flat.add(&layout, &VarMap::new(), &grads).unwrap_err().to_string();
        assert!(error.contains("a.unused"), "{error}");
    }
}
