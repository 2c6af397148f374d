//! `foxlaunch doctor`: what here would hinder a job, and what to do about it. Every probe has a deadline, since what
//! is sick may not answer. The code is 0 unless something is an error, then 69.

mod gpus;
mod machine;
mod variables;
mod workers;

use super::Done;
use crate::process::{print, signals};
use clap::Args;
use foxlaunch_shared::exit;
use serde::Serialize;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Show what would hinder a job here, and what to do about it.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// How long all probes together may take. A worker's and the driver's own deadlines are shorter.
const DEADLINE: Duration = Duration::from_secs(30);

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Jobs run, but slower or less safely.
    Warn,
    /// Some job cannot run.
    Error,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub about: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// What to do, where something is to be done.
    pub advice: Option<String>,
}

impl Finding {
    fn ok(about: &'static str, found: impl Into<String>) -> Finding {
        Finding { about, severity: Severity::Ok, found: found.into(), advice: None }
    }

    fn warn(about: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { about, severity: Severity::Warn, found: found.into(), advice: Some(advice.into()) }
    }

    fn error(about: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { about, severity: Severity::Error, found: found.into(), advice: Some(advice.into()) }
    }
}

type Probe = (&'static str, fn() -> Vec<Finding>);

/// All probes, in the order in which their findings are shown.
const PROBES: [Probe; 10] = [
    ("driver", gpus::driver),
    ("topology", gpus::topology),
    ("nccl", gpus::nccl),
    ("workers", workers::workers),
    ("shared memory", machine::shared_memory),
    ("folders of jobs", machine::scratch_folders),
    ("open files", machine::open_files),
    ("disk", machine::disk),
    ("cgroup", machine::cgroup),
    ("variables", variables::variables),
];

/// Does it.
pub fn doctor(args: &DoctorArgs) -> Done {
    let findings = ask_all(&PROBES, DEADLINE);
    if args.json {
        print::out(format_args!("{:#}", serde_json::json!({ "findings": findings })));
    } else {
        findings.iter().flat_map(lines).for_each(print::out);
    }
    let worst = findings.iter().map(|finding| finding.severity).max();
    Ok(if worst == Some(Severity::Error) { exit::UNAVAILABLE } else { exit::OK })
}

/// Asks side by side, each on a thread that is left behind if it does not come back.
fn ask_all(probes: &[Probe], deadline: Duration) -> Vec<Finding> {
    let start = Instant::now();
    let asked: Vec<_> = probes.iter().map(|(name, probe)| (*name, ask(name, *probe))).collect();
    let mut findings = Vec::new();
    for (name, answer) in asked {
        let left = deadline.saturating_sub(start.elapsed());
        match answer.recv_timeout(left) {
            Ok(found) => findings.extend(found),
            Err(_) => findings.push(Finding::error(
                name,
                format!("no answer within {} s", deadline.as_secs()),
                "what it asks hangs: see dmesg, and try again after a restart of that service or machine",
            )),
        }
    }
    findings
}

fn ask(name: &str, probe: fn() -> Vec<Finding>) -> mpsc::Receiver<Vec<Finding>> {
    let (answer, wait) = mpsc::channel();
    // Without a thread the sender is dropped, which reads as no answer.
    let _ = signals::spawn_deaf(name, move || answer.send(probe()));
    wait
}

fn lines(finding: &Finding) -> Vec<String> {
    let word = match finding.severity {
        Severity::Ok => "ok   ",
        Severity::Warn => "warn ",
        Severity::Error => "ERROR",
    };
    let found = finding.found.replace('\n', "\n      ");
    let mut lines = vec![format!("{word} {}: {found}", finding.about)];
    lines.extend(finding.advice.iter().map(|advice| format!("      {}", advice.replace('\n', "\n      "))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_hangs_or_panics_is_a_finding() {
        let probes: [Probe; 3] = [
            ("hangs", || {
                loop {
                    std::thread::park();
                }
            }),
            ("panics", || panic!("a fault of the probe")),
            ("answers", || vec![Finding::ok("answers", "well")]),
        ];
        let findings = ask_all(&probes, Duration::from_millis(300));
        let severities: Vec<_> = findings.iter().map(|finding| (finding.about, finding.severity)).collect();
        assert_eq!(severities, [("hangs", Severity::Error), ("panics", Severity::Error), ("answers", Severity::Ok)]);
    }

    #[test]
    fn each_finding_that_is_not_ok_says_what_to_do() {
        for finding in ask_all(&PROBES[4..], DEADLINE) {
            assert_eq!(finding.advice.is_some(), finding.severity > Severity::Ok, "{finding:?}");
        }
    }
}
