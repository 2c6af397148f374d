//! What is wrong is refused before anything starts, with the code that says so and a line that says why.

use crate::session::Session;

/// `foxlaunch` with these words must refuse with `code` and words, start nothing and leave nothing.
fn refused(session: &Session, words: &str, code: i32, why: &str) {
    let ended = session.run(words);
    ended.assert_code(code);
    assert!(ended.err.contains(why), "{words}: {}", ended.err);
    assert!(!ended.err.contains("panicked"), "{words}: {}", ended.err);
    assert!(!session.path("runs").exists(), "{words} made a run folder");
    session.assert_clean();
}

#[test]
fn a_wrong_command_line() {
    let session = Session::new();
    refused(&session, "train dqn --no-such-flag", 2, "--no-such-flag");
    refused(&session, "train what", 2, "dqn");
    refused(&session, "--gpus 0,0 run -- true", 2, "\"0\" stands there twice");
    refused(&session, "--gpus 0,,1 run -- true", 2, "entry 2 is blank");
    refused(&session, "--grace soon run -- true", 2, "no duration");
    refused(&session, "--cpu --gpus 0 run -- true", 2, "exclude each other");
    refused(&session, "--nproc 0 --cpu run -- true", 2, "--nproc");
    refused(&session, "--nproc 99999 --cpu run -- true", 2, "use 1 to 1024");
    refused(&session, "--cpu run --nproc 2 -- true", 2, "launch options stand before the verb");
    refused(&session, "__supervise run -- true", 2, "for foxlaunch itself");
}

#[test]
fn settings_that_cannot_be() {
    let session = Session::new();
    refused(&session, "--cpu train dqn --set dqn.gama=0.9", 78, "did you mean \"dqn.gamma\"?");
    refused(&session, "--cpu train dqn --set dqn.gamma=2", 78, "must be from 0 to 1 (from --set)");
    refused(
        &session,
        "--cpu --nproc 4 train dqn --set parallel.virtual_shards=3",
        78,
        "4 workers cannot share 3 parts",
    );
    session.write("bad.toml", "[dqn]\ngamma = ");
    refused(&session, "--cpu train dqn --config bad.toml", 78, "bad.toml");
    session.write("h.json", "{\"batch\": 3}");
    refused(&session, "--cpu train dqn --hyperopt h.json", 78, "\"batch\" is not one of");
    refused(&session, "--cpu train dqn --config missing.toml", 66, "missing.toml");
    refused(&session, "--cpu train dqn --env nowhere", 78, "nowhere");
    refused(&session, "--cpu train dqn --set folds.count=900", 65, "fold");
}

#[test]
fn data_that_cannot_be_read() {
    let session = Session::new();
    refused(&session, "--cpu train dqn --data missing.csv", 66, "missing.csv");
    session.write("empty.csv", "");
    refused(&session, "--cpu train dqn --data empty.csv", 66, "empty.csv");
    session.write("header.csv", "Date,Open,High,Low,Close,Volume\n");
    refused(&session, "--cpu train dqn --data header.csv", 65, "header.csv");
    session.write("foreign.csv", "name,age\nfox,3\n");
    refused(&session, "--cpu train dqn --data foreign.csv", 65, "foreign.csv");
    session.write("bad.csv", "Date,Open,High,Low,Close,Volume\n2020-01-01,1,2,0.5,1,10\n2020-01-02,1,0.2,0.5,1,10\n");
    refused(&session, "--cpu train dqn --data bad.csv", 65, "line 3");
    session.write("cut.dbn.zst", [0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x00]);
    refused(&session, "--cpu train dqn --data cut.dbn.zst", 65, "cut.dbn.zst");
    session.write("noise.dbn", b"DBN\x03garbage that is no metadata");
    refused(&session, "--cpu train dqn --data noise.dbn", 65, "noise.dbn");
}

#[test]
fn folders_that_are_taken() {
    let session = Session::new();
    std::fs::create_dir(session.path("taken")).unwrap();
    session.write("taken/file", "precious");
    refused(&session, "--cpu run --out taken -- true", 73, "is not empty");
    refused(&session, "--cpu train dqn --resume taken", 66, "holds no run");
    refused(&session, "report nowhere", 66, "nowhere");
    refused(&session, "report taken", 66, "no run of a training");
    assert_eq!(session.read("taken/file"), "precious");
}

