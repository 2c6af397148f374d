//! Weights made equal, averaged, and compared over the ranks.

use super::{Layout, ParallelError};
use crate::collectives::{Buffer, Collective, ReduceOp};
use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use candle_nn::VarMap;
use foxlaunch_shared::ids::Rank;
use sha2::{Digest, Sha256};

/// Gives all ranks rank 0's weights, bit for bit.
pub fn broadcast(layout: &Layout, vars: &VarMap, collective: &mut dyn Collective) -> Result<(), ParallelError> {
    if collective.world_size().0 == 1 {
        return Ok(());
    }
    for (var, entry) in layout.variables(vars)?.iter().zip(layout.entries()) {
        let mut bytes = to_bytes(&entry.name, var.as_tensor())?;
        collective.broadcast(&mut bytes, Rank(0))?;
        if collective.rank() != Rank(0) {
            var.set(&Tensor::from_raw_buffer(&bytes, entry.dtype, &entry.shape, var.device())?)?;
        }
    }
    Ok(())
}

/// Replaces all ranks' weights by their average (local SGD). Weights that are not f32 or f64 are averaged in f32.
pub fn average(layout: &Layout, vars: &VarMap, collective: &mut dyn Collective) -> Result<(), ParallelError> {
    if collective.world_size().0 == 1 {
        return Ok(());
    }
    for (var, entry) in layout.variables(vars)?.iter().zip(layout.entries()) {
        let host = var.as_tensor().to_device(&Device::Cpu)?.flatten_all()?;
        let shape = entry.shape.as_slice();
        let mean = if entry.dtype == DType::F64 {
            let mut values = host.to_vec1::<f64>()?;
            collective.all_reduce(Buffer::F64(&mut values), ReduceOp::Avg)?;
            Tensor::from_vec(values, shape, var.device())?
        } else {
            let mut values = host.to_dtype(DType::F32)?.to_vec1::<f32>()?;
            collective.all_reduce(Buffer::F32(&mut values), ReduceOp::Avg)?;
            Tensor::from_vec(values, shape, var.device())?
        };
        var.set(&mean.to_dtype(entry.dtype)?)?;
    }
    Ok(())
}

/// Replaces flat buffers, as parameters or moments, by their average over all ranks.
pub fn average_flat(buffers: &mut [&mut [f32]], collective: &mut dyn Collective) -> Result<(), ParallelError> {
    for buffer in buffers.iter_mut() {
        collective.all_reduce(Buffer::F32(buffer), ReduceOp::Avg)?;
    }
    Ok(())
}

/// Gives all ranks rank 0's flat buffers, bit for bit.
pub fn broadcast_flat(buffers: &mut [&mut [f32]], collective: &mut dyn Collective) -> Result<(), ParallelError> {
    for buffer in buffers.iter_mut() {
        collective.broadcast(bytemuck::cast_slice_mut(buffer), Rank(0))?;
    }
    Ok(())
}

/// SHA-256 over the bytes of all weights, in the order of the layout.
pub fn digest(layout: &Layout, vars: &VarMap) -> Result<[u8; 32], ParallelError> {
    let mut sum = Sha256::new();
    for (var, entry) in layout.variables(vars)?.iter().zip(layout.entries()) {
        sum.update(to_bytes(&entry.name, var.as_tensor())?);
    }
    Ok(sum.finalize().into())
}

/// SHA-256 over the bytes of flat buffers.
pub fn digest_flat(buffers: &[&[f32]]) -> [u8; 32] {
    let mut sum = Sha256::new();
    buffers.iter().for_each(|buffer| sum.update(bytemuck::cast_slice::<f32, u8>(buffer)));
    sum.finalize().into()
}

/// Makes sure that all ranks have the digest `mine`; `when` says which moment this is. Every rank gets the same
/// answer.
pub fn assert_equal(mine: [u8; 32], when: &str, collective: &mut dyn Collective) -> Result<(), ParallelError> {
    let mut all = vec![0; 32 * collective.world_size().0 as usize];
    collective.all_gather(&mine, &mut all)?;
    let (first, rest) = all.split_at(32);
    match rest.chunks_exact(32).position(|digest| digest != first) {
        Some(at) => Err(ParallelError::OtherWeights { rank: Rank(at as u32 + 1), when: when.to_owned() }),
        None => Ok(()),
    }
}

