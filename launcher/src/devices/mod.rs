//! Which devices this machine has, and which of them a launch may use.

pub mod memory;
pub mod nccl;
pub mod numa;
pub mod nvml;
pub mod topology;
pub mod visible;

/// An NVIDIA device as the driver's library tells of it; no context is made on it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Gpu {
    /// Its number in PCI order.
    pub index: u32,
    /// `GPU-` and a UUID.
    pub uuid: String,
    /// What the vendor calls it.
    pub name: String,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// What of it is free.
    pub memory_free_bytes: u64,
    /// Its place on the PCI bus.
    pub pci_bus_id: String,
}
