//! All-reduces without end, so that a rank can be killed in the middle of one.

use anyhow::Result;
use foxlaunch_shared::protocol::Phase;
use foxlaunch_worker::collectives::{Buffer, ReduceOp};
use foxlaunch_worker::world::World;

/// Where the host waits for the device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    /// Inside the driver, as a program that reads its loss: nothing can call it back from there.
    Driver,
    /// Inside a collective call of ours.
    Call,
}

/// Reduces 16 MiB, waits, and so on until a rank is gone.
pub(crate) fn reduce(world: &mut World, wait: Where) -> Result<()> {
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let mut buffer = stream.alloc_zeros::<f32>(4 << 20)?;
    for step in 0.. {
        world.collective().all_reduce(Buffer::CudaF32(&mut buffer), ReduceOp::Sum)?;
        match wait {
            Where::Driver => stream.synchronize()?,
            Where::Call => world.collective().barrier()?,
        }
        if step == 100 {
            println!("foxlaunch-stuck rank={} pid={} is reducing", world.rank(), std::process::id());
        }
        world.progress(step, Phase::Step, None);
    }
    Ok(())
}
