//! A run that was killed and resumed ends with the bits of one that was not.

use crate::session::{Session, kill};
use crate::training::{SHORT, assert_same, numbers};
use nix::sys::signal::Signal::{SIGKILL, SIGTERM};

const OPTIONS: &str = "--set train.checkpoint_every=20 --set train.log_every=5";

/// The lines of metrics after which a run is killed.
const MOMENTS: [usize; 4] = [1, 9, 17, 30];

fn uninterrupted(session: &Session) -> std::collections::BTreeMap<String, Vec<u8>> {
    session.run(&format!("--cpu --nproc 2 {SHORT} {OPTIONS} --out whole")).assert_code(0);
    numbers(&session.run_dir("whole"))
}

/// Starts a run, interrupts it by `strike` once `lines` metrics are there, and resumes it to its end.
fn interrupted(session: &Session, name: &str, lines: usize, strike: impl Fn(u32, &str)) {
    let mut job = session.start(&format!("--cpu --nproc 2 {SHORT} {OPTIONS} --out {name}"), "");
    let metrics = format!("{name}/metrics.jsonl");
    job.wait_until("the moment to strike", || session.read(&metrics).lines().count() >= lines);
    strike(job.pid(), &session.read(&format!("{name}/events.jsonl")));
    let ended = job.end();
    assert_ne!(ended.code, 0, "{}", ended.err);
    session.assert_gone_within(std::time::Duration::from_secs(10));
    session.run(&format!("--cpu --nproc 2 train dqn --resume {name}")).assert_code(0);
    assert!(session.path(name).join("logs/attempt-2/rank-0.log").exists(), "attempts count on");
}

/// The pid of `rank`, out of the events.
fn pid_of(events: &str, rank: u64) -> u32 {
    let spawned = |line: &str| -> Option<u32> {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        (event["event"] == "spawn" && event["rank"] == rank).then(|| event["pid"].as_u64().unwrap() as u32)
    };
    events.lines().find_map(spawned).expect("it was started")
}

#[test]
fn after_a_killed_worker() {
    let session = Session::new();
    let whole = uninterrupted(&session);
    for (n, lines) in MOMENTS.into_iter().enumerate() {
        let name = format!("run-{n}");
        interrupted(&session, &name, lines, |_, events| kill(pid_of(events, n as u64 % 2), SIGKILL));
        assert_same(&whole, &numbers(&session.run_dir(&name)));
    }
}

#[test]
fn after_a_killed_launcher() {
    let session = Session::new();
    let whole = uninterrupted(&session);
    for (n, lines) in MOMENTS.into_iter().enumerate() {
        let name = format!("run-{n}");
        interrupted(&session, &name, lines, |guardian, _| kill(guardian, SIGKILL));
        assert_same(&whole, &numbers(&session.run_dir(&name)));
    }
}

#[test]
fn after_an_orderly_stop_nothing_is_lost() {
    let session = Session::new();
    let whole = uninterrupted(&session);
    interrupted(&session, "run", 12, |guardian, _| kill(guardian, SIGTERM));
    assert_same(&whole, &numbers(&session.run_dir("run")));
    let events = session.read("run/events.jsonl");
    assert!(!events.contains("\"event\":\"kill\""), "the workers stopped when told: {events}");
}

#[test]
fn with_fewer_workers_than_it_began_with() {
    let session = Session::new();
    let shards = "--set parallel.virtual_shards=3";
    session.run(&format!("--cpu --nproc 3 {SHORT} {shards} --out whole")).assert_code(0);
    let mut job =
        session.start(&format!("--cpu --nproc 3 {SHORT} {shards} --set train.checkpoint_every=20 --out run"), "");
    job.wait_until("metrics", || session.read("run/metrics.jsonl").lines().count() >= 2);
    job.signal(SIGKILL);
    drop(job);
    session.assert_gone_within(std::time::Duration::from_secs(10));
    session.run("--cpu --nproc 2 train dqn --resume run --set train.checkpoint_every=50").assert_code(0);
    let weights = |name: &str| {
        let all = numbers(&session.run_dir(name));
        all.into_iter().filter(|(file, _)| file.contains("best") && file.ends_with("model.safetensors")).collect()
    };
    assert_same(&weights("whole"), &weights("run"));
}

#[test]
fn a_refused_resume_harms_nothing() {
    let session = Session::new();
    session.run(&format!("--cpu --nproc 2 {SHORT} --out run")).assert_code(0);
    let before = (session.read("run/config.toml"), numbers(&session.run_dir("run")));
    let refused = session.run("--cpu --nproc 2 train dqn --resume run --steps 99999 --set dqn.gamma=0.5");
    refused.assert_code(78);
    assert!(refused.err.contains("train.steps = 99999 instead of 1600"), "{}", refused.err);
    assert!(refused.err.contains("dqn.gamma = 0.5 instead of 0.9"), "{}", refused.err);
    assert_eq!(before.0, session.read("run/config.toml"));
    session.run("--cpu --nproc 2 train dqn --resume run").assert_code(0);
    assert_same(&before.1, &numbers(&session.run_dir("run")));
}

#[test]
fn a_run_in_use_is_refused() {
    let session = Session::new();
    let mut job = session.start("--cpu train dqn --smoke --set train.steps=100000000 --out run", "");
    job.wait_for("run/events.jsonl", "first_step");
    let refused = session.run("--cpu train dqn --resume run");
    assert!(refused.assert_code(73).last_line().contains("is in use by another foxlaunch"), "{}", refused.err);
    job.signal(SIGKILL);
}

#[test]
fn a_finished_run_has_nothing_to_go_on_with() {
    let session = Session::new();
    session.run(&format!("--cpu --nproc 2 {SHORT} --out run")).assert_code(0);
    let before = numbers(&session.run_dir("run"));
    session.run("--cpu --nproc 2 train dqn --resume run").assert_code(0);
    assert_same(&before, &numbers(&session.run_dir("run")));
}
