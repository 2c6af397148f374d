//! What is wrong with a machine is said with what to do about it.

use crate::session::Session;
use serde_json::Value;
use std::process::Command;

/// The findings of `doctor --json` and its code, with the environment changed by `change`.
fn findings(session: &Session, change: impl FnOnce(&mut Command)) -> (i32, Vec<Value>) {
    let mut command = session.command("doctor --json");
    for name in ["NCCL_COMM_BLOCKING", "CUDA_LAUNCH_BLOCKING", "NCCL_DEBUG", "OMP_NUM_THREADS", "LD_LIBRARY_PATH"] {
        command.env_remove(name);
    }
    change(&mut command);
    let output = command.output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code().unwrap(), answer["findings"].as_array().expect("a list").clone())
}

fn about<'a>(findings: &'a [Value], what: &str) -> Vec<&'a Value> {
    findings.iter().filter(|finding| finding["about"] == what).collect()
}

#[test]
fn each_probe_answers_and_each_fault_has_an_advice() {
    let session = Session::new();
    let (code, all) = findings(&session, |_| {});
    assert_eq!(code, 0, "{all:?}");
    for what in
        ["driver", "nccl", "workers", "shared memory", "open files", "disk", "cgroup", "folders of jobs", "variables"]
    {
        assert!(!about(&all, what).is_empty(), "nothing about {what}: {all:?}");
    }
    for finding in &all {
        assert_eq!(finding["advice"].is_string(), finding["severity"] != "ok", "{finding}");
    }
    assert!(about(&all, "workers")[0]["found"].as_str().unwrap().contains("built for the processor"), "{all:?}");
    let text = session.run("doctor").assert_code(0).out.clone();
    assert!(text.lines().any(|line| line.starts_with("ok    workers: ")), "{text}");
}

#[test]
fn variables_that_bite_are_named() {
    let session = Session::new();
    let (code, all) = findings(&session, |command| {
        command.env("NCCL_COMM_BLOCKING", "1").env("CUDA_LAUNCH_BLOCKING", "1");
    });
    assert_eq!(code, 0, "{all:?}");
    let found = about(&all, "variables");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|finding| finding["severity"] == "warn"), "{found:?}");
    assert_eq!(found[0]["advice"], "unset NCCL_COMM_BLOCKING");
}

#[test]
fn what_cannot_work_is_an_error() {
    let session = Session::new();
    let (code, all) = findings(&session, |command| {
        command.env("CUDA_VISIBLE_DEVICES", "0,,1");
    });
    assert_eq!((code, about(&all, "variables")[0]["severity"].as_str()), (69, Some("error")), "{all:?}");

    let broken = session.program("worker", "#!/bin/sh\necho no worker\n");
    let (code, all) = findings(&session, |command| {
        command.env("FOXLAUNCH_WORKER", &broken);
    });
    let worker = about(&all, "workers")[0];
    assert_eq!((code, worker["severity"].as_str()), (69, Some("error")), "{all:?}");
    assert!(worker["found"].as_str().unwrap().contains("does not answer as a foxlaunch worker"), "{worker}");
}

#[test]
fn the_nccl_that_would_be_loaded_is_found_with_its_version() {
    let session = Session::new();
    session.write("libnccl.so.2", b"\x7fELF\0\0NCCL version 2.28.9+cuda13.0\0");
    let (_, all) = findings(&session, |command| {
        command.env("LD_LIBRARY_PATH", session.folder());
    });
    let found = about(&all, "nccl")[0]["found"].as_str().unwrap();
    assert!(found.starts_with("2.28.9+cuda13.0, ") && found.ends_with("/libnccl.so.2"), "{found}");
}

#[test]
fn what_killed_jobs_left_is_listed_and_left_there() {
    let session = Session::new();
    let mut job = session.start("--cpu run --out run -- sh -c", "echo up > up; while :; do sleep 0.05; done");
    job.wait_for("up", "up");
    let (_, all) = findings(&session, |_| {});
    let told = |all: &[Value], words: &str| {
        about(all, "folders of jobs").iter().any(|finding| finding["found"].as_str().unwrap().contains(words))
    };
    let place = session.scratch().display().to_string();
    assert!(!told(&all, &place), "{all:?}");
    // All outer processes at once, the supervisor and where there is a cgroup the one that outlives it: nobody is left to
    // tidy up.
    let outer = crate::session::children(job.pid());
    outer.iter().for_each(|pid| crate::session::kill(*pid, nix::sys::signal::Signal::SIGSTOP));
    job.signal(nix::sys::signal::Signal::SIGKILL);
    outer.iter().for_each(|pid| crate::session::kill(*pid, nix::sys::signal::Signal::SIGKILL));
    session.assert_gone_within(std::time::Duration::from_secs(2));
    std::fs::create_dir(session.scratch().join("foxlaunch-strange")).unwrap();
    // The dead guardian counts as gone once it was waited for.
    drop(job);
    let (code, all) = findings(&session, |_| {});
    assert_eq!(code, 0, "{all:?}");
    let of_place: Vec<&str> = about(&all, "folders of jobs")
        .iter()
        .filter_map(|f| f["found"].as_str())
        .filter(|f| f.contains(&place))
        .collect();
    assert!(of_place.iter().any(|found| found.contains("left by jobs that were killed")), "{of_place:?}");
    assert!(
        of_place.iter().any(|found| found.contains("no job that is known here") && found.contains("foxlaunch-strange")),
        "{of_place:?}"
    );
    assert_eq!(std::fs::read_dir(session.scratch()).unwrap().count(), 2, "nothing was removed");
}

#[test]
fn a_driver_that_never_answers_is_a_finding() {
    let session = Session::new();
    let source = session.write("sick.c", "#include <unistd.h>\nint nvmlInit_v2(void) { for (;;) pause(); }\nint nvmlInitWithFlags(unsigned f) { for (;;) pause(); }\nconst char *nvmlErrorString(int e) { return \"\"; }\n");
    let library = session.path("libnvidia-ml.so.1");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output();
    let built = built.expect("a linker is here, since these tests were built");
    assert!(built.status.success(), "{built:?}");
    let start = std::time::Instant::now();
    let (code, all) = findings(&session, |command| {
        command.env("LD_LIBRARY_PATH", session.folder());
    });
    let driver = about(&all, "driver")[0];
    assert_eq!((code, driver["severity"].as_str()), (69, Some("error")), "{all:?}");
    assert!(driver["found"].as_str().unwrap().contains("did not answer within"), "{driver}");
    // Ten seconds are promised for each question, and no probe asks it twice in a row.
    assert!(start.elapsed() < std::time::Duration::from_secs(50), "{:?}", start.elapsed());
    let mut dry = session.command("--dry-run run -- true");
    let output = dry.env("LD_LIBRARY_PATH", session.folder()).output().unwrap();
    assert!(output.status.code().is_some(), "{output:?}");
    assert!(start.elapsed() < std::time::Duration::from_secs(100), "{:?}", start.elapsed());
}
