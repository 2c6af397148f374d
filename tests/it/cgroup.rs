//! A job's own cgroup, where this user can have one.

use crate::session::{Running, Session, kill, until};
use crate::watching::{BUSY_FAMILY, PROMISED};
use nix::sys::signal::Signal::{SIGKILL, SIGSTOP};
use std::path::PathBuf;

/// Starts a job whose workers have families; its cgroup's folder, if it has one.
fn start(session: &Session) -> Option<(Running<'_>, PathBuf)> {
    let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", BUSY_FAMILY);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    let scratch = std::fs::read_dir(session.scratch()).unwrap().next().unwrap().unwrap().path();
    let Ok(noted) = std::fs::read_to_string(scratch.join("cgroup")) else {
        eprintln!("SKIPPED: no cgroup of version 2 is writable here");
        return None;
    };
    Some((job, noted.into()))
}

#[test]
fn workers_and_what_they_start_are_in_the_jobs_cgroup_which_ends_with_it() {
    let session = Session::new();
    let Some((job, folder)) = start(&session) else { return };
    let text = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap();
    let inside: Vec<u32> = text.lines().map(|pid| pid.parse().unwrap()).collect();
    let outside = [job.pid(), job.supervisor()];
    assert!(inside.len() >= 4 && outside.iter().all(|pid| !inside.contains(pid)), "{inside:?} {outside:?}");
    session.run("stop --now run").assert_code(0);
    job.end().assert_code(143);
    assert!(!folder.exists());
    session.assert_clean();
}

#[test]
fn both_killed_at_once_leave_nothing_either() {
    let session = Session::new();
    let Some((job, folder)) = start(&session) else { return };
    let supervisor = job.supervisor();
    // stopped first, so that it cannot act when it sees the other's end
    kill(supervisor, SIGSTOP);
    job.signal(SIGKILL);
    kill(supervisor, SIGKILL);
    session.assert_gone_within(PROMISED);
    assert!(until(PROMISED * 5, || !folder.exists()));
    drop(job);
    session.assert_clean();
}

#[test]
fn all_of_ours_killed_at_once_are_cleaned_up_after_by_the_next_start() {
    let session = Session::new();
    let Some((job, folder)) = start(&session) else { return };
    assert_eq!(crate::session::children(job.pid()).len(), 2, "the supervisor, and the one that outlives both");
    job.kill_all_of_ours();
    assert_eq!(job.end().code, -9);
    assert!(!session.survivors().is_empty(), "the workers' families live on");
    session.run("--cpu run --out next -- true").assert_code(0);
    session.assert_gone_within(PROMISED);
    assert!(!folder.exists());
    session.assert_clean();
}

#[test]
fn a_launch_inside_a_worker_has_a_cgroup_below() {
    let session = Session::new();
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    let inner = format!("{launcher} --cpu --nproc 1 run --out inner -- sh -c 'echo up > up; sleep 1000'");
    let mut job = session.start("--cpu run --out run -- sh -c", &inner);
    job.wait_for("up", "up");
    job.signal(SIGKILL);
    session.assert_gone_within(PROMISED);
    drop(job);
    let noted = || std::fs::read_dir(session.scratch()).unwrap().count();
    assert!(until(PROMISED * 5, || noted() <= 1), "the outer job's folder is gone, the inner one's may stay");
    session.run("--cpu run --out next -- true").assert_code(0);
    session.assert_clean();
}
