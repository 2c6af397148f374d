//! Which devices the workers get, and why.

use crate::cli::{LaunchOptions, Nproc};
use crate::devices::visible::{self, Gpus, Token, VisibleError};
use crate::devices::{Gpu, nvml};
use foxlaunch_shared::ids::DeviceId;
use thiserror::Error;

/// Why no devices could be chosen.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// A list is wrong.
    #[error(transparent)]
    Visible(#[from] VisibleError),
    /// GPUs were asked for and there are none.
    #[error("--gpus asks for NVIDIA devices, but {0}; --cpu trains on the processor")]
    NoGpus(String),
    /// More workers were asked for than there are devices.
    #[error("--nproc asks for {asked} workers, but there are {there} devices to use; each worker needs one")]
    TooFew {
        /// `--nproc`.
        asked: usize,
        /// Usable devices.
        there: usize,
    },
    /// Two options that exclude each other.
    #[error("{0}")]
    Contradiction(&'static str),
}

/// The devices for the workers, one each, in the order of the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// One for each worker.
    pub devices: Vec<DeviceId>,
    /// What the driver says of each; `None` for the processor, and for what the driver cannot name.
    pub gpus: Vec<Option<Gpu>>,
    /// Whether GPUs were asked for by name, so that falling back to the processor would be wrong.
    pub insisted: bool,
    /// What a person should know about the choice.
    pub notes: Vec<String>,
}

impl Chosen {
    /// `n` workers on the processor.
    pub fn cpu(n: usize, notes: Vec<String>) -> Chosen {
        Chosen { devices: vec![DeviceId::Cpu; n], gpus: vec![None; n], insisted: false, notes }
    }
}

/// Chooses devices by the options, what `CUDA_VISIBLE_DEVICES` allows, and what the driver knows.
/// `cpu_workers` is how many there are on the processor if nothing says otherwise.
pub fn choose(options: &LaunchOptions, cpu_workers: usize) -> Result<Chosen, DeviceError> {
    let inherited = std::env::var(foxlaunch_shared::env::CUDA_VISIBLE_DEVICES).ok();
    let (nproc, cpu_workers) = match options.nproc {
        Some(Nproc::Count(n)) => (Some(n as usize), cpu_workers),
        Some(Nproc::Cpu | Nproc::Auto) => (None, crate::process::allowed_cores()),
        Some(Nproc::Gpu) | None => (None, cpu_workers),
    };
    let wants_gpus = options.gpus.as_ref().is_some_and(|gpus| *gpus != Gpus::None);
    if options.cpu || options.gpus == Some(Gpus::None) || options.nproc == Some(Nproc::Cpu) {
        let contradiction = match options.nproc {
            Some(Nproc::Gpu) => Some("--nproc gpu asks for the devices that another option excludes"),
            Some(Nproc::Cpu) if wants_gpus => Some("--nproc cpu and --gpus exclude each other"),
            _ if options.cpu && wants_gpus => Some("--cpu and --gpus exclude each other"),
            _ => None,
        };
        let chosen = Chosen::cpu(nproc.unwrap_or(cpu_workers), Vec::new());
        return contradiction.map_or(Ok(chosen), |words| Err(DeviceError::Contradiction(words)));
    }
    let request = options.gpus.as_ref().or((options.nproc == Some(Nproc::Gpu)).then_some(&Gpus::All));
    decide(request, nproc, inherited.as_deref(), nvml::gpus(), cpu_workers)
}

fn decide(
    request: Option<&Gpus>,
    nproc: Option<usize>,
    inherited: Option<&str>,
    machine: Result<Vec<Gpu>, nvml::NvmlError>,
    cpu_workers: usize,
) -> Result<Chosen, DeviceError> {
    let (machine, reason) = match machine {
        Ok(gpus) if gpus.is_empty() => (gpus, "the driver knows no NVIDIA device".to_owned()),
        Ok(gpus) => (gpus, "CUDA_VISIBLE_DEVICES allows none".to_owned()),
        Err(error) => (Vec::new(), error.to_string()),
    };
    if machine.is_empty() {
        return match request {
            Some(_) => Err(DeviceError::NoGpus(reason)),
            None => Ok(Chosen::cpu(nproc.unwrap_or(cpu_workers), vec![format!("{reason}: using the processor")])),
        };
    }
    let visible = visible::visible(inherited, &machine)?;
    let tokens = visible::select(request.unwrap_or(&Gpus::All), &visible, &machine)?;
    if tokens.is_empty() {
        return match request {
            Some(_) => Err(DeviceError::NoGpus(reason)),
            None => Ok(Chosen::cpu(nproc.unwrap_or(cpu_workers), vec![format!("{reason}: using the processor")])),
        };
    }
    let asked = nproc.unwrap_or(tokens.len());
    if asked > tokens.len() {
        return Err(DeviceError::TooFew { asked, there: tokens.len() });
    }
    let mut notes = Vec::new();
    if asked < tokens.len() {
        notes.push(format!("{asked} of {} devices are used, as --nproc says", tokens.len()));
    }
    let cuda = |token: &Token| DeviceId::Cuda(token.to_string());
    let tokens = &tokens[..asked];
    let gpus = tokens.iter().map(|token| visible::device_of(token, &machine).cloned()).collect();
    Ok(Chosen { devices: tokens.iter().map(cuda).collect(), gpus, insisted: request.is_some(), notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(n: u32) -> Result<Vec<Gpu>, nvml::NvmlError> {
        let gpu = |index| Gpu {
            index,
            uuid: format!("GPU-{index}"),
            name: String::new(),
            memory_bytes: 0,
            memory_free_bytes: 0,
            pci_bus_id: String::new(),
        };
        Ok((0..n).map(gpu).collect())
    }

    fn names(chosen: Chosen) -> Vec<String> {
        chosen.devices.iter().map(DeviceId::to_string).collect()
    }

    #[test]
    fn each_worker_gets_one_device() {
        let all = decide(None, None, None, machine(3), 2).unwrap();
        assert!(!all.insisted);
        assert_eq!(names(all), ["cuda:0", "cuda:1", "cuda:2"]);
        let gpus = "2,0".parse().unwrap();
        assert_eq!(names(decide(Some(&gpus), None, Some("5,6,7"), machine(8), 2).unwrap()), ["cuda:7", "cuda:5"]);
        assert_eq!(names(decide(Some(&Gpus::All), Some(1), None, machine(2), 2).unwrap()), ["cuda:0"]);
        let error = decide(Some(&gpus), Some(3), None, machine(4), 2).unwrap_err().to_string();
        assert_eq!(error, "--nproc asks for 3 workers, but there are 2 devices to use; each worker needs one");
    }

    #[test]
    fn without_devices_it_is_the_processor_unless_gpus_were_asked_for() {
        let chosen = decide(None, None, None, Err(nvml::NvmlError::NoLibrary), 2).unwrap();
        assert_eq!(chosen.notes.len(), 1);
        assert_eq!(names(chosen), ["cpu", "cpu"]);
        assert_eq!(names(decide(None, Some(4), Some("-1"), machine(2), 2).unwrap()), ["cpu"; 4]);
        for machine in [machine(0), Err(nvml::NvmlError::NoAnswer)] {
            let error = decide(Some(&Gpus::All), None, None, machine, 2).unwrap_err().to_string();
            assert!(error.starts_with("--gpus asks for NVIDIA devices, but the "), "{error}");
        }
        let error = decide(Some(&Gpus::All), None, Some(""), machine(2), 2).unwrap_err().to_string();
        assert!(error.contains("CUDA_VISIBLE_DEVICES allows none"), "{error}");
    }
}
