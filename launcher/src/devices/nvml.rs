//! The devices that the driver's library (NVML) knows. It is loaded at run time: no library means no devices.

use super::Gpu;
use nvml_wrapper::Nvml;
use std::sync::mpsc;
use std::time::Duration;
use thiserror::Error;

/// How long a driver may take to answer. A healthy one takes milliseconds, a cold one a second or two.
const DEADLINE: Duration = Duration::from_secs(8);

/// Why there is no list of devices.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NvmlError {
    /// There is no driver library on this machine.
    #[error("no NVIDIA driver library (libnvidia-ml.so.1) on this machine")]
    NoLibrary,
    /// The driver answered with an error.
    #[error("the NVIDIA driver says: {0}")]
    Driver(String),
    /// The driver did not answer.
    #[error("the NVIDIA driver did not answer within {} s", DEADLINE.as_secs())]
    NoAnswer,
}

/// Asks for all devices, with a deadline: a sick driver may never answer.
pub fn gpus() -> Result<Vec<Gpu>, NvmlError> {
    within_deadline("nvml", ask)
}

/// The driver's version, if it tells.
pub fn driver_version() -> Option<String> {
    let ask = |nvml: &Nvml| nvml.sys_driver_version().map_err(|error| NvmlError::Driver(error.to_string()));
    within_deadline("driver", ask).ok()
}

/// All devices with their memory in use, in bytes.
pub fn memory() -> Result<Vec<(Gpu, u64)>, NvmlError> {
    within_deadline("memory", |nvml| {
        let driver = |error: nvml_wrapper::error::NvmlError| NvmlError::Driver(error.to_string());
        let used = |gpu: Gpu| {
            let memory = nvml.device_by_index(gpu.index).and_then(|device| device.memory_info()).map_err(driver)?;
            Ok((gpu, memory.used))
        };
        ask(nvml)?.into_iter().map(used).collect()
    })
}

/// Puts `question` to the driver's library, on a thread `name`.
pub(super) fn within_deadline<T: Send + 'static>(
    name: &str,
    question: impl FnOnce(&Nvml) -> Result<T, NvmlError> + Send + 'static,
) -> Result<T, NvmlError> {
    let (answer, wait) = mpsc::channel();
    let body = move || answer.send(open().and_then(|nvml| question(&nvml)));
    // A thread that never returns is left behind; this process ends without it.
    if let Err(error) = crate::process::signals::spawn_deaf(name, body) {
        return Err(NvmlError::Driver(error.to_string()));
    }
    wait.recv_timeout(DEADLINE).unwrap_or(Err(NvmlError::NoAnswer))
}

fn open() -> Result<Nvml, NvmlError> {
    Nvml::init().map_err(|error| match error {
        nvml_wrapper::error::NvmlError::LibloadingError(_) => NvmlError::NoLibrary,
        other => NvmlError::Driver(other.to_string()),
    })
}

fn ask(nvml: &Nvml) -> Result<Vec<Gpu>, NvmlError> {
    let driver = |error: nvml_wrapper::error::NvmlError| NvmlError::Driver(error.to_string());
    let count = nvml.device_count().map_err(driver)?;
    (0..count)
        .map(|index| {
            let device = nvml.device_by_index(index).map_err(driver)?;
            let memory = device.memory_info().map_err(driver)?;
            Ok(Gpu {
                index,
                uuid: device.uuid().map_err(driver)?,
                name: device.name().map_err(driver)?,
                memory_bytes: memory.total,
                memory_free_bytes: memory.free,
                pci_bus_id: device.pci_info().map_err(driver)?.bus_id,
            })
        })
        .collect()
}
