//! Hangs are seen by progress, not by liveness.

use crate::session::Session;

const STUB: &str = env!("CARGO_BIN_EXE_fox-test-stub");

/// Run by its case in `faults/`.
pub(crate) fn the_rank_that_is_stuck_is_named_and_the_job_ends() {
    let session = Session::new();
    let options = "--cpu --nproc 3 --hang-timeout 1s --peer-grace 500ms";
    let ended = session.run(&format!("{options} run --out run -- {STUB} stuck"));
    ended.assert_code(foxlaunch_shared::exit::HANG);
    let last = ended.last_line();
    assert!(last.contains("rank 1 failed first: it hangs: no progress for"), "{}", ended.err);
    assert!(last.contains("at step 7") && last.contains("rank 0 waits in collective 8"), "{}", ended.err);
    assert!(ended.err.contains("  rank 1: thread "), "what it does is shown: {}", ended.err);
    let events = session.read("run/events.jsonl");
    assert!(events.contains("\"event\":\"threads\",\"attempt\":1,\"rank\":1"), "and kept: {events}");
    session.assert_clean();
}

/// Run by its case in `faults/`.
pub(crate) fn what_takes_long_and_says_so_is_no_hang() {
    let session = Session::new();
    let options = "--cpu --nproc 2 --hang-timeout 1s --init-timeout 20s";
    let ended = session.run(&format!("{options} run --out run -- {STUB} slow-phases"));
    ended.assert_code(0);
    assert_eq!(ended.err, "");
}

#[test]
fn a_program_that_says_nothing_is_never_overdue() {
    let session = Session::new();
    session.sh("--cpu --hang-timeout 100ms --init-timeout 100ms", "sleep 1").assert_code(0);
}

#[test]
fn a_rank_that_falls_silent_hangs_if_silence_counts() {
    let session = Session::new();
    let script = "echo begun; [ $RANK = 1 ] && exec sleep 1000; while :; do echo x; sleep 0.05; done";
    let ended = session.sh("--cpu --nproc 2 --hang-on silence --hang-timeout 1500ms", script);
    ended.assert_code(foxlaunch_shared::exit::HANG);
    let last = ended.last_line();
    assert!(last.contains("rank 1 failed first: it hangs: no output for") && last.contains("since "), "{}", ended.err);
    assert!(last.contains("(--hang-on silence)"), "{}", ended.err);
    let events = session.read("run/events.jsonl");
    assert!(events.contains("\"event\":\"hang\",\"attempt\":1,\"rank\":1,\"rule\":\"silence\""), "{events}");
    assert!(events.contains("\"event\":\"threads\"") && events.contains("clock_nanosleep"), "{events}");
    session.assert_clean();
}

#[test]
fn a_rank_that_does_nothing_hangs_if_work_counts() {
    let session = Session::new();
    let script = "echo begun; [ $RANK = 1 ] && exec sleep 1000; while :; do :; done";
    let ended = session.sh("--cpu --nproc 2 --hang-on cpu --hang-timeout 1500ms", script);
    ended.assert_code(foxlaunch_shared::exit::HANG);
    let last = ended.last_line();
    assert!(last.contains("rank 1 failed first: it hangs: no processor time used for"), "{}", ended.err);
    session.assert_clean();
}

#[test]
fn the_work_of_what_a_rank_started_counts() {
    let session = Session::new();
    let script = "echo begun; setsid sh -c 'end=$(($(date +%s)+5)); while [ $(date +%s) -lt $end ]; do :; done' & wait";
    session.sh("--cpu --hang-on cpu --hang-timeout 3s", script).assert_code(0);
}

#[test]
fn a_program_may_say_that_a_checkpoint_takes_long() {
    let session = Session::new();
    // Only rank 0 says so; the other waits for it. Each pause is longer than a step may take.
    let script = "exec 3> $FOXLAUNCH_PROGRESS; say() { echo $1 $2 >&3; }; \
        say step 0; sleep 2.5; say step 1; \
        [ $RANK = 0 ] && say checkpoint; sleep 2.5; say step 2; \
        [ $RANK = 0 ] && say evaluate; sleep 2.5; say step 3";
    session.sh("--cpu --nproc 2 --hang-timeout 2s --init-timeout 60s", script).assert_code(0);
}

#[test]
fn standing_still_twice_is_found_twice_and_ends_nothing_before_its_time() {
    let session = Session::new();
    // It goes on as soon as it was found, which is at half of its time.
    let script = "exec 3> $FOXLAUNCH_PROGRESS; found() { grep -c '\"event\":\"still\"' run/events.jsonl; }; \
        for n in 1 2; do echo step $n >&3; until [ \"$(found)\" = $n ]; do sleep 0.02; done; done; echo step 3 >&3";
    let ended = session.sh("--cpu --hang-timeout 3s", script);
    ended.assert_code(0);
    let events = session.read("run/events.jsonl");
    let count = |event: &str| events.matches(&format!("\"event\":\"{event}\"")).count();
    assert_eq!((count("still"), count("goes_on"), count("hang")), (2, 2, 0), "{events}");
    assert!(ended.err.contains("rank 0 stands still: no progress for"), "{}", ended.err);
}

#[test]
fn who_fails_before_it_joins_does_not_leave_the_others_waiting() {
    let session = Session::new();
    let script = format!("[ $RANK = 1 ] && exit 1; exec {STUB} behave");
    let ended = session.sh("--cpu --nproc 3 --peer-grace 60s", &script);
    ended.assert_code(1);
    assert!(ended.last_line().contains("rank 1 failed first: it exited with code 1"), "{}", ended.err);
    let events = session.read("run/events.jsonl");
    assert!(!events.contains("\"event\":\"kill\""), "the others left by themselves: {events}");
    session.assert_clean();
}

#[test]
fn a_job_that_hangs_is_started_again_if_it_may_be() {
    let session = Session::new();
    let script = "echo begun; [ $FOXLAUNCH_ATTEMPT = 1 ] && [ $RANK = 1 ] && exec sleep 1000; exit 0";
    let options = "--cpu --nproc 2 --hang-on silence --hang-timeout 1s --peer-grace 1s --max-restarts 1";
    let ended = session.sh(options, script);
    ended.assert_code(0);
    assert!(ended.err.contains("rank 1 hangs: no output for") && ended.err.contains("restart 1 of 1"), "{}", ended.err);
    let events = session.read("run/events.jsonl");
    assert_eq!((events.matches("\"event\":\"hang\"").count(), events.matches("\"event\":\"spawn\"").count()), (1, 4));
    session.assert_clean();
}
