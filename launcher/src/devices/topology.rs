//! How the devices reach each other, as the driver's library tells.

use super::nvml::{self, NvmlError};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus};

/// How two devices reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Over NVLink.
    NvLink,
    /// Directly, over PCI.
    Pci,
    /// Only through the host's memory.
    ThroughMemory,
}

/// Two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The number of the one.
    pub a: u32,
    /// The number of the other.
    pub b: u32,
    /// How they reach each other.
    pub reach: Reach,
}

/// Every pair of devices of which the driver tells, within the driver's deadline.
pub fn pairs() -> Result<Vec<Pair>, NvmlError> {
    nvml::within_deadline("topology", ask)
}

fn ask(nvml: &Nvml) -> Result<Vec<Pair>, NvmlError> {
    let driver = |error: nvml_wrapper::error::NvmlError| NvmlError::Driver(error.to_string());
    let count = nvml.device_count().map_err(driver)?;
    let mut pairs = Vec::new();
    for a in 0..count {
        for b in a + 1..count {
            let (one, other) = (nvml.device_by_index(a).map_err(driver)?, nvml.device_by_index(b).map_err(driver)?);
            let status = |index| one.p2p_status(&other, index).ok();
            // A driver that does not tell says nothing about the pair.
            let Some(read) = status(P2pCapabilitiesIndex::Read) else { continue };
            let reach = match (status(P2pCapabilitiesIndex::NvLink), read) {
                (Some(P2pStatus::Ok), _) => Reach::NvLink,
                (_, P2pStatus::Ok) => Reach::Pci,
                _ => Reach::ThroughMemory,
            };
            pairs.push(Pair { a, b, reach });
        }
    }
    Ok(pairs)
}
