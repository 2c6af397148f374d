//! The one device that this process computes on.

use super::WorldError;
use super::contract::DeviceKind;
use candle_core::Device;

/// Opens `kind`. Called once in a process: two openings of one device do not share tensors.
pub(crate) fn open(kind: DeviceKind) -> Result<Device, WorldError> {
    match kind {
        DeviceKind::Cpu => Ok(Device::Cpu),
        DeviceKind::Cuda(ordinal) => open_cuda(ordinal),
    }
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(ordinal: usize) -> Result<Device, WorldError> {
    Err(WorldError::Device(format!(
        "CUDA device {ordinal} was asked for, but this worker was built without it: build it with --features cuda"
    )))
}

#[cfg(feature = "cuda")]
fn open_cuda(ordinal: usize) -> Result<Device, WorldError> {
    let failed = |what: &str, why: String| WorldError::Device(format!("CUDA device {ordinal}: {what}: {why}"));
    // An own stream: the default one differs from thread to thread, so a tensor made by one thread could be read
    // by another before it is there.
    let device = Device::new_cuda_with_stream(ordinal).map_err(|e| failed("cannot be opened", e.to_string()))?;
    let cuda = device.as_cuda_device().map_err(|e| failed("is not one", e.to_string()))?;
    // SAFETY: tracking orders work of different streams; this process uses one stream, and turns tracking off
    // before the first tensor, so no slice has an event that would be missed.
    unsafe { cuda.disable_event_tracking() };
    keep_freed_memory(cuda).map_err(|e| failed("its memory pool", e))?;
    Ok(device)
}

/// Lets the driver's pool keep what is freed. Without this every synchronisation hands it back to the driver and
/// the next step maps it again.
#[cfg(feature = "cuda")]
fn keep_freed_memory(cuda: &candle_core::CudaDevice) -> Result<(), String> {
    use cudarc::driver::{result, sys};
    let device = cuda.cuda_stream().context().cu_device();
    let mut all: u64 = u64::MAX;
    // SAFETY: the device is open (its context is alive), the attribute takes a u64, and `all` outlives the call.
    unsafe {
        let pool = result::device::get_default_mem_pool(device).map_err(|e| e.to_string())?;
        result::mem_pool::set_attribute(
            pool,
            sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
            std::ptr::from_mut(&mut all).cast(),
        )
        .map_err(|e| e.to_string())
    }
}
