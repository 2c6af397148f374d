//! The driver, what connects the devices, and NCCL.

use super::Finding;
use crate::devices::{nccl, nvml, topology};
use std::path::Path;

pub(super) fn driver() -> Vec<Finding> {
    const ABOUT: &str = "driver";
    vec![match nvml::gpus() {
        Ok(gpus) if gpus.is_empty() => {
            let advice = "see nvidia-smi and dmesg; a container needs --gpus all";
            Finding::warn(ABOUT, "the driver is there, but knows no device", advice)
        }
        Ok(gpus) => {
            let version = nvml::driver_version().unwrap_or_else(|| "of unknown version".to_owned());
            let mut names: Vec<String> = gpus.iter().map(|gpu| gpu.name.clone()).collect();
            names.dedup();
            Finding::ok(ABOUT, format!("{version}, {} devices: {}", gpus.len(), names.join(", ")))
        }
        Err(nvml::NvmlError::NoLibrary) if Path::new("/dev/nvidiactl").exists() => Finding::warn(
            ABOUT,
            "there are NVIDIA devices, but no driver library (libnvidia-ml.so.1)",
            "install the driver's user-space libraries; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
        Err(nvml::NvmlError::NoLibrary) => Finding::ok(ABOUT, "no NVIDIA driver: workers use the processor"),
        Err(error) => Finding::error(ABOUT, error.to_string(), "see nvidia-smi and dmesg; --cpu trains without it"),
    }]
}

pub(super) fn topology() -> Vec<Finding> {
    const ABOUT: &str = "topology";
    let Ok(pairs) = topology::pairs() else { return Vec::new() };
    let slow: Vec<_> = pairs.iter().filter(|pair| pair.reach == topology::Reach::ThroughMemory).collect();
    let linked = pairs.iter().filter(|pair| pair.reach == topology::Reach::NvLink).count();
    match (pairs.len(), slow.first()) {
        (0, _) => Vec::new(),
        (all, None) => vec![Finding::ok(ABOUT, format!("{linked} of {all} pairs of devices have NVLink, all P2P"))],
        (all, Some(first)) => vec![Finding::warn(
            ABOUT,
            format!("{} of {all} pairs of devices have no P2P, as {} and {}", slow.len(), first.a, first.b),
            "sums go through the host's memory; where P2P is expected, see nvidia-smi topo -p2p r, IOMMU and ACS",
        )],
    }
}

pub(super) fn nccl() -> Vec<Finding> {
    const ABOUT: &str = "nccl";
    let several = nvml::gpus().is_ok_and(|gpus| gpus.len() > 1);
    vec![match nccl::find() {
        Some(library) => {
            let version = library.version.unwrap_or_else(|| "of unknown version".to_owned());
            Finding::ok(ABOUT, format!("{version}, {}", library.path.display()))
        }
        None if several => Finding::warn(
            ABOUT,
            "libnccl.so.2 is neither in LD_LIBRARY_PATH nor known to ldconfig",
            "install NCCL 2.28 or newer, or add its folder to LD_LIBRARY_PATH; one device needs none",
        ),
        None => Finding::ok(ABOUT, "not found, and not needed for fewer than two devices"),
    }]
}
