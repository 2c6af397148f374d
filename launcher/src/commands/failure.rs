//! The report of a failure: what came of it first, the first cause last, so that it stands at the bottom of the
//! screen.

use super::hints::hint;
use crate::plan::LaunchPlan;
use crate::plan::duration::show;
use crate::supervisor::act::Finished;
use crate::supervisor::event::Stopped;
use foxlaunch_shared::exit;
use foxlaunch_shared::run_dir::RunDir;

/// The lines to show for a job that did not end well; empty if it did. `out_of_memory` says that the kernel killed
/// some process for lack of memory meanwhile.
pub fn failure(plan: &LaunchPlan, finished: &Finished, out_of_memory: bool) -> Vec<String> {
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
                let go_on = match plan.own_worker && plan.run.checkpoints().join("latest").exists() {
                    true => format!("; it goes on with --resume {}", plan.run.path().display()),
                    false => String::new(),
                };
                lines.push(format!("stopped by {name} after {took}{go_on}"));
            }
            Some(Stopped::Preempted) if outcome.code == exit::TRY_AGAIN => {
                let how = match plan.own_worker {
                    true => format!("to go on later with --resume {}", plan.run.path().display()),
                    false => "to be started again".to_owned(),
                };
                lines.push(format!("stopped in order after {took}, {how}"));
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
    let mut what = cause.describe();
    if let Some(words) = error_file(&RunDir::error_file(&plan.logs, outcome.attempt, cause.rank)) {
        what += &format!(": {words}");
    }
    let tail = finished.tails.get(&cause.rank).map_or(&[][..], Vec::as_slice);
    lines.extend(hint(cause.how, tail, out_of_memory).map(|hint| format!("hint: {hint}")));
    let first = if plan.devices.len() > 1 { " failed first: it" } else { "" };
    lines.push(format!("rank {}{first} {what} (after {:.3} s)", cause.rank, cause.at.as_secs_f64()));
    lines
}

/// What a program wrote about its error into the file that torchrun's contract names: PyTorch's `@record` writes
/// `{"message": {"message": "…"}}`, others plain `{"message": "…"}`. The last line of it says what was wrong.
fn error_file(path: &std::path::Path) -> Option<String> {
    // Nobody but a worker writes there, and a worker may write anything.
    let text = crate::process::read_regular(path, 1 << 20).ok()?;
    let record: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let message = record["message"]["message"].as_str().or(record["message"].as_str())?;
    let last = message.lines().rfind(|line| !line.trim().is_empty())?;
    Some(last.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::error_file;

    #[test]
    fn error_files_of_both_forms_are_read_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error.json");
        assert_eq!(error_file(&path), None);
        for (text, words) in [
            (
                r#"{"message": {"message": "Traceback\n  x\nValueError: bad batch\n", "extraInfo": {}}}"#,
                Some("ValueError: bad batch"),
            ),
            (r#"{"message": "plain"}"#, Some("plain")),
            (r#"{"message": 7}"#, None),
            ("[]", None),
            ("{", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(error_file(&path).as_deref(), words, "{text}");
        }
        // a pipe that no one writes to would be waited at for ever
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(error_file(&pipe), None);
        assert_eq!(error_file(folder.path()), None);
    }
}
