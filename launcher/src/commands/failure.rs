//! The report of a failure: what came of it first, the first cause last, so that it stands at the bottom of the
//! screen.

use crate::plan::LaunchPlan;
use crate::plan::duration::show;
use crate::supervisor::act::Finished;
use crate::supervisor::event::Stopped;
use foxlaunch_shared::exit;
use foxlaunch_shared::run_dir::RunDir;

/// The lines to show for a job that did not end well; empty if it did.
pub fn failure(plan: &LaunchPlan, finished: &Finished) -> Vec<String> {
    let outcome = &finished.outcome;
    let mut lines = Vec::new();
    for process in &outcome.unkillable {
        lines.push(format!("process {process} does not end, even when killed; it may still hold its device"));
    }
    let Some(cause) = &outcome.cause else {
        let took = show(finished.took);
        match outcome.stopped_by {
            Some(Stopped::Signal(signal)) => {
                let name = nix::sys::signal::Signal::try_from(signal).map_or("a signal", |signal| signal.as_str());
                lines.push(format!("stopped by {name} after {took}"));
            }
            Some(Stopped::Preempted) if outcome.code == exit::TRY_AGAIN => {
                lines.push(format!(
                    "stopped in order after {took}, to go on later with --resume {}",
                    plan.run.path().display()
                ));
            }
            Some(Stopped::Preempted) => lines.push(format!("stopped after {took}, but not every worker in order")),
            None => {}
        }
        return lines;
    };
    for (rank, how) in &outcome.others {
        lines.push(format!("rank {rank} {how}"));
    }
    let log = RunDir::log(&plan.logs, outcome.attempt, cause.rank);
    if let Some(tail) = finished.tails.get(&cause.rank).filter(|tail| !tail.is_empty()) {
        lines.push(format!("last lines of rank {} (all: {}):", cause.rank, log.display()));
        lines.extend(tail.iter().map(|line| format!("  | {line}")));
    }
    let what = cause.describe();
    let first = if plan.devices.len() > 1 { " failed first: it" } else { "" };
    lines.push(format!("rank {}{first} {what} (after {:.3} s)", cause.rank, cause.at.as_secs_f64()));
    lines
}
