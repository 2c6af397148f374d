//! What the workers print.

use crate::session::Session;

#[test]
fn each_line_is_whole_and_has_its_rank() {
    let session = Session::new();
    let ended = session.sh("--cpu --nproc 2", "for i in $(seq 2000); do echo line-$i-of-$RANK; done");
    ended.assert_code(0);
    let lines: Vec<&str> = ended.out.lines().collect();
    for rank in 0..2 {
        let of_rank: Vec<_> = lines.iter().filter(|line| line.starts_with(&format!("[{rank}] "))).copied().collect();
        let expected: Vec<String> = (1..=2000).map(|i| format!("[{rank}] line-{i}-of-{rank}")).collect();
        assert_eq!(of_rank, expected);
    }
    assert_eq!(lines.len(), 4000);
}

#[test]
fn a_lone_worker_needs_no_rank() {
    let session = Session::new();
    let ended = session.sh("--cpu", "echo out; echo err >&2");
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("out\n", "err\n"));
}

#[test]
fn the_log_has_every_byte_and_a_bad_one_ends_nothing() {
    let session = Session::new();
    let ended = session.sh("--cpu", "printf 'a\\377\\376b\\n'; printf '\\033[2Jclear\\n'; echo after");
    assert_eq!(ended.out, "a\u{fffd}\u{fffd}b\n\u{fffd}[2Jclear\nafter\n");
    let log = std::fs::read(session.path("run/logs/attempt-1/rank-0.log")).unwrap();
    assert_eq!(log, b"a\xff\xfeb\n\x1b[2Jclear\nafter\n");
}

/// Run by its case in `faults/`.
pub(crate) fn a_carriage_return_ends_a_line_too() {
    let session = Session::new();
    let ended = session.sh("--cpu --nproc 2", "for i in 1 2 3; do printf \"\\rstep $i\"; done; echo");
    for rank in 0..2 {
        assert!(ended.out.contains(&format!("[{rank}] step 1\n")), "{}", ended.out);
        assert!(ended.out.contains(&format!("[{rank}] step 3\n")), "{}", ended.out);
    }
}

/// Run by its case in `faults/`.
pub(crate) fn a_flood_without_a_line_end_is_kept_whole() {
    let session = Session::new();
    let ended = session.sh("--cpu -q", "head -c 20000000 /dev/zero | tr '\\0' x");
    ended.assert_code(0);
    let log = std::fs::metadata(session.path("run/logs/attempt-1/rank-0.log")).unwrap();
    assert_eq!(log.len(), 20_000_000);
}

#[test]
fn a_pipe_that_is_read_gets_every_line() {
    let session = Session::new();
    let ended = session.run("--cpu --nproc 2 run --out run -- seq 200000");
    ended.assert_code(0);
    assert_eq!(ended.out.lines().count(), 400_000, "{}", ended.err);
}

/// Run by its case in `faults/`.
pub(crate) fn a_console_that_is_not_read_holds_no_worker() {
    let session = Session::new();
    // nobody reads the launcher's output until the workers are done: 60 MB fit into no pipe
    let mut job = session.start("--cpu --nproc 2 run --out run -- sh -c", "seq 4000000; echo done > done.$RANK");
    job.wait_for("done.0", "done");
    job.wait_for("done.1", "done");
    let ended = job.end();
    ended.assert_code(0);
    assert!(ended.err.contains("lines were not shown"), "{}", ended.err);
    let log = std::fs::read(session.path("run/logs/attempt-1/rank-1.log")).unwrap();
    assert_eq!(log.iter().filter(|byte| **byte == b'\n').count(), 4_000_000);
}

#[test]
fn a_failed_workers_last_lines_are_shown() {
    let session = Session::new();
    let ended =
        session.sh("--cpu --nproc 2", "[ $RANK = 0 ] && sleep 100; for i in $(seq 100); do echo line $i; done; exit 4");
    ended.assert_code(4);
    assert!(ended.err.contains("| line 100\n") && ended.err.contains("| line 90\n"), "{}", ended.err);
    assert!(!ended.err.contains("| line 1\n"), "{}", ended.err);
    assert!(ended.err.contains("run/logs/attempt-1/rank-1.log"), "{}", ended.err);
}

#[test]
fn logs_go_where_they_are_told() {
    let session = Session::new();
    session.run("--cpu --log-dir elsewhere run --out run -- echo hello").assert_code(0);
    assert_eq!(session.read("elsewhere/attempt-1/rank-0.log"), "hello\n");
    assert!(!session.path("run/logs").exists());
}
