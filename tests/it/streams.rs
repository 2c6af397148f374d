//! Who reads our standard input, and whose output is shown.

use crate::session::Session;
use std::io::Write;
use std::process::Stdio;

/// Runs `cat` on two workers, with `text` on the launcher's standard input: what they printed.
fn cat(session: &Session, options: &str, text: &str) -> String {
    let mut command = session.command(&format!("--cpu --nproc 2 {options} run -- cat"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut job = command.spawn().unwrap();
    // A launcher whose workers read nothing may be gone before all is written.
    let _ = job.stdin.take().unwrap().write_all(text.as_bytes());
    let output = job.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_rank_reads_our_input_and_the_others_none() {
    let session = Session::new();
    assert_eq!(cat(&session, "--stdin-rank 1", "one\ntwo\n"), "[1] one\n[1] two\n");
    assert_eq!(cat(&session, "", "one\n"), "");
    session.assert_clean();
}

#[test]
fn only_some_ranks_are_shown_and_the_logs_keep_all() {
    let session = Session::new();
    let ended = session.sh("--cpu --nproc 4 --show-ranks 0,2-3", "echo out $RANK; echo err $RANK >&2");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&ended.assert_code(0).out), ["[0] out 0", "[2] out 2", "[3] out 3"]);
    assert_eq!(sorted(&ended.err), ["[0] err 0", "[2] err 2", "[3] err 3"]);
    let log = session.read("run/logs/attempt-1/rank-1.log");
    assert_eq!(sorted(&log), ["err 1", "out 1"]);
}

#[test]
fn the_last_words_of_a_failed_rank_are_shown_though_it_is_not() {
    let session = Session::new();
    let ended = session.sh("--cpu --nproc 2 --show-ranks 0", "[ $RANK = 0 ] && sleep 100; echo why; exit 3");
    assert!(ended.assert_code(3).err.contains("| why"), "{}", ended.err);
    assert_eq!(ended.out, "");
}

#[test]
fn a_rank_that_is_not_there_is_refused() {
    let session = Session::new();
    for option in ["--stdin-rank 2", "--show-ranks 0,2"] {
        let ended = session.run(&format!("--cpu --nproc 2 {option} run --out run -- true"));
        let words = "names rank 2, but there are 2 workers, from 0";
        assert!(ended.assert_code(2).last_line().contains(words), "{}", ended.err);
    }
    let wrong = session.run("--cpu --show-ranks some run -- true");
    assert!(wrong.assert_code(2).err.contains("no list of ranks"), "{}", wrong.err);
    assert!(!session.path("run").exists());
}
