//! Our own worker binaries: whether they are there, start, and what they were built with.

use super::Finding;
use crate::devices::nvml;
use crate::plan::worker_binary::{WorkerBinary, WorkerError};

const ABOUT: &str = "workers";

pub(super) fn workers() -> Vec<Finding> {
    let gpus = nvml::gpus().map_or(0, |gpus| gpus.len());
    let mut findings = vec![one(false, false)];
    if gpus > 0 {
        findings.push(one(true, gpus > 1));
    }
    findings
}

fn one(cuda: bool, several: bool) -> Finding {
    match WorkerBinary::find(cuda, several) {
        Ok(worker) => {
            let path = worker.path.display();
            let built = worker.about().map(|about| match (about.cuda, about.nccl) {
                (false, _) => "for the processor".to_owned(),
                (true, false) => "with CUDA, without NCCL".to_owned(),
                (true, true) => "with CUDA and NCCL".to_owned(),
            });
            match built {
                Ok(built) => {
                    Finding::ok(ABOUT, format!("{path}, version {}, built {built}", env!("CARGO_PKG_VERSION")))
                }
                Err(error) => Finding::error(ABOUT, error.to_string(), "build it anew"),
            }
        }
        // The message ends with the line that builds it. Programs under `run` need no worker.
        Err(error @ WorkerError::Missing { .. }) => {
            Finding::warn(ABOUT, error.to_string(), "without it there is no `train`; `run` needs none")
        }
        Err(error) => Finding::error(ABOUT, error.to_string(), "until then `train` cannot use it; `run` can"),
    }
}
