//! `--metrics-addr`: a job's numbers, by real requests.

use crate::session::{Session, until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A port of the loopback address that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn get(port: u16) -> Option<String> {
    let mut client = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_job_tells_its_numbers_while_it_runs_and_is_silent_after() {
    let session = Session::new();
    let port = free_port();
    let script = "echo hello; echo step 1$RANK > $FOXLAUNCH_PROGRESS; echo up > up.$RANK; [ $RANK = 1 ] && exit 0; while [ ! -e go ]; do sleep 0.02; done";
    let options = format!("--cpu --nproc 2 --metrics-addr {port} run --out run -- sh -c");
    let mut job = session.start(&options, script);
    job.wait_for("up.0", "up");
    job.wait_for("up.1", "up");
    let mut page = String::new();
    let wanted = [
        "foxlaunch_up 1",
        "foxlaunch_attempt 1",
        "foxlaunch_restarts_total 0",
        "foxlaunch_rank_up{rank=\"0\"} 1",
        "foxlaunch_rank_up{rank=\"1\"} 0",
        "foxlaunch_rank_step{rank=\"0\"} 10",
        "foxlaunch_rank_step{rank=\"1\"} 11",
        "foxlaunch_rank_exit_code{rank=\"1\"} 0",
        "foxlaunch_rank_log_bytes_total{rank=\"0\"} 6",
    ];
    let came = until(Duration::from_secs(60), || {
        page = get(port).unwrap_or_default();
        wanted.iter().all(|line| page.lines().any(|found| found == *line))
    });
    assert!(came, "{page}");
    for name in ["foxlaunch_launcher_resident_memory_bytes ", "foxlaunch_rank_progress_age_seconds{rank=\"0\"} "] {
        assert!(page.lines().any(|line| line.starts_with(name)), "{name}: {page}");
    }
    session.write("go", "");
    let ended = job.end();
    ended.assert_code(0);
    assert!(ended.err.contains(&format!("numbers at http://127.0.0.1:{port}/metrics")), "{}", ended.err);
    assert_eq!(get(port), None);
}

#[test]
fn clients_that_mean_harm_do_not_touch_the_job() {
    let session = Session::new();
    let port = free_port();
    let options = format!("--cpu --metrics-addr 127.0.0.1:{port} run --out run -- sh -c");
    let mut job = session.start(&options, "echo up > up.$RANK; while [ ! -e go ]; do sleep 0.02; done");
    job.wait_for("up.0", "up");
    let open = |bytes: &[u8]| {
        let mut client = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let _ = client.write_all(bytes);
        client
    };
    let _silent: Vec<TcpStream> = (0..30).map(|n| open(if n % 2 == 0 { b"GET /met" } else { b"" })).collect();
    let _flood: Vec<TcpStream> = (0..5).map(|_| open(&[b'x'; 100_000])).collect();
    let answered = until(Duration::from_secs(60), || get(port).is_some_and(|page| page.starts_with("HTTP/1.1 200")));
    assert!(answered);
    session.write("go", "");
    job.end().assert_code(0);
    session.assert_clean();
}

#[test]
fn an_address_that_cannot_be_had_is_refused_before_anything_starts() {
    let session = Session::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ended = session.run(&format!("--cpu --metrics-addr {port} run --out run -- true"));
    assert!(ended.assert_code(69).last_line().contains("cannot be listened on"), "{}", ended.err);
    session.run("--cpu --metrics-addr somewhere:1 run --out run -- true").assert_code(2);
    assert!(!session.path("run").exists());
}
