//! Jobs are found and ended from another terminal.

use crate::session::{Running, Session, kill, state};
use nix::sys::signal::Signal::SIGSTOP;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const WAIT: &str = "echo up > up.$RANK; while :; do sleep 0.05; done";

/// The session's own jobs: the user may have others on this machine.
fn listed(session: &Session) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&session.run("ls --json").assert_code(0).out).expect("JSON");
    let is_own = |job: &&Value| Path::new(job["folder"].as_str().expect("a folder")).starts_with(session.folder());
    answer.as_array().expect("a list").iter().filter(is_own).cloned().collect()
}

fn start<'a>(session: &'a Session, options: &str, script: &str) -> Running<'a> {
    let mut job = session.start(&format!("--cpu --nproc 2 {options} run --out run -- sh -c"), script);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    job
}

#[test]
fn json_may_stand_before_the_verb() {
    let session = Session::new();
    for verb in ["ls", "devices", "doctor"] {
        let answer = session.run(&format!("--json {verb}"));
        let parsed: Result<Value, _> = serde_json::from_str(&answer.out);
        assert!(parsed.is_ok_and(|answer| answer.is_object() || answer.is_array()), "{verb}: {}", answer.out);
    }
}

#[test]
fn a_job_is_listed_while_it_runs_and_stopped_in_order() {
    let session = Session::new();
    assert_eq!(listed(&session), Vec::<Value>::new());
    let before = session.run("ls").assert_code(0).out.clone();
    assert!(before.contains("no jobs of this user") || before.starts_with("RUN "), "{before}");
    let script = format!("trap 'echo saved > saved.$RANK; exit 0' TERM; {WAIT}");
    let job = start(&session, "--grace 60s", &script);
    let all = listed(&session);
    assert_eq!(all.len(), 1, "{all:?}");
    let folder = session.path("run");
    for (key, value) in [
        ("run", json!("run")),
        ("verb", json!("run")),
        ("state", json!("running")),
        ("attempt", json!(1)),
        ("workers", json!(2)),
        ("guardian", json!(job.pid())),
        ("folder", json!(folder)),
    ] {
        assert_eq!(all[0][key], value, "{key}");
    }
    assert!(all[0]["age_s"].as_f64().is_some_and(|age| (0.0..240.0).contains(&age)), "{all:?}");
    let table = session.run("ls").assert_code(0).out.clone();
    let own = table.lines().find(|line| line.ends_with(folder.to_str().unwrap())).unwrap_or_default();
    assert!(table.starts_with("RUN ") && own.contains(" running "), "{table}");

    assert_eq!(session.run("stop run").assert_code(0).out, "run has ended\n");
    job.end().assert_code(143);
    assert_eq!((session.read("saved.0").as_str(), session.read("saved.1").as_str()), ("saved\n", "saved\n"));
    assert_eq!(listed(&session), Vec::<Value>::new());
    assert_eq!(session.run("stop run").assert_code(0).out, "run has ended already\n");
    session.assert_clean();
}

#[test]
fn stopped_twice_it_ends_in_order_all_the_same() {
    let session = Session::new();
    let script =
        format!("trap 'while [ ! -e go ]; do sleep 0.02; done; echo saved > saved.$RANK; exit 0' TERM; {WAIT}");
    let mut job = start(&session, "--grace 1000s", &script);
    let guardian = job.pid();
    let first = session.start("stop run", "");
    job.wait_for("run/events.jsonl", "\"event\":\"stop\"");
    let second = session.start("stop run", "");
    // a job that stands still is let go on by whoever stops it
    job.signal(SIGSTOP);
    let third = session.start("stop run", "");
    job.wait_until("it goes on", || !matches!(state(guardian), Some('T')));
    session.write("go", "");
    for stop in [first, second, third] {
        stop.end().assert_code(0);
    }
    job.end().assert_code(143);
    assert_eq!((session.read("saved.0").as_str(), session.read("saved.1").as_str()), ("saved\n", "saved\n"));
    session.assert_clean();
}

#[test]
fn now_does_not_wait_for_the_grace() {
    let session = Session::new();
    let job = start(&session, "--grace 1000s", &format!("trap '' TERM; {WAIT}"));
    session.run("stop --now run").assert_code(0);
    job.end().assert_code(143);
    assert!(session.read("run/events.jsonl").contains("\"event\":\"end\""), "it ended in order all the same");
    session.assert_clean();
}

#[test]
fn what_was_stopped_goes_on_to_end() {
    let session = Session::new();
    let job = start(&session, "", WAIT);
    kill(job.supervisor(), SIGSTOP);
    job.signal(SIGSTOP);
    session.run("stop --now run").assert_code(0);
    job.end().assert_code(143);
    session.assert_clean();
}

#[test]
fn a_folder_is_enough_where_the_list_is_another() {
    let session = Session::new();
    let job = start(&session, "", WAIT);
    let other = session.path("other");
    std::fs::create_dir(&other).unwrap();
    let stop = |run: &str| {
        let mut command = session.command(&format!("stop {run}"));
        command.env("XDG_RUNTIME_DIR", &other).output().unwrap()
    };
    let unknown = stop("no-such-run");
    assert_eq!(unknown.status.code(), Some(66));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no job no-such-run"), "{unknown:?}");
    assert_eq!(stop("./run").status.code(), Some(0));
    job.end().assert_code(143);
}

#[test]
fn what_was_killed_is_stale_until_the_next_start_sweeps_it() {
    let session = Session::new();
    let job = start(&session, "", WAIT);
    job.kill_all_of_ours();
    assert_eq!(job.end().code, -9);
    session.assert_gone_within(Duration::from_secs(2));
    let left = || std::fs::read_dir(session.scratch()).unwrap().count();
    assert_eq!(left(), 1, "nothing was there to remove the sockets' folder");
    let all = listed(&session);
    assert_eq!((all.len(), all[0]["state"].as_str()), (1, Some("stale")), "{all:?}");
    assert_eq!(session.run("stop run").assert_code(0).out, "run has ended already\n");

    session.run("--cpu run --out next -- true").assert_code(0);
    assert_eq!(left(), 0);
    assert_eq!(listed(&session), Vec::<Value>::new());
}

#[test]
fn a_start_sweeps_nothing_of_a_job_that_runs() {
    let session = Session::new();
    let job = start(&session, "", WAIT);
    session.run("--cpu run --out other -- true").assert_code(0);
    assert_eq!(listed(&session).len(), 1);
    assert_eq!(std::fs::read_dir(session.scratch()).unwrap().count(), 1);
    session.run("stop run").assert_code(0);
    job.end().assert_code(143);
    session.assert_clean();
}

#[test]
fn a_pid_that_is_anothers_now_is_not_signalled() {
    let session = Session::new();
    session.run("--cpu run --out run -- true").assert_code(0);
    let mut bystander = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let mut job: Value = serde_json::from_str(&session.read("run/job.json")).unwrap();
    job["guardian"]["pid"] = bystander.id().into();
    // both can begin within one tick of the kernel's clock, which a pid given anew cannot
    job["guardian"]["started"] = (job["guardian"]["started"].as_u64().unwrap() - 1).into();
    session.write("run/job.json", job.to_string());
    for how in ["stop run", "stop --now run"] {
        assert_eq!(session.run(how).assert_code(0).out, "run has ended already\n");
    }
    assert_eq!(bystander.try_wait().unwrap(), None, "it lives");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}
