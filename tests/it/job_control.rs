//! A job that a terminal, or a scheduler, stops and lets go on.

use crate::session::{Running, Session, children, state, until};
use nix::sys::signal::Signal::{SIGCONT, SIGKILL, SIGTERM, SIGTSTP};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// One worker is one process; the other starts one after another.
const FAMILY: &str = "echo up > up.$RANK; [ $RANK = 0 ] && exec sleep 1000; \
    trap 'echo saved > saved; exit 0' TERM; while :; do sleep 0.02; done";

/// Whether `pid` does nothing until it is continued: it is stopped, or waits for the exec of a child that is. The
/// kernel calls the latter busy, and such is a shell that was struck while it started a command.
fn is_paused(pid: u32) -> bool {
    match state(pid) {
        Some('T') => true,
        Some('D') => children(pid).into_iter().any(|child| state(child) == Some('T')),
        _ => false,
    }
}

fn start<'a>(session: &'a Session, options: &str) -> Running<'a> {
    let mut job = session.start(&format!("--cpu --nproc 2 {options} run --out run -- sh -c"), FAMILY);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    job
}

/// Stops the job, and waits until it is.
fn stop(job: &mut Running) {
    job.signal(SIGTSTP);
    let guardian = job.pid();
    job.wait_until("the guardian's stop", || state(guardian) == Some('T'));
    // by descent, not by name: for a moment each child of a shell is named as it is
    let workers = children(job.supervisor());
    assert_eq!(workers.len(), 2);
    job.wait_until("the workers' stop", || workers.iter().all(|worker| is_paused(*worker)));
}

/// The time of day of the first event of this name.
fn time_of(session: &Session, event: &str) -> f64 {
    let events = session.read("run/events.jsonl");
    let line = events.lines().find(|line| line.contains(&format!("\"event\":\"{event}\""))).expect(event);
    serde_json::from_str::<serde_json::Value>(line).unwrap()["time"].as_f64().unwrap()
}

#[test]
fn a_stopped_job_spends_no_time() {
    let session = Session::new();
    // asked to end after two seconds of its own time
    let mut job = start(&session, "--time-limit 122s --grace 120s");
    stop(&mut job);
    let (stopped, pause) = (Instant::now(), Duration::from_millis(2500));
    until(Duration::from_secs(60), || stopped.elapsed() > pause);
    assert!(!session.read("run/events.jsonl").contains("\"event\":\"stop\""));
    job.signal(SIGCONT);
    job.end().assert_code(foxlaunch_shared::exit::TRY_AGAIN);
    let took = time_of(&session, "stop") - time_of(&session, "begin");
    // the job's time begins a moment before it says so
    assert!(took >= 1.5 + pause.as_secs_f64(), "asked to end after {took} s, though it stood still for {pause:?}");
    assert_eq!(session.read("saved"), "saved\n");
    session.assert_clean();
}

#[test]
fn asked_to_end_while_it_is_stopped_it_ends_in_order() {
    let session = Session::new();
    let mut job = start(&session, "--grace 120s");
    stop(&mut job);
    job.signal(SIGTERM);
    job.signal(SIGCONT);
    job.end().assert_code(143);
    assert_eq!(session.read("saved"), "saved\n");
    session.assert_clean();
}

#[test]
fn a_stopped_job_can_be_killed() {
    let session = Session::new();
    let mut job = start(&session, "");
    stop(&mut job);
    job.signal(SIGKILL);
    session.assert_gone_within(Duration::from_secs(2));
    drop(job);
    session.assert_clean();
}

#[test]
fn a_continuation_right_after_the_stop_is_not_lost() {
    let session = Session::new();
    let mut job = start(&session, "--grace 120s");
    let (guardian, supervisor) = (job.pid(), job.supervisor());
    for pause in 0..300 {
        job.signal(SIGTSTP);
        // no event is waited for: what varies is how far the stop has come
        std::thread::sleep(Duration::from_micros(pause * 5));
        job.signal(SIGCONT);
    }
    let goes_on = || state(guardian) == Some('S') && children(supervisor).iter().all(|worker| !is_paused(*worker));
    job.wait_until("the end of the last stop", goes_on);
    job.signal(SIGTERM);
    job.end().assert_code(143);
    session.assert_clean();
}

#[test]
fn a_terminals_keys_stop_the_job_and_let_it_go_on() {
    let session = Session::new();
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    session.write("job.sh", format!("exec {launcher} --cpu --nproc 2 run --out run -- sh -c \"$1\""));
    session.write("family.sh", FAMILY);
    let mut terminal = session.terminal("echo $$ > pid; exec sh job.sh \"$(cat family.sh)\"");
    let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut keys = terminal.stdin.take().unwrap();
    let limit = Duration::from_secs(120);
    assert!(until(limit, || session.read("up.0") == "up\n" && session.read("up.1") == "up\n"));
    let guardian: u32 = session.read("pid").trim().parse().unwrap();
    keys.write_all(b"\x1a").unwrap();
    assert!(until(limit, || state(guardian) == Some('T')), "Ctrl-Z stops the launcher");
    let supervisor = children(guardian)[0];
    let stopped = || children(supervisor).iter().all(|worker| is_paused(*worker));
    assert!(until(limit, stopped), "Ctrl-Z stops the workers");
    // the program behind the terminal stops with what it shows, and lets it go on with itself
    let shows = terminal.id();
    assert!(until(limit, || state(shows) == Some('T')));
    crate::session::kill(shows, SIGCONT);
    assert!(until(limit, || state(guardian) == Some('S') && !stopped()), "the job goes on");
    keys.write_all(b"\x03").unwrap();
    assert!(until(limit, || terminal.try_wait().unwrap().is_some()), "Ctrl-C ends the job");
    assert_eq!(terminal.wait().unwrap().code(), Some(130));
    session.assert_clean();
}

#[test]
fn a_terminal_that_stops_who_writes_from_the_background_does_not_stop_us() {
    let session = Session::new();
    let launcher = env!("CARGO_BIN_EXE_fox-test-launcher");
    let script = format!("stty tostop; exec {launcher} --cpu --nproc 2 run --out run -- sh -c 'echo hello; exit 3'");
    let output = session.terminal(&script).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("hello") && shown.contains("failed first: it exited with code 3"), "{shown}");
    session.assert_clean();
}
