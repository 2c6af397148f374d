//! Whatever dies, in whatever order: nothing is left. More of it stands in `faults/`.

use crate::session::{Session, kill};
use nix::sys::signal::Signal::{SIGINT, SIGKILL};
use std::time::Duration;

/// What the design promises after a kill of guardian or supervisor.
pub(crate) const PROMISED: Duration = Duration::from_secs(2);

/// Workers that never look up, each with a child in a session of its own that has a child.
pub(crate) const BUSY_FAMILY: &str = "setsid sh -c 'sleep 1000; :' & echo up > up.$RANK; while :; do :; done";

#[test]
fn nothing_survives_the_supervisor() {
    let session = Session::new();
    let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", BUSY_FAMILY);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    kill(job.supervisor(), SIGKILL);
    session.assert_gone_within(PROMISED);
    let ended = job.end();
    ended.assert_code(foxlaunch_shared::exit::SUPERVISOR_LOST);
    assert!(ended.last_line().contains("the supervisor was killed by signal 9"), "{}", ended.err);
    session.assert_clean();
}

#[test]
fn no_worker_survives_both_at_once() {
    let session = Session::new();
    let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", "echo up > up.$RANK; while :; do :; done");
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    let supervisor = job.supervisor();
    kill(supervisor, nix::sys::signal::Signal::SIGSTOP);
    job.signal(SIGKILL);
    kill(supervisor, SIGKILL);
    session.assert_gone_within(PROMISED);
}

#[test]
fn a_kill_during_the_start_leaves_nothing() {
    for delay in 0..40 {
        let session = Session::new();
        let job = session.start("--cpu --nproc 4 run --out run -- sh -c", "sleep 1000 & wait");
        // no event is waited for: the moment itself is what varies
        std::thread::sleep(Duration::from_micros(500 * delay));
        job.signal(SIGKILL);
        drop(job);
        session.assert_gone_within(PROMISED);
    }
}

#[test]
fn asked_twice_it_ends_now() {
    let session = Session::new();
    let script = "trap 'echo asked >> asked.$RANK' INT; echo up > up.$RANK; while :; do sleep 0.05; done";
    let mut job = session.start("--cpu --nproc 2 --grace 1000s run --out run -- sh -c", script);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    job.signal(SIGINT);
    job.wait_for("asked.0", "asked");
    job.wait_for("asked.1", "asked");
    job.signal(SIGINT);
    job.end().assert_code(130);
    assert_eq!(session.read("asked.0"), "asked\n", "a worker is asked once");
    session.assert_clean();
}
