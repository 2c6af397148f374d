//! What must not come over a worker's channel: it is refused, this side goes on, and the job ends as documented.

use crate::session::{Ended, Session};
use std::os::unix::fs::PermissionsExt;

fn stub() -> &'static str {
    env!("CARGO_BIN_EXE_fox-test-stub")
}

/// Two workers; rank 1 sends `kind`.
fn job(session: &Session, options: &str, kind: &str) -> Ended {
    let ended = session.run(&format!("--cpu --nproc 2 {options} run --out run -- {} hostile {kind}", stub()));
    assert!(!ended.err.contains("panicked"), "{kind}: {}", ended.err);
    session.assert_clean();
    ended
}

#[test]
fn bad_frames_are_refused_and_the_job_goes_on() {
    for (kind, why) in [
        ("garbage", "not a foxlaunch frame"),
        ("empty", "not a foxlaunch frame"),
        ("long", "longer than the limit"),
        ("very-long", "a frame of 67108864 bytes, longer than the limit"),
        ("stale", "a frame of attempt 99 where attempt 1 runs"),
        ("forged", "a frame of rank 0 on the channel of rank 1"),
        ("cut", "not a foxlaunch frame"),
        ("more", "4 bytes behind its end"),
        ("version", "a frame of version 2, not 1"),
        ("unknown", "not a foxlaunch frame"),
    ] {
        let session = Session::new();
        let ended = job(&session, "", kind);
        assert!(ended.err.contains("a message on the channel of rank 1 was refused: "), "{kind}: {}", ended.err);
        assert!(ended.err.contains(why), "{kind}: {}", ended.err);
        let events = session.read("run/events.jsonl");
        assert_eq!(events.matches("\"event\":\"refused\"").count(), 1, "{kind}: {events}");
        // Its hello and its goodbye came after that, and were heard.
        ended.assert_code(0);
        assert!(events.contains("\"event\":\"hello\",\"attempt\":1,\"rank\":1"), "{kind}: {events}");
    }
}

#[test]
fn a_worker_that_goes_on_with_nonsense_is_not_heard_any_more() {
    let session = Session::new();
    let ended = job(&session, "", "much-garbage");
    ended.assert_code(0);
    assert!(ended.err.contains("nothing more is read from it"), "{}", ended.err);
    assert_eq!(session.read("run/events.jsonl").matches("\"event\":\"refused\"").count(), 8);
}

#[test]
fn packets_that_are_none_of_the_channels_close_it() {
    for kind in ["short-packet", "huge-packet", "foreign"] {
        let session = Session::new();
        let ended = job(&session, "--peer-grace 300ms --time-limit 3s --grace 1s", kind);
        assert!(ended.err.contains("a message on the channel of rank 1 was refused"), "{kind}: {}", ended.err);
        assert_ne!(ended.code, foxlaunch_shared::exit::SUPERVISOR_LOST, "{kind}: {}", ended.err);
        assert!(session.read("run/events.jsonl").contains("\"event\":\"end\""), "{kind}");
    }
}

#[test]
fn who_connects_and_says_nothing_ends_with_the_job() {
    for kind in ["half-open", "no-words"] {
        let session = Session::new();
        let ended = job(&session, "--time-limit 2s --grace 1s", kind);
        assert_ne!(ended.code, 0, "{kind}: {}", ended.err);
        assert!(session.read("run/events.jsonl").contains("\"event\":\"end\""), "{kind}");
    }
}

#[test]
fn a_flood_of_messages_takes_no_memory_and_no_disk() {
    let session = Session::new();
    let ended = job(&session, "", "flood");
    ended.assert_code(0);
    assert!(!ended.err.contains("refused"), "{}", ended.err);
    let events = session.read("run/events.jsonl");
    let of_rank = events.lines().filter(|line| line.contains("\"event\":\"progress\"") && line.contains("\"rank\":1"));
    let seconds =
        events.lines().last().and_then(|line| line.split("\"t\":").nth(1)?.split('.').next()?.parse::<usize>().ok());
    assert!((1..=seconds.unwrap_or(0) + 3).contains(&of_rank.count()), "{events}");
}

#[test]
fn no_one_else_can_look_in() {
    let session = Session::new();
    let mut job = session
        .start("--cpu --nproc 2 run --out run -- sh -c", "echo up > up.$RANK; while [ ! -e go ]; do sleep 0.02; done");
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    let mode = |path: &std::path::Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&session.path("run")), 0o700);
    assert_eq!(mode(&session.path("run/logs")), 0o700);
    assert_eq!(mode(&session.path("run/logs/attempt-1")), 0o700);
    assert_eq!(mode(&session.path("run/logs/attempt-1/rank-0.log")), 0o600);
    let scratch: Vec<_> = std::fs::read_dir(session.scratch()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(scratch.len(), 1, "{scratch:?}");
    assert_eq!(mode(&scratch[0]), 0o700);
    session.write("go", "");
    job.end().assert_code(0);
}
