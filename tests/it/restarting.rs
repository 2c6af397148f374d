//! A world that failed is started again, with judgement.

use crate::session::{Session, kill};
use crate::training::{SHORT, assert_same, numbers};
use nix::sys::signal::Signal::{SIGKILL, SIGTERM, SIGUSR1};

fn count(session: &Session, event: &str) -> usize {
    session.read("run/events.jsonl").matches(&format!("\"event\":\"{event}\"")).count()
}

#[test]
fn the_whole_world_comes_back_as_the_next_attempt() {
    let session = Session::new();
    let script = "echo $TORCHELASTIC_RESTART_COUNT >> counts.$RANK; \
        [ $FOXLAUNCH_ATTEMPT = 1 ] && [ $RANK = 1 ] && exit 9; [ $FOXLAUNCH_ATTEMPT = 1 ] && sleep 1000; exit 0";
    let ended = session.sh("--cpu --nproc 2 --max-restarts 3", script);
    ended.assert_code(0);
    assert_eq!((session.read("counts.0").as_str(), session.read("counts.1").as_str()), ("0\n1\n", "0\n1\n"));
    assert!(ended.err.contains("rank 1 exited with code 9; restart 1 of 3 in"), "{}", ended.err);
    assert!(session.path("run/logs/attempt-2/rank-1.log").exists());
    assert_eq!((count(&session, "restart"), count(&session, "spawn")), (1, 4));
    session.assert_clean();
}

#[test]
fn the_budget_ends_it_with_the_causes_code() {
    let session = Session::new();
    let ended = session.sh("--cpu --max-restarts 1", "exit 9");
    ended.assert_code(9);
    assert_eq!(count(&session, "spawn"), 2);
}

/// Run by its case in `faults/`.
pub(crate) fn what_fails_the_same_way_each_time_is_not_repeated() {
    for (script, code) in [("exit 2", 2), ("exit 65", 65), ("/no/such", 127)] {
        let session = Session::new();
        session.sh("--cpu --max-restarts 5", script).assert_code(code);
        assert_eq!(count(&session, "spawn"), 1, "{script}");
    }
}

#[test]
fn a_signal_between_two_attempts_ends_it() {
    let session = Session::new();
    let mut job = session.start("--cpu --max-restarts 5 run --out run -- sh -c", "exit 9");
    job.wait_until("the wait", || count(&session, "restart") > 0);
    job.signal(SIGTERM);
    job.end().assert_code(143);
    session.assert_clean();
}

#[test]
fn a_training_whose_worker_is_killed_ends_with_the_same_bits() {
    let session = Session::new();
    let options = "--set train.checkpoint_every=20 --set train.log_every=5";
    session.run(&format!("--cpu --nproc 2 {SHORT} {options} --out whole")).assert_code(0);
    let mut job = session.start(&format!("--cpu --nproc 2 --max-restarts 2 {SHORT} {options} --out run"), "");
    for (attempt, lines) in [(1, 6), (2, 20)] {
        let begun = format!("\"event\":\"ready\",\"attempt\":{attempt},\"rank\":1");
        job.wait_for("run/events.jsonl", &begun);
        job.wait_until("steps", || session.read("run/metrics.jsonl").lines().count() >= lines);
        let events = session.read("run/events.jsonl");
        let spawn = events.lines().rfind(|line| line.contains("\"event\":\"spawn\"")).unwrap().to_owned();
        let spawn: serde_json::Value = serde_json::from_str(&spawn).unwrap();
        assert_eq!(spawn["attempt"], attempt);
        kill(spawn["pid"].as_u64().unwrap() as u32, SIGKILL);
        job.wait_until("the restart", || count(&session, "restart") == attempt as usize);
    }
    job.end().assert_code(0);
    assert_same(&numbers(&session.run_dir("whole")), &numbers(&session.run_dir("run")));
    session.assert_clean();
}

/// A worker that behaves, but for rank 2 of a world of four, from the second attempt on.
fn with_a_bad_place(session: &Session) -> std::path::PathBuf {
    let worker = env!("CARGO_BIN_EXE_fox-test-worker");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = train ] && [ $WORLD_SIZE$RANK = 42 ] && [ $FOXLAUNCH_ATTEMPT -gt 1 ] && exit 7\n\
        exec {worker} \"$@\"\n"
    );
    session.program("worker.sh", &script)
}

