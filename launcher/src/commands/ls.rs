//! `foxlaunch ls`: the jobs of this user on this machine.

use super::Done;
use crate::plan::duration;
use crate::process::print;
use crate::registry::{self, Job, State};
use clap::Args;
use foxlaunch_shared::exit;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Show the jobs of this user on this machine.
#[derive(Args, Debug)]
pub struct LsArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

const HEAD: [&str; 7] = ["RUN", "VERB", "STATE", "ATTEMPT", "WORKERS", "AGE", "FOLDER"];

/// Does it.
pub fn ls(args: &LsArgs) -> Done {
    let jobs = registry::jobs();
    if args.json {
        let all: Vec<_> = jobs.iter().map(as_json).collect();
        print::out(format_args!("{:#}", serde_json::Value::from(all)));
        return Ok(exit::OK);
    }
    let rows: Vec<[String; 7]> = jobs.iter().map(row).collect();
    if rows.is_empty() {
        print::out("no jobs of this user on this machine");
        return Ok(exit::OK);
    }
    table(&rows).iter().for_each(print::out);
    Ok(exit::OK)
}

fn as_json(job: &Job) -> serde_json::Value {
    serde_json::json!({
        "run": job.name,
        "verb": job.verb,
        "state": job.state(),
        "attempt": job.attempt(),
        "workers": job.workers,
        "started": job.started,
        "age_s": age(job).as_secs_f64(),
        "guardian": job.guardian.pid,
        "folder": job.folder,
    })
}

fn row(job: &Job) -> [String; 7] {
    let state = match job.state() {
        State::Running => "running",
        State::Ended => "ended",
        State::Stale => "stale",
        State::Unknown => "unknown",
    };
    let attempt = job.attempt().map_or_else(|| "-".to_owned(), |attempt| attempt.to_string());
    let age = duration::show(Duration::from_secs(age(job).as_secs()));
    let folder = job.folder.display().to_string();
    [job.name.clone(), job.verb.clone(), state.to_owned(), attempt, job.workers.to_string(), age, folder]
}

fn age(job: &Job) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A clock that was set back makes no job younger than new.
    Duration::try_from_secs_f64(now.as_secs_f64() - job.started).unwrap_or_default()
}

/// The lines of a table, each column as wide as its widest cell.
fn table(rows: &[[String; 7]]) -> Vec<String> {
    let head = HEAD.map(str::to_owned);
    let all = || std::iter::once(&head).chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let row = ["run-1", "train dqn", "running", "1", "2", "3s", "/a b"].map(str::to_owned);
        assert_eq!(
            table(&[row]),
            [
                "RUN    VERB       STATE    ATTEMPT  WORKERS  AGE  FOLDER",
                "run-1  train dqn  running  1        2        3s   /a b"
            ]
        );
    }
}