/// The bytes of a tensor, little endian, in order.
fn to_bytes(name: &str, tensor: &Tensor) -> Result<Vec<u8>, ParallelError> {
    let tensor = tensor.to_device(&Device::Cpu)?.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let place = layout.start_offset()..layout.start_offset() + tensor.elem_count();
    Ok(match &*storage {
        Storage::Cpu(CpuStorage::F32(values)) => bytemuck::cast_slice(&values[place]).to_vec(),
        Storage::Cpu(CpuStorage::F64(values)) => bytemuck::cast_slice(&values[place]).to_vec(),
        Storage::Cpu(CpuStorage::U8(values)) => values[place].to_vec(),
        Storage::Cpu(CpuStorage::U32(values)) => bytemuck::cast_slice(&values[place]).to_vec(),
        Storage::Cpu(CpuStorage::I64(values)) => bytemuck::cast_slice(&values[place]).to_vec(),
        Storage::Cpu(CpuStorage::BF16(values)) => values[place].iter().flat_map(|x| x.to_le_bytes()).collect(),
        Storage::Cpu(CpuStorage::F16(values)) => values[place].iter().flat_map(|x| x.to_le_bytes()).collect(),
        _ => {
            let why = format!("its number type {:?} cannot be sent", tensor.dtype());
            return Err(ParallelError::Variable { name: name.to_owned(), why });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::{Shm, shm::tests::world_of};
    use foxlaunch_shared::ids::WorldSize;
    use std::time::Duration;

    fn model(rank: f64, extra: bool) -> VarMap {
        let vars = VarMap::new();
        let get = |name, shape: usize, dtype| {
            vars.get(shape, name, candle_nn::Init::Const(rank), dtype, &Device::Cpu).unwrap();
        };
        get("w", 3, DType::F32);
        get("b", 2, DType::F64);
        get("h", 5, DType::BF16);
        if extra {
            get("x", 1, DType::F32);
        }
        vars
    }

    fn in_world<R: Send>(ranks: u32, body: impl Fn(Shm) -> R + Sync) -> Vec<R> {
        world_of(ranks, Shm::arena_bytes(WorldSize(ranks)), Duration::from_secs(20), body)
    }

    #[test]
    fn ranks_that_differ_are_seen_then_made_equal_by_broadcast_or_average() {
        let first = |vars: &VarMap, name: &str| -> f64 {
            let value = vars.data().lock().unwrap()[name].as_tensor().to_dtype(DType::F64).unwrap();
            value.to_vec1::<f64>().unwrap()[0]
        };
        for result in in_world(3, |mut shm| {
            let vars = model(f64::from(shm.rank().0), false);
            let layout = Layout::of(&vars);
            layout.agree(&mut shm).unwrap();
            let differ = assert_equal(digest(&layout, &vars).unwrap(), "at the start", &mut shm).unwrap_err();
            average(&layout, &vars, &mut shm).unwrap();
            let mean = ["w", "b", "h"].map(|name| first(&vars, name));
            assert_equal(digest(&layout, &vars).unwrap(), "after the average", &mut shm).unwrap();
            let vars = model(5. - f64::from(shm.rank().0), false);
            broadcast(&layout, &vars, &mut shm).unwrap();
            (differ.to_string(), mean, ["w", "b", "h"].map(|name| first(&vars, name)))
        }) {
            assert_eq!(result.0, "rank 1 holds other weights than rank 0 at the start");
            assert_eq!((result.1, result.2), ([1.; 3], [5.; 3]));
        }
    }

    #[test]
    fn another_model_is_named_by_all_ranks() {
        for result in in_world(3, |mut shm| {
            let vars = model(0., shm.rank() == Rank(2));
            Layout::of(&vars).agree(&mut shm).unwrap_err().to_string()
        }) {
            let expected = "rank 2 holds another model than rank 0: 4 variables with 11 values, where rank 0 has 3 \
                            variables with 10 values; all ranks must build the same variables";
            assert_eq!(result, expected);
        }
    }

    #[test]
    fn flat_buffers_are_averaged_and_broadcast() {
        for result in in_world(2, |mut shm| {
            let rank = shm.rank().0 as f32;
            let (mut weights, mut moments) = ([rank, 4.], [10. * rank]);
            average_flat(&mut [&mut weights, &mut moments], &mut shm).expect("averaged");
            let mut given = [rank + 7.];
            broadcast_flat(&mut [&mut given], &mut shm).expect("sent");
            (weights, moments, given, digest_flat(&[&weights]) == digest_flat(&[&[0.5, 4.]]))
        }) {
            assert_eq!(result, ([0.5, 4.], [5.], [7.], true));
        }
    }
}
