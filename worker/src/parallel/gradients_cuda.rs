//! Flat gradients in device memory: what [`gradients`](super::gradients) and [`shard`](super::shard) need of it.

use super::{FlatGradients, ParallelError, Shards, Values, shard};
use crate::collectives::Collective;
use crate::kernels::device as kernels;
use candle_core::op::BackpropOp;
use candle_core::{CudaStorage, DType, Device, Storage, Tensor};
use cudarc::driver::{CudaSlice, DriverError};
use std::ops::Range;

fn driver(error: DriverError) -> ParallelError {
    ParallelError::Candle(candle_core::Error::wrap(error))
}

fn kernel(error: kernels::KernelError) -> ParallelError {
    ParallelError::Candle(error.into())
}

/// Adds `gradient`, a tensor of the same device, to `values[place]`.
pub(super) fn add(values: &mut CudaSlice<f32>, place: Range<usize>, gradient: &Tensor) -> Result<(), ParallelError> {
    let gradient = gradient.to_dtype(DType::F32)?.contiguous()?;
    let (storage, layout) = gradient.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        let why = format!("a gradient on {:?} cannot be added to a buffer on a CUDA device", gradient.device());
        return Err(ParallelError::Unlike(why));
    };
    let start = layout.start_offset();
    let from = storage.as_cuda_slice::<f32>()?.slice(start..start + gradient.elem_count());
    let stream = values.stream().clone();
    kernels::add(&stream, &mut values.slice_mut(place), &from).map_err(kernel)
}

/// A tensor with a copy of `values[place]`.
pub(super) fn tensor(
    values: &CudaSlice<f32>,
    place: Range<usize>,
    shape: &[usize],
    device: &Device,
) -> Result<Tensor, ParallelError> {
    let copy = values.stream().clone_dtod(&values.slice(place)).map_err(driver)?;
    let storage = CudaStorage::wrap_cuda_slice(copy, device.as_cuda_device()?.clone());
    Ok(Tensor::from_storage(Storage::Cuda(storage), shape, BackpropOp::none(), false))
}

/// Multiplies the first `len` of `values` by `factor`.
pub(super) fn scale(values: &mut CudaSlice<f32>, len: usize, factor: f32) -> Result<(), ParallelError> {
    let stream = values.stream().clone();
    kernels::scale(&stream, &mut values.slice_mut(..len), factor).map_err(kernel)
}

/// Adds `from` to `to`.
pub(super) fn add_slice(to: &mut CudaSlice<f32>, from: &CudaSlice<f32>) -> Result<(), ParallelError> {
    let stream = to.stream().clone();
    kernels::add(&stream, &mut to.as_view_mut(), &from.as_view()).map_err(kernel)
}

/// Sums shards that ranks own in different numbers. Through the host, since only there is the order of addition ours:
/// slow, for runs that must end with the bits of another number of devices.
pub(super) fn sum_shards(
    collective: &mut dyn Collective,
    shards: &Shards,
    parts: &[FlatGradients],
    out: &mut FlatGradients,
) -> Result<(), ParallelError> {
    let mut hosts = Vec::with_capacity(parts.len());
    for part in parts {
        let Values::CudaF32(values) = part.values() else {
            return Err(ParallelError::Unlike("gradient buffers of different kinds".into()));
        };
        hosts.push(values.stream().clone_dtoh(values).map_err(driver)?);
    }
    let Values::CudaF32(out) = out.values_mut() else {
        return Err(ParallelError::Unlike("gradient buffers of different kinds".into()));
    };
    let mut sum = vec![0.0f32; out.len()];
    let hosts: Vec<&[f32]> = hosts.iter().map(Vec::as_slice).collect();
    shard::gathered(collective, shards, &hosts, &mut sum)?;
    let stream = out.stream().clone();
    stream.memcpy_htod(&sum, out).map_err(driver)
}
