//! PyTorch's own DistributedDataParallel under foxlaunch, with a script that knows nothing of it, and beside torchrun.
//!
//! They need a Python that has torch: `FOXLAUNCH_PEER_PYTHON` names one (`scripts/peers.sh` makes it), else `python3` is
//! asked. Where there is none they say so and pass.

use crate::session::{Session, children};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Folders that torch leaves for temporary files when it is killed are its own.
const GONE: Duration = Duration::from_secs(2);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/ddp.py");

/// The whole path of a Python with torch. Says loudly, past the test harness, if there is none.
fn python() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let name = std::env::var("FOXLAUNCH_PEER_PYTHON").unwrap_or_else(|_| "python3".to_owned());
            let ask = "import sys, torch, torch.distributed as d; assert d.is_available(); print(sys.executable)";
            let answer = Command::new(&name).args(["-c", ask]).stdin(Stdio::null()).output();
            match answer {
                Ok(output) if output.status.success() => {
                    Some(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
                }
                _ => {
                    // The harness captures what println writes, not what is written to the stream itself.
                    let _ = std::io::Write::write_all(
                        &mut std::io::stderr(),
                        format!("SKIPPED: the tests of PyTorch, since {name} has no torch: scripts/peers.sh makes a Python that has\n")
                            .as_bytes(),
                    );
                    None
                }
            }
        })
        .as_deref()
}

/// The last line of rank 0: the loss and the weights.
fn result(output: &str) -> &str {
    output.lines().find_map(|line| line.find("loss ").map(|at| &line[at..])).unwrap_or_else(|| panic!("{output}"))
}

#[test]
fn a_ddp_script_runs_unmodified_and_gives_what_it_gives_under_torchrun() {
    let Some(python) = python() else { return };
    let session = Session::new();
    let ours = session.run(&format!("--cpu --nproc 2 run --out run -- {} {SCRIPT}", python.display()));
    ours.assert_code(0);
    for rank in 0..2 {
        assert!(ours.out.contains(&format!("[{rank}] rank {rank} of 2 on cpu, restart 0")), "{}", ours.out);
    }
    let mut torchrun = Command::new(python);
    torchrun.args(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPT]);
    let theirs = torchrun.stdin(Stdio::null()).output().expect("torchrun");
    assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
    assert_eq!(result(&ours.out), result(&String::from_utf8_lossy(&theirs.stdout)));
    session.assert_gone_within(GONE);
}

#[test]
fn an_exception_that_was_recorded_is_the_cause_and_the_peer_is_not_blamed() {
    let Some(python) = python() else { return };
    let session = Session::new();
    let line = format!("--cpu --nproc 2 run --out run -- {} {SCRIPT} --raise-at 3", python.display());
    let ended = session.run(&line);
    let last = ended.assert_code(1).last_line();
    let cause = "foxlaunch: rank 1 failed first: it exited with code 1: ValueError: bad batch at step 3";
    assert!(last.starts_with(cause), "{}", ended.err);
    // The other rank is told to stop, or fails in its all-reduce a moment before; it is not the cause either way.
    assert!(
        ended.err.lines().any(|l| l.starts_with("foxlaunch: rank 0 ") && l.ends_with("because of it")),
        "{}",
        ended.err
    );
    session.assert_gone_within(GONE);
}

#[test]
fn a_killed_rank_is_restarted_and_the_training_ends_with_the_same_weights() {
    let Some(python) = python() else { return };
    let session = Session::new();
    let run = |name: &str, more: &str| {
        let line = format!(
            "--cpu --nproc 2 --max-restarts 2 run --out {name} -- {} {SCRIPT} --checkpoint {name}.pt {more}",
            python.display()
        );
        session.run(&line)
    };
    let whole = run("whole", "");
    let broken = run("broken", "--die-at 4");
    assert_eq!(result(&whole.assert_code(0).out), result(&broken.assert_code(0).out));
    assert!(broken.out.contains("[1] rank 1 of 2 on cpu, restart 1"), "{}", broken.out);
    assert!(!whole.out.contains("restart 1"));
    session.assert_gone_within(GONE);
}

#[test]
fn loader_processes_end_with_a_launcher_that_is_killed() {
    let Some(python) = python() else { return };
    let session = Session::new();
    let mut running =
        session.start(&format!("--cpu --nproc 2 run --out run -- {} {SCRIPT} --forever", python.display()), "");
    for rank in 0..2 {
        running.wait_for(&format!("run/logs/attempt-1/rank-{rank}.log"), &format!("rank {rank} trains"));
    }
    let workers = children(running.supervisor());
    assert!(workers.iter().any(|worker| !children(*worker).is_empty()), "no loader process runs");
    running.signal(Signal::SIGKILL);
    session.assert_gone_within(GONE);
}