#[test]
fn devices_and_workers_that_are_not_there() {
    let session = Session::new();
    let mut command = session.command("--cpu train dqn --smoke");
    let output = command.env("FOXLAUNCH_WORKER", "/no/such/worker").output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let mut command = session.command("--cpu train dqn --smoke");
    let output = command.env("FOXLAUNCH_WORKER", "/bin/true").output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/bin/true does not answer as a foxlaunch worker"));
    let real = env!("CARGO_BIN_EXE_fox-test-worker");
    for (verb, does, code, words) in [
        ("--about", "kill -9 $$", 69, "does not answer as a foxlaunch worker: it was killed by signal 9 (SIGKILL)"),
        (
            "plan",
            "kill -9 $$",
            137,
            "was killed by signal 9 (SIGKILL) when it was asked for its \"plan\"; was the machine out of memory",
        ),
        ("plan", "exit 9", 9, "exited with code 9 when it was asked for its \"plan\""),
    ] {
        let script = format!("#!/bin/sh\n[ \"$1\" = {verb} ] && {does}\nexec {real} \"$@\"\n");
        let dying = session.program("dying.sh", &script);
        let output = session.command("--cpu train dqn --smoke").env("FOXLAUNCH_WORKER", dying).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{output:?}");
    }
    // Whether there are GPUs depends on the machine; that none has number 4000 does not.
    refused(&session, "--gpus 4000 train dqn", 69, "--gpus");
}

#[test]
fn a_dry_run_shows_the_plan_and_starts_nothing() {
    let session = Session::new();
    let ended = session.run("--cpu --nproc 3 --dry-run train dqn --set dqn.gamma=0.5 --steps 1000 --smoke");
    ended.assert_code(0);
    let plan: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(plan["world_size"], 3);
    assert_eq!(plan["transport"], "shm");
    assert_eq!(plan["settings"]["values"]["dqn"]["gamma"], 0.5);
    for (key, origin) in [
        ("dqn.gamma", "--set"),
        ("train.steps", "the command line"),
        ("dqn.batch_size", "--smoke"),
        ("dqn.n_step", "default"),
        ("parallel.virtual_shards", "the number of workers"),
    ] {
        assert_eq!(plan["settings"]["origins"][key], origin, "{key}");
    }
    assert_eq!(plan["workers"][2]["environment"]["RANK"], "2");
    assert!(plan["data"]["folds"].as_array().is_some_and(|folds| folds.len() == 2), "{}", plan["data"]);
    assert!(!session.path("runs").exists());
    session.assert_clean();
}

#[test]
fn the_help_explains_every_setting() {
    let session = Session::new();
    let help = session.run("train --help").assert_code(0).out.clone();
    assert!(help.contains("sync_every_n_steps = 1") && help.contains("local SGD"), "{help}");
    assert!(session.run("--help").assert_code(0).out.contains("--max-restarts"));
    assert!(session.run("--version").assert_code(0).out.starts_with("foxlaunch 0."));
}

#[test]
fn what_the_machine_does_not_give() {
    let session = Session::new();
    let mut command = session.command("--cpu run -- true");
    let output = command.env("TMPDIR", "/no/such/folder").output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(73), "{words}");
    assert!(words.contains("/no/such/folder (TMPDIR)"), "{words}");
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    let script = format!("ulimit -n 40; exec {launcher} --cpu --nproc 8 run -- true");
    let output = std::process::Command::new("sh").arg("-c").arg(script).current_dir(session.folder()).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{words}");
    assert!(words.contains("ulimit -n 96"), "{words}");
}

#[test]
fn names_that_are_not_utf8_are_no_reason_to_panic() {
    use std::os::unix::ffi::OsStrExt;
    let session = Session::new();
    let odd = std::ffi::OsStr::from_bytes(b"e\xff");
    let output = session.command("--cpu run --out").arg(odd).args(["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = session.command("--cpu train dqn --data").arg(odd).output().unwrap();
    assert_eq!(output.status.code(), Some(66), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not UTF-8"), "{output:?}");
}
