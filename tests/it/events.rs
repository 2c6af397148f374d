//! `events.jsonl`, and `--json`: what happened, for programs.

use crate::session::Session;
use serde_json::Value;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().expect("a name")).collect()
}

#[test]
fn standard_output_is_what_the_file_has() {
    let session = Session::new();
    // none fails before the other has said its step: it would be ended before it could
    let script = "echo out-$RANK; echo step $FOXLAUNCH_ATTEMPT/9 loss=nan > $FOXLAUNCH_PROGRESS; \
         echo > said.$FOXLAUNCH_ATTEMPT.$RANK; \
         while [ ! -e said.$FOXLAUNCH_ATTEMPT.$((1 - RANK)) ]; do sleep 0.02; done; [ $FOXLAUNCH_ATTEMPT = 2 ]";
    let ended = session.sh("--json --cpu --nproc 2 --max-restarts 1", script);
    ended.assert_code(0);
    assert_eq!(ended.out, session.read("run/events.jsonl"));
    assert!(ended.err.contains("[1] out-1\n"), "{}", ended.err);
    let events = lines(&ended.out);
    let all = names(&events);
    for (name, least) in [("begin", 2), ("spawn", 4), ("progress", 4), ("exit", 4), ("restart", 1), ("end", 1)] {
        assert!(all.iter().filter(|found| **found == name).count() >= least, "{name}: {all:?}");
    }
    assert_eq!((all[0], all[all.len() - 1]), ("begin", "end"));
    let mut before = 0.0;
    for event in &events {
        let t = event["t"].as_f64().expect("the time since the beginning");
        assert!(t >= before, "{event}");
        before = t;
        assert!(event["time"].as_f64().is_some_and(|time| time > 1.6e9), "{event}");
        assert!(event["attempt"].as_u64().is_some_and(|attempt| (1..=2).contains(&attempt)), "{event}");
    }
    for event in events.iter().filter(|event| ["spawn", "progress", "exit"].contains(&event["event"].as_str().unwrap()))
    {
        assert!(event["rank"].is_u64(), "{event}");
    }
    let progress = events.iter().find(|event| event["event"] == "progress" && event["rank"] == 0).unwrap();
    assert_eq!((&progress["step"], &progress["total"]), (&1.into(), &9.into()));
    assert!(progress["values"]["loss"].is_null(), "{progress}");
}

#[test]
fn a_trainer_says_hello_ready_and_how_far_it_is() {
    let session = Session::new();
    let ended = session.run("--json --cpu --nproc 2 train dqn --smoke --out run");
    ended.assert_code(0);
    let events = lines(&ended.out);
    for name in ["spawn", "hello", "welcome", "ready", "first_step", "progress", "checkpoint", "exit", "end"] {
        assert!(names(&events).contains(&name), "{name}: {}", ended.out);
    }
    let collectives = |event: &&Value| event["event"] == "progress" && event["collectives"].as_u64() > Some(0);
    assert!(events.iter().any(|event| collectives(&event)), "{}", ended.out);
    // The table at the end goes elsewhere.
    assert!(ended.err.contains("buy & hold"), "{}", ended.err);
}

#[test]
fn signals_are_events_ours_and_those_that_we_send() {
    let session = Session::new();
    let mut job = session
        .start("--json --cpu --nproc 2 run --out run -- sh -c", "echo up > up.$RANK; while :; do sleep 0.05; done");
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    job.signal(nix::sys::signal::Signal::SIGTERM);
    let ended = job.end();
    ended.assert_code(143);
    let events = lines(&ended.out);
    assert!(events.iter().any(|event| event["event"] == "signal" && event["signal"] == 15), "{}", ended.out);
    for rank in 0..2 {
        let sent = |event: &Value| event["event"] == "signal_sent" && event["rank"] == rank && event["signal"] == 15;
        assert!(events.iter().any(sent), "{}", ended.out);
    }
}

#[test]
fn no_one_need_read_them() {
    let session = Session::new();
    // Standard output is closed before the first line.
    let mut command = session.command("--json --cpu run --out run -- true");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.stdout(writer).stderr(std::process::Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(session.read("run/events.jsonl").contains("\"event\":\"end\""));
}
