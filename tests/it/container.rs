//! The launcher as the first process of a container: no one is there to take its orphans, and signals without a
//! handler do nothing to it.

use crate::session::{Running, Session, children, kill, state};
use nix::sys::signal::Signal::{SIGCONT, SIGINT, SIGKILL, SIGTERM, SIGTSTP};
use std::process::Command;
use std::time::Duration;

/// How a PID namespace is made here: as root, or with a user namespace; `None`, with a word, where neither may be.
fn unshare(how: &str) -> Option<Command> {
    let as_user = if nix::unistd::geteuid().is_root() { "" } else { "-Ur " };
    let mut words = format!("{as_user}{how}");
    let works = |words: &str| Command::new("unshare").args(words.split_whitespace()).arg("true").output();
    if !works(&words).is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this machine lets no test make a PID namespace (unshare {words})");
        return None;
    }
    words += " --";
    let mut command = Command::new("unshare");
    command.args(words.split_whitespace()).arg(env!("CARGO_BIN_EXE_fox-test-launcher"));
    Some(command)
}

/// Starts the launcher as the first process; with the pid that it has outside.
fn start<'a>(session: &'a Session, options: &str, script: &str) -> Option<(Running<'a>, u32)> {
    let mut command = unshare("-pf --mount-proc")?;
    command.args(format!("--cpu --nproc 2 {options} run --out run -- sh -c").split_whitespace()).arg(script);
    let job = session.start_command(command);
    let first = job.supervisor();
    Some((job, first))
}

#[test]
fn the_first_process_ends_with_the_right_code() {
    for (script, code) in [("exit 0", 0), ("[ $RANK = 1 ] && exit 7; sleep 1000", 7), ("kill -9 $$", 137)] {
        let session = Session::new();
        let Some((job, _)) = start(&session, "", script) else { return };
        job.end().assert_code(code);
        session.assert_clean();
    }
}

#[test]
fn the_first_process_hears_signals() {
    for (signal, code) in [(SIGTERM, 143), (SIGINT, 130)] {
        let session = Session::new();
        let script =
            "trap 'echo saved > saved.$RANK; exit 0' TERM INT; echo up > up.$RANK; while :; do sleep 0.02; done";
        let Some((mut job, first)) = start(&session, "--grace 120s", script) else { return };
        job.wait_for("up.0", "up");
        job.wait_for("up.1", "up");
        // It cannot be stopped, but its workers can, and go on.
        kill(first, SIGTSTP);
        let workers = children(children(first)[0]);
        let stopped = |worker: &u32| matches!(state(*worker), Some('T' | 'D'));
        job.wait_until("the workers' stop", || workers.iter().all(stopped));
        kill(first, SIGCONT);
        kill(first, signal);
        job.end().assert_code(code);
        assert_eq!((session.read("saved.0").as_str(), session.read("saved.1").as_str()), ("saved\n", "saved\n"));
        session.assert_clean();
    }
}

#[test]
fn the_first_process_reaps_what_is_not_its_own() {
    let session = Session::new();
    let Some((mut job, first)) = start(&session, "", "echo up > up.$RANK; while [ ! -e go ]; do sleep 0.02; done")
    else {
        return;
    };
    job.wait_for("up.1", "up");
    // as `docker exec` does: what it leaves becomes the first process's, which never started it
    let enter = ["-t", &first.to_string(), "-p", "--", "sh", "-c", "(sleep 0.2; echo > stranger) & exit 0"];
    let mut stranger = Command::new("nsenter");
    let entered = session.start_command({
        stranger.args(enter);
        stranger
    });
    if entered.end().code != 0 {
        eprintln!("SKIPPED: this machine lets no test enter a PID namespace");
    } else {
        job.wait_for("stranger", "\n");
        let no_zombie = || children(first).iter().all(|child| state(*child) != Some('Z'));
        job.wait_until("the reaping of a stranger", no_zombie);
    }
    session.write("go", "");
    job.end().assert_code(0);
    session.assert_clean();
}

#[test]
fn the_first_processs_end_ends_all() {
    let session = Session::new();
    let Some((mut job, first)) = start(&session, "", crate::watching::BUSY_FAMILY) else { return };
    job.wait_for("up.0", "up");
    kill(first, SIGKILL);
    session.assert_gone_within(Duration::from_secs(2));
    drop(job);
}

#[test]
fn a_namespace_without_its_proc_is_refused() {
    // There /proc shows other processes than we could end: none of them may be touched.
    let session = Session::new();
    let Some(mut command) = unshare("-pf") else { return };
    command.args("--cpu run --out run -- true".split(' '));
    let ended = session.start_command(command).end();
    assert!(ended.assert_code(73).err.contains("unshare --mount-proc"), "{}", ended.err);
    session.assert_clean();
}
