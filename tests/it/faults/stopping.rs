//! Asked to end: who is told, when, and how long all have.

use crate::session::{Session, until};
use nix::sys::signal::Signal::{SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn case_01_grace_is_configurable() {
    let session = Session::new();
    let script =
        "trap 'sleep 1; echo saved > saved.$RANK; exit 0' TERM; echo up > up.$RANK; while :; do sleep 0.05; done";
    let mut job = session.start("--cpu --nproc 2 --grace 60s run --out run -- sh -c", script);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    job.signal(SIGTERM);
    job.end().assert_code(143);
    assert_eq!((session.read("saved.0").as_str(), session.read("saved.1").as_str()), ("saved\n", "saved\n"));
    assert!(!session.read("run/events.jsonl").contains("\"event\":\"kill\""), "no one was killed");
    session.assert_clean();

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
fn case_02_all_ranks_share_one_deadline() {
    let session = Session::new();
    let script = "trap 'date +%s%N > asked.$RANK' TERM; echo up > up.$RANK; while :; do sleep 0.02; done";
    let mut job = session.start("--cpu --nproc 4 --grace 3s run --out run -- sh -c", script);
    (0..4).for_each(|rank| job.wait_for(&format!("up.{rank}"), "up"));
    job.signal(SIGTERM);
    job.end().assert_code(143);
    let spread = |mut times: Vec<f64>| {
        assert_eq!(times.len(), 4);
        times.sort_by(f64::total_cmp);
        times[3] - times[0]
    };
    let asked = (0..4).map(|rank| session.read(&format!("asked.{rank}")).trim().parse::<f64>().unwrap() / 1e9);
    let asked = spread(asked.collect());
    assert!(asked < 0.5, "asked over {asked} s, five times what is promised");
    let events = session.read("run/events.jsonl");
    let kills = events.lines().filter(|line| line.contains("\"event\":\"kill\""));
    let time = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["time"].as_f64().unwrap();
    let killed = spread(kills.map(time).collect());
    assert!(killed < 0.5, "one after another, over {killed} s");
    session.assert_clean();
}

#[test]
fn case_03_a_terminals_interrupt_is_waited_for() {
    let session = Session::new();
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    let script = "trap 'echo asked >> asked.$RANK' INT; echo up > up.$RANK; while :; do sleep 0.05; done";
    session.write("worker.sh", script);
    let line = format!("exec {launcher} --cpu --nproc 2 --grace 1000s run --out run -- sh worker.sh");
    let mut terminal = session.terminal(&line).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut keys = terminal.stdin.take().unwrap();
    let limit = Duration::from_secs(120);
    let both =
        |name: &str, text: &str| until(limit, || (0..2).all(|rank| session.read(&format!("{name}.{rank}")) == text));
    assert!(both("up", "up\n"));
    keys.write_all(b"\x03").unwrap();
    assert!(both("asked", "asked\n"), "each worker is asked once, by us and not by the terminal too");
    assert_eq!(terminal.try_wait().unwrap(), None, "the launcher waits for them");
    keys.write_all(b"\x03").unwrap();
    assert!(until(limit, || terminal.try_wait().unwrap().is_some()), "the second one kills");
    assert_eq!(terminal.wait().unwrap().code(), Some(130));
    assert!(both("asked", "asked\n"));
    session.assert_clean();
}

#[test]
fn case_05_other_signals_reach_the_workers_once() {
    for (signal, name) in [(SIGUSR1, "USR1"), (SIGUSR2, "USR2"), (SIGWINCH, "WINCH")] {
        let session = Session::new();
        let script = format!(
            "trap 'echo got >> got.$RANK' {name}; echo up > up.$RANK; \
             while [ ! -e go ]; do sleep 0.02; done; [ -e got.$RANK ]"
        );
        let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", &script);
        job.wait_for("up.0", "up");
        job.wait_for("up.1", "up");
        job.signal(signal);
        job.wait_for("got.0", "got");
        job.wait_for("got.1", "got");
        session.write("go", "");
        job.end().assert_code(0);
        assert_eq!((session.read("got.0").as_str(), session.read("got.1").as_str()), ("got\n", "got\n"), "{name}");
    }
}

#[test]
fn case_06_an_ignored_hangup_stays_ignored() {
    let worker = "trap 'echo saved > saved; exit 0' HUP; echo up > up; while [ ! -e go ]; do sleep 0.02; done";
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    for through in ["nohup", "sh -c 'trap \"\" HUP; exec \"$@\"' sh"] {
        let session = Session::new();
        session.write("worker.sh", worker);
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(format!("exec {through} {launcher} --cpu run --out run -- sh worker.sh"));
        let mut job = session.start_command(command);
        job.wait_for("up", "up");
        job.signal(SIGHUP);
        session.write("go", "");
        job.end().assert_code(0);
        assert_eq!(session.read("saved"), "", "{through}: the workers were not asked either");
        session.assert_clean();
    }
    let session = Session::new();
    let mut job = session.start("--cpu run --out run -- sh -c", worker);
    job.wait_for("up", "up");
    job.signal(SIGHUP);
    job.end().assert_code(129);
    assert_eq!(session.read("saved"), "saved\n", "without nohup it ends in order");
    session.assert_clean();
}

#[test]
fn case_48_a_leader_is_asked_before_its_helpers() {
    let session = Session::new();
    session.write("helper.sh", "trap 'echo asked > helper; exit 0' TERM; echo up > up; while :; do sleep 0.02; done");
    // the leader needs its helper while it saves, and then leaves it behind
    let script = "trap 'sleep 0.3; [ -e helper ] || echo whole > saved; exit 0' TERM; sh helper.sh & \
        while :; do sleep 0.02; done";
    let mut job = session.start("--cpu --grace 60s run --out run -- sh -c", script);
    job.wait_for("up", "up");
    job.signal(SIGTERM);
    job.end().assert_code(143);
    assert_eq!(session.read("saved"), "whole\n", "its helper lived while it saved");
    assert_eq!(session.read("helper"), "asked\n", "the helper was asked after it");
    session.assert_clean();
}
