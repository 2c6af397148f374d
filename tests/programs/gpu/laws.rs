//! What every collective must do, for NCCL: the law-suite on host memory, the same sums on device memory, and an error on
//! all ranks where they make different calls.

use crate::kernels::numbers;
use anyhow::{Context, Error, Result, bail, ensure};
use candle_core::cuda_backend::cudarc::driver::DriverError;
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::Transport;
use foxlaunch_worker::collectives::{AbortFlag, Buffer, Collective, CollectiveError, Nccl, ReduceOp, law, nccl};
use foxlaunch_worker::world::World;
use std::sync::Arc;
use std::time::Duration;

/// Elements of device buffers: one, odd, and 64 MiB.
const SIZES: [usize; 5] = [1, 3, 1000, 1_000_003, 16 << 20];

/// A world of one that talks over NCCL all the same.
pub(crate) fn alone(world: &World) -> Result<World> {
    let device = world.device().clone();
    let id = nccl::make_id()?;
    let within = Duration::from_secs(60);
    let nccl = Nccl::form(&device, Rank(0), WorldSize(1), &id, within, Arc::new(AbortFlag::new()))?;
    Ok(World::on_device(Box::new(nccl), device))
}

/// Runs all laws.
pub(crate) fn check(world: &mut World) -> Result<()> {
    let transport = world.collective().transport();
    ensure!(transport == Transport::Nccl, "these laws are for NCCL, not for {transport:?}");
    for n in SIZES {
        for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max] {
            on_device(world, n, op).with_context(|| format!("all_reduce {op:?} of {n} f32 in device memory"))?;
        }
    }
    mismatch(world).context("different calls")?;
    suite(world).context("the law-suite")?;
    in_parts(world).context("host memory that takes several parts")?;
    println!("foxlaunch-laws rank={} transport=nccl all laws hold", world.rank());
    Ok(())
}

/// The suite that every transport passes, with f32 numbers on host and on device memory. NCCL adds in an order of its
/// own, so sums may differ from those in rank order by a rounding for each rank.
fn suite(world: &mut World) -> Result<()> {
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let tolerance = f64::from(world.world_size().0) * 2f64.powi(-23);
    let mut on_host =
        |collective: &mut dyn Collective, data: &mut [f32], op: ReduceOp| collective.all_reduce(Buffer::F32(data), op);
    law::check_on_device(world.collective(), 7, tolerance, &mut on_host).map_err(Error::msg)?;
    let mut on_device = |collective: &mut dyn Collective, data: &mut [f32], op: ReduceOp| {
        if data.is_empty() {
            return collective.all_reduce(Buffer::F32(data), op); // some drivers make no empty buffer
        }
        let failed = |e: DriverError| CollectiveError::Failed(e.to_string());
        let mut buffer = stream.clone_htod(&*data).map_err(failed)?;
        collective.all_reduce(Buffer::CudaF32(&mut buffer), op)?;
        data.copy_from_slice(&stream.clone_dtoh(&buffer).map_err(failed)?);
        Ok(())
    };
    law::check_on_device(world.collective(), 8, tolerance, &mut on_device).map_err(Error::msg)
}

