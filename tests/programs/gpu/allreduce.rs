//! All-reduce by size: the counts, blocks and medians of `torch_allreduce.py`, so that both can stand in one table.

use anyhow::Result;
use foxlaunch_worker::collectives::{Buffer, ReduceOp};
use foxlaunch_worker::world::World;
use std::time::Instant;

/// Times sums of f32, in place, from 1 KiB to 1 GiB. Bus bandwidth = bytes / time · 2 (n-1) / n, as in nccl-tests.
pub(crate) fn time(world: &mut World) -> Result<()> {
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let (first, ranks) = (world.is_first(), f64::from(world.world_size().0));
    let collective = world.collective();
    for power in (10..=30).step_by(2) {
        let bytes = 1usize << power;
        let mut buffer = stream.alloc_zeros::<f32>(bytes / 4)?;
        for _ in 0..5 {
            collective.all_reduce(Buffer::CudaF32(&mut buffer), ReduceOp::Sum)?;
        }
        let calls = if power > 22 { 20 } else { 100 };
        let mut blocks = Vec::new();
        for _ in 0..5 {
            stream.synchronize()?;
            collective.barrier()?;
            let start = Instant::now();
            for _ in 0..calls {
                collective.all_reduce(Buffer::CudaF32(&mut buffer), ReduceOp::Sum)?;
            }
            stream.synchronize()?;
            blocks.push(start.elapsed().as_secs_f64() / f64::from(calls));
        }
        blocks.sort_by(f64::total_cmp);
        let median = blocks[blocks.len() / 2];
        if first {
            println!(
                "foxlaunch-allreduce device=cuda ranks={ranks} bytes={bytes} us={:.1} busbw_GBps={:.2}",
                median * 1e6,
                bytes as f64 / median / 1e9 * 2.0 * (ranks - 1.0) / ranks
            );
        }
    }
    Ok(())
}
