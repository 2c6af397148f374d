//! Whatever dies, in whatever order: nothing is left.

use crate::session::{Session, kill};
use nix::sys::signal::Signal::{SIGINT, SIGKILL, SIGTERM, SIGUSR1};
use std::time::Duration;

/// What the design promises after a kill of guardian or supervisor.
const PROMISED: Duration = Duration::from_secs(2);

/// Workers that never look up, each with a child in a session of its own that has a child.
const BUSY_FAMILY: &str = "setsid sh -c 'sleep 1000; :' & echo up > up.$RANK; while :; do :; done";

#[test]
fn nothing_survives_the_guardian() {
    let session = Session::new();
    let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", BUSY_FAMILY);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    assert!(session.survivors().len() >= 6, "{:?}", session.survivors());
    job.signal(SIGKILL);
    session.assert_gone_within(PROMISED);
    assert_eq!(job.end().code, -9);
    session.assert_clean();
}

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
fn what_a_worker_leaves_behind_is_ended_and_named() {
    let session = Session::new();
    let ended = session.sh("--cpu --nproc 2", "setsid sleep 1000 & exit 0");
    ended.assert_code(0);
    assert!(ended.err.contains("left processes behind, which are ended: "), "{}", ended.err);
    session.assert_clean();
}

#[test]
fn only_a_shells_wrapper_dying_is_not_enough() {
    let session = Session::new();
    let ended = session.sh("--cpu --nproc 2", "[ $RANK = 1 ] && exit 1; sh -c 'exec sleep 1000' & wait");
    ended.assert_code(1);
    session.assert_clean();
}

#[test]
fn asked_to_end_all_workers_have_the_grace() {
    let session = Session::new();
    let script = "trap 'echo saved > saved.$RANK; exit 0' TERM; echo up > up.$RANK; while :; do sleep 0.05; done";
    let mut job = session.start("--cpu --nproc 2 --grace 60s run --out run -- sh -c", script);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    job.signal(SIGTERM);
    let ended = job.end();
    ended.assert_code(143);
    assert_eq!((session.read("saved.0").as_str(), session.read("saved.1").as_str()), ("saved\n", "saved\n"));
    assert!(!session.read("run/events.jsonl").contains("\"event\":\"kill\""), "no one was killed");
    session.assert_clean();
}

#[test]
fn who_overruns_the_grace_is_killed_and_named() {
    let session = Session::new();
    let script = "[ $RANK = 1 ] && trap '' TERM; echo up > up.$RANK; while :; do sleep 0.05; done";
    let mut job = session.start("--cpu --nproc 2 --grace 300ms run --out run -- sh -c", script);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    job.signal(SIGTERM);
    let ended = job.end();
    ended.assert_code(143);
    assert!(ended.err.contains("rank 1 did not stop in time and is killed"), "{}", ended.err);
    assert!(!ended.err.contains("rank 0 did not stop"), "{}", ended.err);
    session.assert_clean();
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

#[test]
fn other_signals_reach_the_workers_once_and_end_nothing() {
    let session = Session::new();
    let script = "trap 'echo got >> got.$RANK; exit 0' USR1; echo up > up.$RANK; while :; do sleep 0.05; done";
    let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", script);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    job.signal(SIGUSR1);
    job.end().assert_code(0);
    assert_eq!((session.read("got.0").as_str(), session.read("got.1").as_str()), ("got\n", "got\n"));
}

#[test]
fn a_failure_ends_the_others_within_the_peer_grace() {
    let session = Session::new();
    let script = "[ $RANK = 1 ] && exit 3; trap '' TERM; echo up > up; while :; do sleep 0.05; done";
    let ended = session.sh("--cpu --nproc 2 --peer-grace 200ms --grace 1000s", script);
    ended.assert_code(3);
    assert!(ended.last_line().contains("rank 1 failed first: it exited with code 3"), "{}", ended.err);
    session.assert_clean();
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let session = Session::new();
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    session.write("nohup.sh", format!("trap '' HUP; exec {launcher} \"$@\""));
    let mut command = std::process::Command::new("sh");
    command.arg(session.path("nohup.sh")).args("--cpu run --out run -- sh -c".split(' '));
    command.arg("echo up > up; while [ ! -e go ]; do sleep 0.02; done").current_dir(session.folder());
    let mut job = command.spawn().unwrap();
    assert!(crate::session::until(Duration::from_secs(60), || session.read("up") == "up\n"));
    kill(job.id(), nix::sys::signal::Signal::SIGHUP);
    session.write("go", "");
    assert_eq!(job.wait().unwrap().code(), Some(0));
}