/// Host memory longer than what is staged at once, and 64-bit numbers. Whole numbers, so that every sum is exact.
fn in_parts(world: &mut World) -> Result<()> {
    let (ranks, rank) = (world.world_size().0, world.rank().0);
    let given = |rank: u32, at: usize| ((at % 1000) as u32 * (rank + 1)) as f64;
    let summed = |at: usize| (0..ranks).map(|rank| given(rank, at)).sum::<f64>();
    for n in [0, 1, 1001, (5 << 20) + 1] {
        let mut wide: Vec<f64> = (0..n).map(|at| given(rank, at)).collect();
        world.collective().all_reduce(Buffer::F64(&mut wide), ReduceOp::Sum)?;
        let wrong = wide.iter().enumerate().find(|(at, sum)| **sum != summed(*at));
        ensure!(wrong.is_none(), "all_reduce sum of {n} f64: element and value {wrong:?}");
        let mut narrow: Vec<f32> = (0..n).map(|at| given(rank, at) as f32).collect();
        world.collective().all_reduce(Buffer::F32(&mut narrow), ReduceOp::Sum)?;
        let wrong = narrow.iter().enumerate().find(|(at, sum)| f64::from(**sum) != summed(*at));
        ensure!(wrong.is_none(), "all_reduce sum of {n} f32: element and value {wrong:?}");
    }
    let bytes = |rank: u32, n: usize| (0..n).map(move |at| (at as u32 * 31 + rank) as u8);
    let n = (20 << 20) + 3;
    let mut all = vec![0; n * ranks as usize];
    world.collective().all_gather(&bytes(rank, n).collect::<Vec<u8>>(), &mut all)?;
    ensure!((0..ranks).flat_map(|rank| bytes(rank, n)).eq(all), "all_gather of {n} bytes");
    let root = ranks - 1;
    let mut sent: Vec<u8> = bytes(rank, n).collect();
    world.collective().broadcast(&mut sent, Rank(root))?;
    ensure!(bytes(root, n).eq(sent), "broadcast of {n} bytes from rank {root}");
    Ok(())
}

/// Reduces numbers that every rank can compute for all ranks.
fn on_device(world: &mut World, n: usize, op: ReduceOp) -> Result<()> {
    let ranks = world.world_size().0;
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let seed = |rank: u32| u64::from(rank) + 1;
    let mut buffer = stream.clone_htod(&numbers(seed(world.rank().0), n))?;
    world.collective().all_reduce(Buffer::CudaF32(&mut buffer), op)?;
    let result = stream.clone_dtoh(&buffer)?;
    ensure!(result.len() == n, "{} elements came back", result.len());
    let mut expected = vec![if op == ReduceOp::Max { f64::MIN } else { 0.0 }; n];
    for rank in 0..ranks {
        for (sum, x) in expected.iter_mut().zip(numbers(seed(rank), n)) {
            *sum = if op == ReduceOp::Max { sum.max(f64::from(x)) } else { *sum + f64::from(x) };
        }
    }
    let divisor = if op == ReduceOp::Avg { f64::from(ranks) } else { 1.0 };
    for (at, (got, sum)) in result.iter().zip(&expected).enumerate() {
        let wanted = sum / divisor;
        // one rounding of 2^-24 for each addition, of sums below the number of ranks
        let tolerance = if op == ReduceOp::Max { 0.0 } else { f64::from(ranks * ranks) * 2f64.powi(-24) };
        ensure!((f64::from(*got) - wanted).abs() <= tolerance, "element {at} is {got} instead of {wanted}");
    }
    Ok(())
}

/// Different calls give an error that names both sides, on every rank, and leave the communicator usable.
fn mismatch(world: &mut World) -> Result<()> {
    if world.world_size().0 == 1 {
        return Ok(());
    }
    let first = world.is_first();
    let collective = world.collective();
    collective.check_calls(true);
    for round in 0..3 {
        let outcome = match (round, first) {
            (0, true) => collective.barrier(),
            (0, false) => collective.all_reduce(Buffer::F32(&mut [1.0; 3]), ReduceOp::Sum),
            (1, true) => collective.all_reduce(Buffer::F32(&mut [1.0; 4]), ReduceOp::Sum),
            (1, false) => collective.all_reduce(Buffer::F32(&mut [1.0; 5]), ReduceOp::Sum),
            (_, true) => collective.all_reduce(Buffer::F64(&mut [1.0; 4]), ReduceOp::Max),
            (_, false) => collective.all_reduce(Buffer::F32(&mut [1.0; 4]), ReduceOp::Max),
        };
        match outcome {
            Err(CollectiveError::Mismatch { here, there, .. }) if here != there => {}
            other => bail!("round {round} ended with {other:?}"),
        }
    }
    collective.barrier().context("the barrier after them")?;
    collective.check_calls(false);
    Ok(())
}
