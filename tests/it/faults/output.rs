//! Output, and what can go wrong on its way.

use crate::session::Session;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn case_17_a_worker_that_touches_the_terminal_does_not_hang() {
    let session = Session::new();
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    session.write("worker.sh", "stty sane < /dev/tty; read x < /dev/tty; echo done >> done.$RANK");
    let line = format!("exec {launcher} --cpu --nproc 2 run --out run -- sh worker.sh");
    let output = session.terminal(&line).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!((session.read("done.0").as_str(), session.read("done.1").as_str()), ("done\n", "done\n"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("/dev/tty"), "they have no terminal: {output:?}");
    session.assert_clean();
}

#[test]
fn case_19_an_output_held_open_is_not_waited_for() {
    let session = Session::new();
    let begin = Instant::now();
    // the second one gave its name away, and has the pipe all the same
    let ended = session.sh("--cpu --nproc 2", "sleep 1000 & (setsid sleep 1000 &) ; echo last; exit 0");
    ended.assert_code(0);
    assert!(begin.elapsed() < 5 * Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(ended.err.contains("left processes behind") && ended.err.contains("(sleep)"), "{}", ended.err);
    assert_eq!(ended.out.matches("last\n").count(), 2);
    session.assert_clean();
}

#[test]
fn case_20_a_bad_byte_ends_nothing() {
    let session = Session::new();
    // a bad byte, one that is cut off by the end, and a good character whose halves come apart
    let script = "printf 'a\\377\\376b\\n'; printf '\\303'; sleep 0.2; printf '\\251t\\303\\251\\n'; \
        echo after; printf '\\342\\202'";
    let ended = session.sh("--cpu", script);
    assert_eq!(ended.assert_code(0).out, "a\u{fffd}\u{fffd}b\n\u{e9}t\u{e9}\nafter\n\u{fffd}\n");
    let log = std::fs::read(session.path("run/logs/attempt-1/rank-0.log")).unwrap();
    assert_eq!(log, b"a\xff\xfeb\n\xc3\xa9t\xc3\xa9\nafter\n\xe2\x82");
}

#[test]
fn case_21_a_worker_never_waits_for_the_console() {
    crate::output::a_flood_without_a_line_end_is_kept_whole();
    crate::output::a_console_that_is_not_read_holds_no_worker();
}

#[test]
fn case_22_a_progress_bar_is_shown_while_it_moves() {
    crate::output::a_carriage_return_ends_a_line_too();
    let session = Session::new();
    let script = "printf 'begin\\rstep 1\\r'; while [ ! -e go ]; do sleep 0.02; done; printf 'step 2\\r\\n'";
    session.write("worker.sh", script);
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec {launcher} --cpu --nproc 2 run --out run -- sh worker.sh > shown"));
    let mut job = session.start_command(command);
    job.wait_for("shown", "[0] step 1");
    job.wait_for("shown", "[1] step 1");
    assert!(!session.read("shown").contains("step 2"));
    session.write("go", "");
    job.end().assert_code(0);
    assert!(session.read("shown").contains("[1] step 2"));
}

#[test]
fn case_23_a_full_disk_costs_the_log_and_not_the_job() {
    let session = Session::new();
    std::fs::create_dir_all(session.path("logs/attempt-1")).unwrap();
    std::os::unix::fs::symlink("/dev/full", session.path("logs/attempt-1/rank-1.log")).unwrap();
    let ended = session.start("--cpu --nproc 2 --log-dir logs run --out run -- sh -c", "seq 300000; echo end").end();
    ended.assert_code(0);
    assert_eq!(ended.err.matches("No space left on device").count(), 1, "{}", ended.err);
    assert!(session.read("logs/attempt-1/rank-0.log").ends_with("300000\nend\n"), "the other log is whole");
    assert_eq!(ended.out.matches("] end\n").count(), 2, "both went on to their ends");
}
