//! What failed first, what came of it, and what is done about it.

use crate::session::{Session, kill};
use nix::sys::signal::Signal::SIGKILL;
use std::time::{Duration, Instant};

const STUB: &str = env!("CARGO_BIN_EXE_fox-test-stub");

#[test]
fn case_25_a_failure_never_gives_zero() {
    crate::launching::the_first_failure_gives_the_code();
    crate::launching::what_cannot_be_executed_is_told_apart();
    // one that stands between us and the workers
    let session = Session::new();
    let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", "echo up > up.$RANK; sleep 1000");
    job.wait_for("up.1", "up");
    kill(job.supervisor(), SIGKILL);
    job.end().assert_code(foxlaunch_shared::exit::SUPERVISOR_LOST);
    session.assert_clean();
}

#[test]
fn case_27_who_fails_because_of_another_is_not_the_cause() {
    // Rank 0 sees its peer's end by itself, as a closed pipe, and fails at once.
    let script = "if [ $RANK = 1 ]; then exec 3> peer; kill -9 $$; fi; \
        read x < peer; echo 'peer closed' >&2; exit 1";
    let session = Session::new();
    nix::unistd::mkfifo(&session.path("peer"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for n in 0..100 {
        let ended = session.start(&format!("--cpu --nproc 2 run --out run-{n} -- sh -c"), script).end();
        ended.assert_code(137);
        let last = ended.last_line();
        assert!(last.contains("rank 1 failed first: it was killed by signal 9"), "run {n}: {}", ended.err);
    }
    session.assert_clean();
}

#[test]
fn case_28_the_others_do_not_run_on() {
    let session = Session::new();
    let begin = Instant::now();
    let script = "[ $RANK = 1 ] && exit 3; trap '' TERM; echo up > up; while :; do sleep 0.05; done";
    let ended = session.sh("--cpu --nproc 2 --peer-grace 200ms --grace 1000s", script);
    ended.assert_code(3);
    assert!(ended.last_line().contains("rank 1 failed first: it exited with code 3"), "{}", ended.err);
    assert!(begin.elapsed() < 5 * Duration::from_secs(2), "{:?}", begin.elapsed());
    session.assert_clean();
}

#[test]
fn case_30_what_cannot_succeed_is_not_repeated() {
    let session = Session::new();
    let ended = session.run("--max-restarts 5 train dqn --no-such-flag");
    assert!(ended.assert_code(2).err.contains("--no-such-flag"), "{}", ended.err);
    assert!(!session.path("runs").exists());
    crate::restarting::what_fails_the_same_way_each_time_is_not_repeated();
    // what dies at once each time: the waits grow, and the budget ends it
    let ended = session.sh("--cpu --max-restarts 2", "exit 9");
    ended.assert_code(9);
    let events = session.read("run/events.jsonl");
    let waits: Vec<f64> = events
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["event"] == "restart")
        .map(|event| event["wait_s"].as_f64().unwrap())
        .collect();
    assert!(waits.len() == 2 && waits[1] > waits[0], "{waits:?}");
    assert_eq!(events.matches("\"event\":\"spawn\"").count(), 3);
}

#[test]
fn case_40_a_rank_that_never_joins_holds_no_one() {
    let session = Session::new();
    let begin = Instant::now();
    let script = format!("[ $RANK = 1 ] && exit 4; exec {STUB} traceable");
    let ended = session.sh("--cpu --nproc 3 --peer-grace 2s", &script);
    ended.assert_code(4);
    assert!(ended.last_line().contains("rank 1 failed first: it exited with code 4"), "{}", ended.err);
    assert!(begin.elapsed() < 5 * Duration::from_secs(3), "{:?}", begin.elapsed());
    session.assert_clean();
}

#[test]
fn case_42_a_hang_has_a_name() {
    crate::hanging::the_rank_that_is_stuck_is_named_and_the_job_ends();
}

#[test]
fn case_43_a_long_phase_is_no_hang() {
    crate::hanging::what_takes_long_and_says_so_is_no_hang();
}
