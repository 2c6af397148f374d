//! Nothing is open: while a job runs, no process of it listens, but where the kernel shows a path of ours.

use crate::session::Session;
use std::collections::BTreeSet;

/// The numbers of all sockets of this session's processes.
fn sockets(session: &Session) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for process in session.survivors() {
        let pid = process.split(' ').next().unwrap();
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            let number: Option<u64> =
                target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            found.extend(number);
        }
    }
    found
}

/// Those of `own` that listen: TCP in state 0A, any UDP, and UNIX sockets that wait for connections, with their path.
fn listening(own: &BTreeSet<u64>) -> Vec<String> {
    let mut found = Vec::new();
    for (table, inode_at) in [("tcp", 9), ("tcp6", 9), ("udp", 9), ("udp6", 9), ("unix", 6)] {
        let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_own = words
                .get(inode_at)
                .and_then(|inode| inode.parse::<u64>().ok())
                .is_some_and(|inode| own.contains(&inode));
            // __SO_ACCEPTCON in a UNIX socket's flags
            let listens = match table {
                "tcp" | "tcp6" => words.get(3) == Some(&"0A"),
                "unix" => words
                    .get(3)
                    .and_then(|flags| u32::from_str_radix(flags, 16).ok())
                    .is_some_and(|flags| flags & 0x10000 != 0),
                _ => true,
            };
            if is_own && listens {
                found.push(format!("{table} {}", words.last().unwrap()));
            }
        }
    }
    found
}

#[test]
fn the_search_sees_what_listens() {
    let session = Session::new();
    let script = "import socket, time, os\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\nu = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0))\nopen('up', 'w').write('up')\nwhile not os.path.exists('go'): time.sleep(0.02)\n";
    session.write("listen.py", script);
    let mut job = session.start("--cpu run --out run listen.py", "");
    job.wait_for("up", "up");
    let found = listening(&sockets(&session));
    assert_eq!(found.iter().filter(|line| line.starts_with("tcp ")).count(), 1, "{found:?}");
    assert_eq!(found.iter().filter(|line| line.starts_with("udp ")).count(), 1, "{found:?}");
    session.write("go", "");
    job.end().assert_code(0);
}

#[test]
fn a_job_listens_nowhere() {
    for words in ["run --out run -- sh -c", ""] {
        let session = Session::new();
        let (mut job, of_worker) = if words.is_empty() {
            let job = session.start("--cpu --nproc 2 train dqn --steps 1000000 --out run", "");
            (job, "\"event\":\"first_step\"")
        } else {
            let job = session.start(
                &format!("--cpu --nproc 2 {words}"),
                "echo step 1 > $FOXLAUNCH_PROGRESS; while :; do sleep 0.05; done",
            );
            (job, "\"rank\":1,\"step\":1")
        };
        job.wait_for("run/events.jsonl", of_worker);
        let own = sockets(&session);
        assert!(!own.is_empty());
        let found = listening(&own);
        // A program that links nothing never connects to its channel, which waits for it in the folder of mode 0700.
        let ours = format!("unix {}/", session.scratch().display());
        let strange: Vec<_> = found.iter().filter(|line| words.is_empty() || !line.starts_with(&ours)).collect();
        assert!(strange.is_empty(), "{strange:?}");
        job.signal(nix::sys::signal::Signal::SIGKILL);
        drop(job);
        session.assert_gone_within(std::time::Duration::from_secs(2));
    }
}
