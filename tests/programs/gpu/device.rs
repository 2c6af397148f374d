//! Which device each rank has.

use anyhow::{Result, ensure};
use candle_core::cuda_backend::cudarc::driver::{CudaContext, sys::CUdevice_attribute as Attribute};
use foxlaunch_shared::env;
use foxlaunch_worker::world::World;

/// Prints one line for this rank, and fails where two ranks have one device.
pub(crate) fn tell(world: &mut World) -> Result<()> {
    let stream = world.device().as_cuda_device()?.cuda_stream();
    let context = stream.context();
    let uuid: Vec<u8> = context.uuid()?.bytes.iter().map(|byte| *byte as u8).collect();
    let pci = [Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID]
        .map(|part| context.attribute(part));
    let [domain, bus] = pci;
    println!(
        "foxlaunch-device rank={} ordinal={} visible={} seen={} uuid={} pci={:08x}:{:02x} name={:?}",
        world.rank(),
        context.ordinal(),
        std::env::var(env::CUDA_VISIBLE_DEVICES).unwrap_or_else(|_| "all".into()),
        CudaContext::device_count()?,
        written(&uuid),
        domain?,
        bus?,
        context.name()?,
    );
    let mut all = vec![0; uuid.len() * world.world_size().0 as usize];
    world.collective().all_gather(&uuid, &mut all)?;
    let mut uuids: Vec<&[u8]> = all.chunks_exact(uuid.len()).collect();
    uuids.sort_unstable();
    uuids.dedup();
    ensure!(uuids.len() == world.world_size().0 as usize, "two ranks share one device");
    Ok(())
}

/// A UUID as nvidia-smi writes it.
fn written(uuid: &[u8]) -> String {
    let mut text = "GPU".to_owned();
    for (at, byte) in uuid.iter().enumerate() {
        if [0, 4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
