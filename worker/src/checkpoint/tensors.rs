//! Weights and moments as safetensors: sorted by name, without metadata, so equal weights are equal bytes.

use super::CheckpointError;
use crate::optimizer::Moments;
use crate::parallel::{HostFloat, Layout};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarMap;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};

/// The variables of `vars` in the order of `layout`.
pub fn weights_bytes(layout: &Layout, vars: &VarMap) -> Result<Vec<u8>, CheckpointError> {
    let data = vars.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut tensors = Vec::new();
    for entry in layout.entries() {
        let var = data.get(&entry.name).ok_or_else(|| CheckpointError::form(&entry.name, "no such variable"))?;
        let bytes = to_bytes(var.as_tensor()).map_err(|e| CheckpointError::form(&entry.name, e))?;
        tensors.push((entry.name.as_str(), dtype_of(&entry.name, entry.dtype)?, entry.shape.clone(), bytes));
    }
    pack(&tensors)
}

/// Sets the variables of `vars` from bytes that [`weights_bytes`] wrote for the same layout. Nothing is set unless
/// all fit.
pub fn load_weights(bytes: &[u8], layout: &Layout, vars: &VarMap) -> Result<(), CheckpointError> {
    let read = SafeTensors::deserialize(bytes).map_err(|e| CheckpointError::form("weights", e))?;
    if read.len() != layout.entries().len() {
        let reason = format!("{} tensors for a network of {}", read.len(), layout.entries().len());
        return Err(CheckpointError::form("weights", reason));
    }
    let data = vars.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut ready = Vec::new();
    for entry in layout.entries() {
        let wrong = |reason: String| CheckpointError::form(&format!("weights of {}", entry.name), reason);
        let view = read.tensor(&entry.name).map_err(|e| wrong(e.to_string()))?;
        if view.shape() != entry.shape || view.dtype() != dtype_of(&entry.name, entry.dtype)? {
            let (shape, dtype) = (view.shape(), view.dtype());
            return Err(wrong(format!("{dtype:?} of shape {shape:?} for {:?} of {:?}", entry.dtype, entry.shape)));
        }
        let var = data.get(&entry.name).ok_or_else(|| wrong("no such variable".to_owned()))?;
        let tensor = Tensor::from_raw_buffer(view.data(), entry.dtype, &entry.shape, var.device());
        ready.push((var.clone(), tensor.map_err(|e| wrong(e.to_string()))?));
    }
    for (var, tensor) in ready {
        var.set(&tensor).map_err(|e| CheckpointError::form("weights", e))?;
    }
    Ok(())
}

/// The flat parameters `values` in the order of `layout`.
pub fn flat_bytes<T: HostFloat>(layout: &Layout, values: &[T]) -> Result<Vec<u8>, CheckpointError> {
    if values.len() != layout.total() {
        let reason = format!("{} values for a layout of {}", values.len(), layout.total());
        return Err(CheckpointError::form("weights", reason));
    }
    let mut tensors = Vec::new();
    for entry in layout.entries() {
        let values = &values[entry.offset..entry.offset + entry.len];
        let bytes = match T::DTYPE {
            DType::F32 => le(values, |x| (x.wide() as f32).to_le_bytes()),
            _ => le(values, |x| x.wide().to_le_bytes()),
        };
        tensors.push((entry.name.as_str(), dtype_of(&entry.name, T::DTYPE)?, entry.shape.clone(), bytes));
    }
    pack(&tensors)
}

