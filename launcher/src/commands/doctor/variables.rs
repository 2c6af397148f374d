//! Variables in the environment that change what a job does, where few expect it.

use super::Finding;
use crate::devices::visible::{self, VisibleError};
use crate::devices::{Gpu, nvml};
use foxlaunch_shared::env;

const ABOUT: &str = "variables";

pub(super) fn variables() -> Vec<Finding> {
    let set = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let cores = crate::process::allowed_cores();
    // Without a list every device that is named counts as absent; a driver that fails has a finding of its own.
    let gpus = if set(env::CUDA_VISIBLE_DEVICES).is_some() { nvml::gpus().unwrap_or_default() } else { Vec::new() };
    judge(set, cores, &gpus)
}

/// What is wrong with the variables that `set` gives, on a machine with `cores` and `gpus`.
fn judge(set: impl Fn(&str) -> Option<String>, cores: usize, gpus: &[Gpu]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut bites = |name: &str, if_value: fn(&str) -> bool, what: &str| {
        if let Some(value) = set(name).filter(|value| if_value(value)) {
            findings.push(Finding::warn(ABOUT, format!("{name}={value}: {what}"), format!("unset {name}")));
        }
    };
    let on = |value: &str| !matches!(value, "" | "0");
    bites(
        "NCCL_COMM_BLOCKING",
        |_| true,
        "it makes every NCCL call wait, so that none can be left when a peer is lost",
    );
    bites("CUDA_LAUNCH_BLOCKING", on, "every kernel waits for its end, which makes training several times slower");
    bites("NCCL_DEBUG", |value| value.eq_ignore_ascii_case("trace"), "NCCL writes a line for each call");
    bites("NCCL_P2P_DISABLE", on, "devices do not reach each other directly, which makes NCCL slower");
    bites("NCCL_SHM_DISABLE", on, "processes of one host talk over sockets, which makes NCCL slower");
    bites("NCCL_DEBUG_FILE", |value| !value.contains("%p"), "all ranks write to one file; %p in its name parts them");
    if cores > 1 {
        let what = format!("a lone worker computes on one of {cores} cores; unset, it has its share of them");
        bites(env::OMP_NUM_THREADS, |value| value.trim() == "1", &what);
    }
    bites(env::TORCHELASTIC_USE_AGENT_STORE, |_| true, "this is inside a torchrun job; foxlaunch does not pass it on");
    if let Some(value) = set(env::CUDA_VISIBLE_DEVICES) {
        findings.extend(match visible::visible(Some(&value), gpus) {
            Err(VisibleError::OutOfRange { .. }) if gpus.is_empty() => None,
            Err(error) => {
                let advice = "name devices by number or GPU-…/MIG-… with commas between; see foxlaunch devices";
                Some(Finding::error(ABOUT, error.to_string(), advice))
            }
            Ok(tokens) if tokens.is_empty() && !gpus.is_empty() => Some(Finding::warn(
                ABOUT,
                format!("CUDA_VISIBLE_DEVICES={value:?} hides all {} devices", gpus.len()),
                "unset CUDA_VISIBLE_DEVICES, unless the processor is meant",
            )),
            Ok(_) => None,
        });
    }
    if findings.is_empty() {
        findings.push(Finding::ok(ABOUT, "none that would surprise"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn of(name: &str, value: &str) -> Vec<Finding> {
        let gpu = Gpu {
            index: 0,
            uuid: "GPU-a".into(),
            name: String::new(),
            memory_bytes: 0,
            memory_free_bytes: 0,
            pci_bus_id: String::new(),
        };
        judge(|asked| (asked == name).then(|| value.to_owned()), 4, &[gpu])
    }

    #[test]
    fn what_bites_is_named_with_its_value() {
        for (name, value) in [
            ("NCCL_COMM_BLOCKING", "0"),
            ("CUDA_LAUNCH_BLOCKING", "1"),
            ("NCCL_DEBUG", "trace"),
            ("NCCL_DEBUG_FILE", "/tmp/nccl.log"),
            ("OMP_NUM_THREADS", "1"),
            ("CUDA_VISIBLE_DEVICES", "-1"),
        ] {
            let findings = of(name, value);
            assert_eq!((findings.len(), findings[0].severity), (1, Severity::Warn), "{findings:?}");
            assert!(findings[0].found.contains(name) && findings[0].found.contains(value), "{findings:?}");
        }
        for value in ["0,,1", "zero", "0,0", "7"] {
            assert_eq!(of("CUDA_VISIBLE_DEVICES", value)[0].severity, Severity::Error, "{value}");
        }
    }

    #[test]
    fn what_does_no_harm_is_not_mentioned() {
        for (name, value) in [
            ("CUDA_LAUNCH_BLOCKING", "0"),
            ("NCCL_DEBUG", "WARN"),
            ("NCCL_DEBUG_FILE", "/tmp/%h.%p"),
            ("OMP_NUM_THREADS", "4"),
            ("CUDA_VISIBLE_DEVICES", "0"),
            ("CUDA_VISIBLE_DEVICES", "GPU-a"),
        ] {
            assert_eq!(of(name, value)[0].severity, Severity::Ok, "{name}={value}");
        }
        // A machine without devices has none that could be missed.
        let set = |name: &str| (name == "CUDA_VISIBLE_DEVICES").then(|| "0".to_owned());
        assert_eq!(judge(set, 1, &[])[0].severity, Severity::Ok);
    }
}