#[test]
fn a_training_that_loses_a_place_for_good_ends_with_the_same_bits_on_three_workers() {
    let session = Session::new();
    let options = "--set train.checkpoint_every=20 --set train.log_every=5";
    session.run(&format!("--cpu --nproc 4 {SHORT} {options} --out whole")).assert_code(0);
    let words = format!("--cpu --nproc 4 --min-procs 2 --max-restarts 3 {SHORT} {options} --out run");
    let mut command = session.command(&words);
    command.env("FOXLAUNCH_WORKER", with_a_bad_place(&session));
    let mut job = session.start_command(command);
    job.wait_until("steps", || session.read("run/metrics.jsonl").lines().count() >= 8);
    let events = session.read("run/events.jsonl");
    let spawned = |event: &serde_json::Value| event["event"] == "spawn" && event["rank"] == 2;
    let events: Vec<serde_json::Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pid = events.iter().find(|event| spawned(event)).unwrap()["pid"].as_u64().unwrap();
    kill(pid as u32, SIGKILL);
    let ended = job.end();
    ended.assert_code(0);
    assert!(
        ended.err.contains("the place of rank 2 (as it was at first) is lost: it failed first again"),
        "{}",
        ended.err
    );
    assert!(ended.err.contains("going on with 3 workers"), "{}", ended.err);
    let events = session.read("run/events.jsonl");
    assert!(events.contains("\"event\":\"lost\",\"attempt\":2,\"place\":2"), "{events}");
    assert!(events.contains("\"event\":\"begin\",\"attempt\":3,\"world_size\":3"), "{events}");
    assert_same(&numbers(&session.run_dir("whole")), &numbers(&session.run_dir("run")));
    session.assert_clean();
}

#[test]
fn fewer_workers_get_a_contract_of_their_own() {
    let session = Session::new();
    let script = "echo $RANK/$WORLD_SIZE/$LOCAL_WORLD_SIZE/$ROLE_WORLD_SIZE/$TORCHELASTIC_RESTART_COUNT >> seen; \
        [ $WORLD_SIZE = 3 ] && [ $RANK = 0 ] && exit 9; exec sleep 0.2";
    session.sh("--cpu --nproc 3 --min-procs 2 --max-restarts 2", script).assert_code(0);
    let seen = session.read("seen");
    let last: std::collections::BTreeSet<&str> = seen.lines().filter(|line| line.ends_with("/2")).collect();
    assert_eq!(last.into_iter().collect::<Vec<_>>(), ["0/2/2/2/2", "1/2/2/2/2"], "{seen}");
}

#[test]
fn without_enough_workers_the_causes_code_ends_it() {
    let session = Session::new();
    let ended =
        session.sh("--cpu --nproc 2 --min-procs 2 --max-restarts 2", "[ $RANK = 1 ] && exit 9; exec sleep 1000");
    ended.assert_code(9);
    assert_eq!((count(&session, "lost"), count(&session, "begin")), (0, 3));
}

#[test]
fn a_minimum_that_makes_no_sense_is_refused() {
    let session = Session::new();
    for (options, words) in [
        ("--nproc 2 --min-procs 3 --max-restarts 1", "--min-procs 3 is more than the 2 workers"),
        ("--nproc 2 --min-procs 1", "give --max-restarts too"),
        ("--nproc 2 --min-procs 0", "--min-procs"),
    ] {
        let ended = session.run(&format!("--cpu {options} run --out run -- true"));
        ended.assert_code(2);
        assert!(ended.err.contains(words), "{}", ended.err);
    }
}

#[test]
fn restarts_before_the_window_no_longer_count() {
    let session = Session::new();
    // Three failures, but never two within the window: each attempt outlasts it.
    let script = "[ $FOXLAUNCH_ATTEMPT = 4 ] && exit 0; sleep 0.5; exit 9";
    session.sh("--cpu --max-restarts 1 --restart-window 300ms", script).assert_code(0);
    assert_eq!(count(&session, "restart"), 3);
}

#[test]
fn the_schedulers_notice_leaves_a_checkpoint_and_asks_to_go_on_later() {
    let session = Session::new();
    session.run(&format!("--cpu --nproc 2 {SHORT} --set train.log_every=5 --out whole")).assert_code(0);
    let words = format!("--cpu --nproc 2 --checkpoint-signal USR1 {SHORT} --set train.log_every=5 --out run");
    let mut job = session.start(&words, "");
    job.wait_until("steps", || session.read("run/metrics.jsonl").lines().count() >= 8);
    job.signal(SIGUSR1);
    let ended = job.end();
    ended.assert_code(foxlaunch_shared::exit::TRY_AGAIN);
    assert!(ended.last_line().contains("go on later with --resume"), "{}", ended.err);
    session.run("--cpu --nproc 2 train dqn --resume run").assert_code(0);
    assert_same(&numbers(&session.run_dir("whole")), &numbers(&session.run_dir("run")));
}

#[test]
fn the_time_limit_does_the_same() {
    let session = Session::new();
    let script = "trap 'exit 0' TERM; while :; do sleep 0.02; done";
    let ended = session.sh("--cpu --time-limit 1s --grace 600ms", script);
    ended.assert_code(foxlaunch_shared::exit::TRY_AGAIN);
    // `run` has no --resume
    assert!(ended.last_line().ends_with(", to be started again"), "{}", ended.err);
    session.assert_clean();
}

#[test]
fn who_fails_to_save_is_not_said_to_go_on_later() {
    let session = Session::new();
    let script = "trap 'echo disk full; exit 28' TERM; while :; do sleep 0.02; done";
    let ended = session.sh("--cpu --time-limit 1s --grace 600ms", script);
    ended.assert_code(28);
    assert!(ended.err.contains("exited with code 28") && ended.err.contains("| disk full"), "{}", ended.err);
    session.assert_clean();
}
