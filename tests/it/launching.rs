//! Any program, started and ended: exit codes, causes, what each process is given.

use crate::session::Session;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

/// The program with known sins.
const STUB: &str = env!("CARGO_BIN_EXE_fox-test-stub");

#[test]
fn what_ends_well_gives_zero_and_leaves_nothing() {
    let session = Session::new();
    let ended = session.run("--cpu --nproc 3 run --out run -- true");
    ended.assert_code(0);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
    session.assert_clean();
}

#[test]
fn a_hundred_starts_end_a_hundred_times() {
    // A signal that a wrong thread takes is lost, and its wait never ends; that showed in one start out of ten.
    let session = Session::new();
    for n in 0..100 {
        session.run(&format!("--cpu --nproc 2 run --out run-{n} -- true")).assert_code(0);
    }
    session.assert_clean();
}

/// Run by its case in `faults/`.
pub(crate) fn the_first_failure_gives_the_code() {
    for (script, code) in [
        ("exit 1", 1),
        ("exit 2", 2),
        ("exit 7", 7),
        ("exit 77", 77),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -11 $$", 139),
        ("kill -15 $$", 143),
        ("kill -1 $$", 129),
        ("kill -6 $$", 134),
        // signals without a name
        ("kill -34 $$", 162),
        ("kill -64 $$", 192),
    ] {
        let session = Session::new();
        let ended = session.sh("--cpu --nproc 2", &format!("if [ $RANK = 1 ]; then {script}; fi; sleep 100"));
        ended.assert_code(code);
        assert!(ended.last_line().contains("rank 1 failed first"), "{script}: {}", ended.err);
        session.assert_clean();
    }
}

/// Run by its case in `faults/`.
pub(crate) fn what_cannot_be_executed_is_told_apart() {
    let session = Session::new();
    let missing = session.run("--cpu run --out a -- /no/such");
    assert!(missing.assert_code(127).last_line().contains("/no/such: no such program"), "{}", missing.err);
    let without = session.program("without", "#!/no/such/interpreter\n");
    let ended = session.run(&format!("--cpu run --out without-run -- {}", without.display()));
    let words = "without cannot be executed: what its first line names (#!), or the loader that it needs, is missing";
    assert!(ended.assert_code(127).last_line().contains(words), "{}", ended.err);
    session.write("plain", "#!/bin/sh\n");
    let plain = session.run("--cpu run --out b -- ./plain");
    assert!(plain.assert_code(126).last_line().contains("executable bit"), "{}", plain.err);
    session.assert_clean();
}

#[test]
fn a_python_file_that_is_not_executable_runs_under_python() {
    let session = Session::new();
    session.write("hello.py", "import os\nprint('hello', os.environ['RANK'])\n");
    assert_eq!(session.run("--cpu run --out a hello.py").assert_code(0).out, "hello 0\n");
}

#[test]
fn who_dies_by_itself_is_the_cause_and_who_waited_for_it_is_not() {
    for _ in 0..5 {
        let session = Session::new();
        let ended = session.run(&format!("--cpu --nproc 3 run --out run -- {STUB} die-in-barrier"));
        ended.assert_code(137);
        assert!(ended.last_line().contains("rank 1 failed first: it was killed by signal 9"), "{}", ended.err);
        assert!(ended.err.contains("because of it"), "{}", ended.err);
        session.assert_clean();
    }
}

#[test]
fn a_worker_that_says_why_is_quoted_last() {
    let session = Session::new();
    let ended = session.run(&format!("--cpu --nproc 2 run --out run -- {STUB} fault 73"));
    ended.assert_code(73);
    assert!(ended.last_line().contains("the disk is on fire; water it"), "{}", ended.err);
}

#[test]
fn leaving_the_others_alone_is_a_failure_even_with_code_zero() {
    let session = Session::new();
    let ended = session.run(&format!("--cpu --nproc 2 run --out run -- {STUB} leave-early"));
    ended.assert_code(1);
    assert!(
        ended.last_line().contains("rank 1 failed first") && ended.last_line().contains("goodbye"),
        "{}",
        ended.err
    );
    session.assert_clean();
}

