//! Sins on purpose: all-reduces without end, so that a rank can be killed in the middle of one; a kernel that never
//! ends; memory that is held until death.

use anyhow::{Context, Result, ensure};
use candle_core::cuda_backend::cudarc;
use cudarc::driver::{LaunchConfig, PushKernelArg, result};
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

/// A kernel that no one ends.
const SPIN: &str = r#"extern "C" __global__ void spin(volatile unsigned *go) { while (*go == 0) {} }"#;

/// After ten all-reduces the last rank's device runs a kernel without end, and its host waits for it; the others wait
/// for that rank.
pub(crate) fn kernel(world: &mut World) -> Result<()> {
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let mut buffer = stream.alloc_zeros::<f32>(1 << 10)?;
    let last = world.rank().0 + 1 == world.world_size().0;
    for step in 0.. {
        if step == 10 && last {
            let module = stream.context().load_module(cudarc::nvrtc::compile_ptx(SPIN)?)?;
            let spin = module.load_function("spin")?;
            let mut go = stream.alloc_zeros::<u32>(1)?;
            println!("foxlaunch-stuck rank={} pid={} spins", world.rank(), std::process::id());
            let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: the kernel takes one pointer to one u32, which lives as long as this call.
            unsafe { stream.launch_builder(&spin).arg(&mut go).launch(one) }?;
            stream.synchronize()?;
        }
        world.collective().all_reduce(Buffer::CudaF32(&mut buffer), ReduceOp::Sum)?;
        stream.synchronize()?;
        world.progress(step, Phase::Step, None);
    }
    Ok(())
}

/// Takes 80 % of the device's memory. In the first attempt it holds it until it is killed; in a later one it ends well,
/// which it can only if the memory of the one before is free again.
pub(crate) fn memory(world: &mut World) -> Result<()> {
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let (free, total) = result::mem_get_info()?;
    let want = total / 5 * 4;
    ensure!(free >= want, "{free} of {total} bytes are free, {want} are wanted: the attempt before still holds some");
    let held = stream.alloc_zeros::<u8>(want).context("taking 80 % of the device")?;
    stream.synchronize()?;
    let attempt = std::env::var(foxlaunch_shared::env::FOXLAUNCH_ATTEMPT).unwrap_or_default();
    println!("foxlaunch-stuck attempt={attempt} pid={} holds {} bytes", std::process::id(), held.len());
    if attempt != "1" {
        return Ok(());
    }
    for step in 0.. {
        world.progress(step, Phase::Step, None);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    Ok(())
}
