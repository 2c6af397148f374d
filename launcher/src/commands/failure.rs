//! The report of a failure: what came of it first, the first cause last, so that it stands at the bottom of the
//! screen.

use crate::plan::LaunchPlan;
use crate::plan::duration::show;
use crate::supervisor::act::Finished;
use foxlaunch_shared::run_dir::RunDir;

/// The lines to show for a job that did not end well; empty if it did.
pub fn failure(plan: &LaunchPlan, finished: &Finished) -> Vec<String> {
    let outcome = &finished.outcome;
    let mut lines = Vec::new();
    for process in &outcome.unkillable {
        lines.push(format!("process {process} does not end, even when killed; it may still hold its device"));
    }
    let Some(cause) = &outcome.cause else {
        if let Some(signal) = outcome.stopped_by {
            let name = nix::sys::signal::Signal::try_from(signal).map_or("a signal", |signal| signal.as_str());
            lines.push(format!("stopped by {name} after {}", show(finished.took)));
        }
        return lines;
    };
    for (rank, how) in &outcome.others {
        lines.push(format!("rank {rank} {how}"));
    }
    let log = RunDir::log(&plan.logs, plan.attempt, cause.rank);
    if let Some(tail) = finished.tails.get(&cause.rank).filter(|tail| !tail.is_empty()) {
        lines.push(format!("last lines of rank {} (all: {}):", cause.rank, log.display()));
        lines.extend(tail.iter().map(|line| format!("  | {line}")));
    }
    let what = match (&cause.fault, cause.how) {
        (Some(fault), Some(how)) => format!("{how}: {}", fault.message),
        (Some(fault), None) => format!("could not be started: {}", fault.message),
        (None, Some(how)) => how.to_string(),
        (None, None) => "could not be started".to_owned(),
    };
    let first = if plan.devices.len() > 1 { " failed first: it" } else { "" };
    lines.push(format!("rank {}{first} {what} (after {:.3} s)", cause.rank, cause.at.as_secs_f64()));
    lines
}