/// Sets flat parameters from bytes that [`flat_bytes`] wrote for the same layout. Nothing is set unless all fit.
pub fn load_flat<T: HostFloat>(bytes: &[u8], layout: &Layout, values: &mut [T]) -> Result<(), CheckpointError> {
    if values.len() != layout.total() {
        let reason = format!("{} values for a layout of {}", values.len(), layout.total());
        return Err(CheckpointError::form("weights", reason));
    }
    let read = SafeTensors::deserialize(bytes).map_err(|e| CheckpointError::form("weights", e))?;
    if read.len() != layout.entries().len() {
        let reason = format!("{} tensors for a network of {}", read.len(), layout.entries().len());
        return Err(CheckpointError::form("weights", reason));
    }
    let mut ready = Vec::with_capacity(values.len());
    for entry in layout.entries() {
        let wrong = |reason: String| CheckpointError::form(&format!("weights of {}", entry.name), reason);
        let view = read.tensor(&entry.name).map_err(|e| wrong(e.to_string()))?;
        if view.shape() != entry.shape || view.dtype() != dtype_of(&entry.name, T::DTYPE)? {
            let (shape, dtype) = (view.shape(), view.dtype());
            return Err(wrong(format!("{dtype:?} of shape {shape:?} for {:?} of {:?}", T::DTYPE, entry.shape)));
        }
        match T::DTYPE {
            DType::F32 => ready.extend(view.data().as_chunks().0.iter().map(|b| T::of(f32::from_le_bytes(*b).into()))),
            _ => ready.extend(view.data().as_chunks().0.iter().map(|b| T::of(f64::from_le_bytes(*b)))),
        }
    }
    values.copy_from_slice(&ready);
    Ok(())
}

/// The optimiser's moments: `exp_avg` and `exp_avg_sq`, flat in layout order.
pub fn moments_bytes(moments: &Moments) -> Result<Vec<u8>, CheckpointError> {
    let (dtype, len, m, v) = match moments {
        Moments::F32 { m, v } => (Dtype::F32, m.len(), le(m, |x| x.to_le_bytes()), le(v, |x| x.to_le_bytes())),
        Moments::F64 { m, v } => (Dtype::F64, m.len(), le(m, |x| x.to_le_bytes()), le(v, |x| x.to_le_bytes())),
    };
    pack(&[("exp_avg", dtype, vec![len], m), ("exp_avg_sq", dtype, vec![len], v)])
}

/// The moments that [`moments_bytes`] wrote, for a network of `len` parameters.
pub fn moments(bytes: &[u8], len: usize) -> Result<Moments, CheckpointError> {
    let what = "moments of the optimiser";
    let read = SafeTensors::deserialize(bytes).map_err(|e| CheckpointError::form(what, e))?;
    let part = |name: &str| {
        let view = read.tensor(name).map_err(|e| CheckpointError::form(what, e))?;
        if view.shape() != [len] {
            let reason = format!("{name} has shape {:?} for {len} parameters", view.shape());
            return Err(CheckpointError::form(what, reason));
        }
        Ok((view.dtype(), view.data().to_vec()))
    };
    match (part("exp_avg")?, part("exp_avg_sq")?) {
        ((Dtype::F32, m), (Dtype::F32, v)) => {
            let values = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            Ok(Moments::F32 { m: values(&m), v: values(&v) })
        }
        ((Dtype::F64, m), (Dtype::F64, v)) => {
            let values = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
            Ok(Moments::F64 { m: values(&m), v: values(&v) })
        }
        ((m, _), (v, _)) => Err(CheckpointError::form(what, format!("{m:?} and {v:?} instead of F32 or F64"))),
    }
}

fn le<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|x| bytes(*x)).collect()
}

fn to_bytes(tensor: &Tensor) -> candle_core::Result<Vec<u8>> {
    let flat = tensor.to_device(&Device::Cpu)?.flatten_all()?;
    match tensor.dtype() {
        DType::F32 => Ok(le(&flat.to_vec1::<f32>()?, f32::to_le_bytes)),
        DType::F64 => Ok(le(&flat.to_vec1::<f64>()?, f64::to_le_bytes)),
        other => candle_core::bail!("weights are saved as f32 or f64, not {other:?}"),
    }
}

fn dtype_of(name: &str, dtype: DType) -> Result<Dtype, CheckpointError> {
    match dtype {
        DType::F32 => Ok(Dtype::F32),
        DType::F64 => Ok(Dtype::F64),
        other => Err(CheckpointError::form(name, format!("weights are saved as f32 or f64, not {other:?}"))),
    }
}

fn pack(tensors: &[(&str, Dtype, Vec<usize>, Vec<u8>)]) -> Result<Vec<u8>, CheckpointError> {
    let mut views = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let view = TensorView::new(*dtype, shape.clone(), bytes).map_err(|e| CheckpointError::form(name, e))?;
        views.push((*name, view));
    }
    serialize(views, None).map_err(|e| CheckpointError::form("safetensors", e))
}
