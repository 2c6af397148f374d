//! The workers' logs: how large they grow, what stands before a line, and what happens when they cannot be written.

use crate::session::{Session, children};
use std::os::unix::fs::symlink;

/// Makes rank 0's log a device that is always full.
fn full_disk(session: &Session) {
    std::fs::create_dir_all(session.path("full/attempt-1")).unwrap();
    symlink("/dev/full", session.path("full/attempt-1/rank-0.log")).unwrap();
}

#[test]
fn a_full_disk_costs_the_log_and_one_warning() {
    let session = Session::new();
    full_disk(&session);
    let ended =
        session.sh("--cpu --nproc 2 --log-dir full", "for i in 1 2 3; do echo line $i; done; echo done > done.$RANK");
    ended.assert_code(0);
    assert_eq!(ended.err.matches("this log ends here, the job goes on").count(), 1, "{}", ended.err);
    assert_eq!((session.read("done.0").as_str(), session.read("done.1").as_str()), ("done\n", "done\n"));
    assert!(ended.out.contains("[0] line 3\n"), "{}", ended.out);
    assert_eq!(session.read("full/attempt-1/rank-1.log"), "line 1\nline 2\nline 3\n");
    let events = session.read("run/events.jsonl");
    assert!(
        events.contains("\"event\":\"log\",\"attempt\":1,\"rank\":0") && events.contains("No space left"),
        "{events}"
    );
}

#[test]
fn with_strict_logs_it_costs_the_job_its_zero() {
    let session = Session::new();
    full_disk(&session);
    let ended = session.sh("--cpu --nproc 2 --log-dir full --strict-logs", "echo line");
    assert!(ended.assert_code(73).last_line().contains("a log could not be written (--strict-logs)"), "{}", ended.err);
    // A failure keeps its own code, and logs that are written change nothing.
    let other = Session::new();
    full_disk(&other);
    other.sh("--cpu --nproc 2 --log-dir full --strict-logs", "echo line; exit 5").assert_code(5);
    Session::new().sh("--cpu --strict-logs", "echo line").assert_code(0);
}

#[test]
fn a_log_with_a_limit_keeps_its_beginning_and_its_end_and_says_so() {
    let session = Session::new();
    let ended = session.sh("--cpu -q --log-max-size 64k", "seq 100000");
    ended.assert_code(0);
    assert!(ended.err.contains("has reached its first half of 65536 bytes"), "{}", ended.err);
    let read = |name: &str| session.read(&format!("run/logs/attempt-1/rank-0.log{name}"));
    let head = read("");
    assert!(head.starts_with("1\n2\n3\n"), "{head}");
    assert!(head.lines().last().unwrap().ends_with("bytes between here and rank-0.log.1 were dropped]"), "{head}");
    let dropped: u64 = head.lines().last().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let end = read(".1") + &read(".2");
    assert!(end.ends_with("\n99999\n100000\n"), "{end}");
    let all: u64 = (1..=100_000u64).map(|n| n.to_string().len() as u64 + 1).sum();
    assert_eq!(32_768 + dropped + end.len() as u64, all);
    assert!(head.len() + end.len() < 66_000, "{} {}", head.len(), end.len());
    session.run("--cpu --log-max-size 10 run -- true").assert_code(2);
}

#[test]
fn a_prefix_has_the_form_that_is_asked_for() {
    let session = Session::new();
    let ended = session
        .start("--cpu --nproc 2 --log-prefix <{rank}/{world_size}@{attempt}>{{}} run --out run -- sh -c", "echo x")
        .end();
    let mut lines: Vec<&str> = ended.assert_code(0).out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["<0/2@1>{}x", "<1/2@1>{}x"]);
    let other = Session::new();
    let ended =
        other.start("--cpu --log-prefix {time}|{host}|{run}|{local_rank}| run --out run -- sh -c", "echo x").end();
    let fields: Vec<&str> = ended.assert_code(0).out.trim_end().split('|').collect();
    assert_eq!((fields[0].len(), fields[2..].to_vec()), (12, vec!["run", "0", "x"]), "{}", ended.out);
    let wrong = other.run("--cpu --log-prefix {pid} run -- true");
    assert!(wrong.assert_code(2).err.contains("there is no field {pid}"), "{}", wrong.err);
}

#[test]
fn two_hundred_megabytes_without_a_line_end_take_little_memory() {
    const BYTES: u64 = 200_000_000;
    let session = Session::new();
    // The last process waits, so that the launcher's memory can be looked at when all is written.
    let script =
        format!("head -c {BYTES} /dev/zero | tr '\\0' x; echo up > up; while [ ! -e go ]; do sleep 0.02; done");
    let mut command = session.command("--cpu run --out run -- sh -c");
    command.arg(script).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut job = command.spawn().unwrap();
    let log = session.path("run/logs/attempt-1/rank-0.log");
    let whole = || std::fs::metadata(&log).is_ok_and(|log| log.len() == BYTES) && session.read("up") == "up\n";
    let came = crate::session::until(std::time::Duration::from_secs(200), whole);
    let peak = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(u64::MAX / 4) * 1024
    };
    let supervisor = children(job.id())[0];
    let together = peak(job.id()) + peak(supervisor);
    session.write("go", "");
    assert!(came, "the log has {:?} bytes", std::fs::metadata(&log).map(|log| log.len()));
    assert!(together < 64 << 20, "guardian and supervisor took {together} bytes");
    assert_eq!(job.wait().unwrap().code(), Some(0));
}
