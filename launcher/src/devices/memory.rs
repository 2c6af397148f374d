//! Whether devices are still there, and their memory is free again: between two attempts.

use super::Gpu;
use super::nvml::{self, NvmlError};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError as Answer;

/// Less memory than this may be missing: the driver itself holds some.
const TOLERANCE: u64 = 512 << 20;

/// A device as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is there, with so many bytes free.
    Free(u64),
    /// It is not there, or cannot be used; what the driver says.
    Lost(String),
    /// The driver does not tell.
    Unknown,
}

/// What is wrong with devices, by their places in the list that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Those that are not there any more, and what the driver says.
    pub lost: Vec<(usize, String)>,
    /// Those whose memory is held, in words.
    pub held: Vec<(usize, String)>,
}

/// Asks the driver for each of `gpus`, within the driver's deadline; `None` stands for one that it cannot name.
pub fn ask(gpus: &[Option<Gpu>]) -> Result<Vec<Seen>, NvmlError> {
    let uuids: Vec<Option<String>> = gpus.iter().map(|gpu| gpu.as_ref().map(|gpu| gpu.uuid.clone())).collect();
    nvml::within_deadline("memory", move |nvml| {
        Ok(uuids.iter().map(|uuid| uuid.as_ref().map_or(Seen::Unknown, |uuid| one(nvml, uuid))).collect())
    })
}

fn one(nvml: &Nvml, uuid: &str) -> Seen {
    match nvml.device_by_uuid(uuid).and_then(|device| device.memory_info()) {
        Ok(memory) => Seen::Free(memory.free),
        Err(error @ (Answer::NotFound | Answer::GpuLost)) => Seen::Lost(error.to_string()),
        Err(_) => Seen::Unknown,
    }
}

/// Compares with what was free `before` the job began: what others used then they may use now.
pub fn judge(before: &[Option<Gpu>], now: &[Seen]) -> Look {
    let mut look = Look::default();
    for (place, (before, now)) in before.iter().zip(now).enumerate() {
        match (before, now) {
            (Some(gpu), Seen::Lost(why)) => {
                look.lost.push((place, format!("the driver has no device {} any more ({why})", gpu.uuid)));
            }
            (Some(gpu), Seen::Free(free)) if free + TOLERANCE < gpu.memory_free_bytes => {
                let mib = |bytes: u64| bytes >> 20;
                let (index, free, before) = (gpu.index, mib(*free), mib(gpu.memory_free_bytes));
                look.held.push((place, format!("device {index} has {free} MiB free, before the job {before} MiB")));
            }
            _ => {}
        }
    }
    look
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn gpu(index: u32, memory_free_bytes: u64) -> Option<Gpu> {
        let uuid = format!("GPU-{index}");
        let (name, pci_bus_id) = (String::new(), String::new());
        Some(Gpu { index, uuid, name, memory_bytes: 80 * GIB, memory_free_bytes, pci_bus_id })
    }

    #[test]
    fn memory_is_free_when_as_much_is_as_before() {
        let before = [gpu(0, 70 * GIB), gpu(1, 70 * GIB), gpu(2, 5 * GIB), None];
        let now = [Seen::Free(69 * GIB + GIB / 2), Seen::Free(14 * GIB), Seen::Free(5 * GIB), Seen::Free(0)];
        let look = judge(&before, &now);
        assert_eq!(look.lost, []);
        assert_eq!(look.held, [(1, "device 1 has 14336 MiB free, before the job 71680 MiB".to_owned())]);
    }

    #[test]
    fn what_is_lost_is_named_and_what_is_unknown_holds_nothing_up() {
        let before = [gpu(0, GIB), gpu(1, GIB)];
        let look = judge(&before, &[Seen::Unknown, Seen::Lost("the GPU fell off the bus".into())]);
        assert_eq!(look.held, []);
        assert_eq!(look.lost.len(), 1);
        assert!(look.lost[0].0 == 1 && look.lost[0].1.contains("GPU-1") && look.lost[0].1.contains("fell off"));
        assert_eq!(judge(&before, &[]), Look::default());
    }
}