#[test]
fn different_calls_are_named_on_both_sides() {
    let session = Session::new();
    let ended = session.run(&format!("--cpu --nproc 2 run --out run -- {STUB} mismatch"));
    ended.assert_code(1);
    assert!(ended.err.contains("barrier") && ended.err.contains("all_reduce"), "{}", ended.err);
}

#[test]
fn what_is_no_message_of_a_worker_is_refused() {
    for sin in ["garbage", "forge"] {
        let session = Session::new();
        let ended = session.run(&format!("--cpu --nproc 2 run --out run -- {STUB} {sin}"));
        ended.assert_code(0);
        assert!(ended.err.contains("a message on the channel of rank 0 was refused"), "{sin}: {}", ended.err);
        assert!(!ended.err.contains("panicked"), "{sin}: {}", ended.err);
        session.assert_clean();
    }
}

#[test]
fn each_process_is_given_torchruns_contract() {
    let session = Session::new();
    session.sh("--cpu --nproc 2", "env > env.$RANK").assert_code(0);
    let read = |rank: &str| -> BTreeMap<String, String> {
        let text = session.read(&format!("env.{rank}"));
        text.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    };
    let (zero, one) = (read("0"), read("1"));
    for (name, value) in [
        ("RANK", "1"),
        ("LOCAL_RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("GROUP_RANK", "0"),
        ("GROUP_WORLD_SIZE", "1"),
        ("ROLE_NAME", "default"),
        ("ROLE_RANK", "1"),
        ("ROLE_WORLD_SIZE", "2"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("TORCHELASTIC_RESTART_COUNT", "0"),
        ("TORCHELASTIC_RUN_ID", "run"),
        ("FOXLAUNCH_DEVICE", "cpu"),
    ] {
        assert_eq!(one.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(zero["MASTER_PORT"], one["MASTER_PORT"]);
    assert_ne!(zero["FOXLAUNCH_CHANNEL"], one["FOXLAUNCH_CHANNEL"]);
    assert_eq!(one["TMPDIR"], session.scratch().to_str().unwrap(), "the scratch folder is not for workers");
    assert!(one["OMP_NUM_THREADS"].parse::<u32>().unwrap() >= 1);
    assert!(!one.contains_key("FOXLAUNCH_LIFELINE"));
}

#[test]
fn a_launch_inside_a_worker_has_a_world_of_its_own() {
    let session = Session::new();
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    let script = format!(
        "[ $RANK = 0 ] || exit 0; {launcher} --cpu --nproc 1 run --out inner -- sh -c 'echo $RANK/$WORLD_SIZE'"
    );
    assert_eq!(session.sh("--cpu --nproc 2", &script).assert_code(0).out, "[0] 0/1\n");
}

/// Run by its case in `faults/`.
pub(crate) fn the_users_thread_counts_stay() {
    let session = Session::new();
    let mut command = session.command("--cpu --nproc 2 run --out run -- sh -c");
    let output = command.arg("echo $OMP_NUM_THREADS").env("OMP_NUM_THREADS", "5").output().unwrap();
    let mut lines: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] 5", "[1] 5"]);
}

#[test]
fn the_run_folder_is_the_users_alone() {
    let session = Session::new();
    session.run("--cpu run --out run -- true").assert_code(0);
    let mode = std::fs::metadata(session.path("run")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let events = session.read("run/events.jsonl");
    for event in ["begin", "spawn", "exit", "end"] {
        assert!(events.contains(&format!("\"event\":\"{event}\"")), "{event} in {events}");
    }
    for line in events.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(entry["t"].is_number() && entry["time"].is_number(), "{line}");
    }
}

#[test]
fn the_error_file_of_torchruns_contract_is_read() {
    let session = Session::new();
    let script = r#"printf %s '{"message": {"message": "Traceback\nValueError: bad batch"}}' > $TORCHELASTIC_ERROR_FILE; exit 1"#;
    let ended = session.sh("--cpu", script);
    ended.assert_code(1);
    assert!(ended.last_line().contains("ValueError: bad batch"), "{}", ended.err);
}

#[test]
fn a_failure_that_everyone_meets_comes_with_a_hint() {
    let session = Session::new();
    let ended = session.sh("--cpu", "echo 'bind: Address already in use' >&2; exit 1");
    ended.assert_code(1);
    assert!(ended.err.contains("hint: a port is taken"), "{}", ended.err);
}
