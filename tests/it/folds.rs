//! `--parallel folds`: whole folds on different workers, with the numbers of one after the other.

use crate::session::Session;
use crate::training::SHORT;
use foxlaunch_shared::run_dir::RunDir;
use nix::sys::signal::Signal::{SIGKILL, SIGTERM};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::path::PathBuf;
use std::time::Duration;

/// What must be the same wherever folds are trained: results, records, and the best and last weights.
fn numbers(run: &RunDir, folds: usize) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = vec![run.metrics()];
    for fold in 0..folds {
        files.push(run.fold(fold));
        let best = run.checkpoints().join(format!("fold-{fold:03}-best"));
        files.extend([best.join("model.safetensors"), best.join("policy.json")]);
    }
    let name = |path: &PathBuf| path.strip_prefix(run.path()).unwrap().to_owned();
    let bytes = |path: &PathBuf| std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    files.iter().map(|path| (name(path), bytes(path))).collect()
}

#[test]
fn folds_side_by_side_give_what_they_give_one_after_another() {
    let session = Session::new();
    session.run(&format!("--cpu --nproc 1 {SHORT} --set folds.count=3 --out one")).assert_code(0);
    let ended = session.run(&format!("--cpu --nproc 2 {SHORT} --set folds.count=3 --parallel folds --out two"));
    ended.assert_code(0);
    assert!(ended.err.contains("whole folds on each"), "{}", ended.err);
    let [one, two] = ["one", "two"].map(|name| numbers(&session.run_dir(name), 3));
    for ((name, a), (_, b)) in one.iter().zip(&two) {
        assert!(a == b, "{} differs", name.display());
    }
    for word in ["fold 1", "fold 3", "all folds", "Sharpe"] {
        assert!(ended.out.contains(word), "{word} in\n{}", ended.out);
    }
    session.assert_clean();
}

#[test]
fn a_run_that_was_cut_off_goes_on_in_every_fold() {
    let session = Session::new();
    let often = "--set folds.count=2 --set train.checkpoint_every=10 --set train.log_every=5";
    session.run(&format!("--cpu --nproc 1 {SHORT} {often} --out one")).assert_code(0);
    for (name, signal) in [("killed", SIGKILL), ("stopped", SIGTERM)] {
        let mut job = session.start(&format!("--cpu --nproc 2 {SHORT} {often} --parallel folds --out {name}"), "");
        let metrics = format!("{name}/folds/fold-1/metrics.jsonl");
        job.wait_until("the moment to strike", || session.read(&metrics).lines().count() >= 4);
        kill(Pid::from_raw(job.pid() as i32), signal).unwrap();
        assert_ne!(job.end().code, 0);
        session.assert_gone_within(Duration::from_secs(10));
        session.run(&format!("--cpu --nproc 2 train dqn --resume {name}")).assert_code(0);
        let [one, two] = ["one", name].map(|name| numbers(&session.run_dir(name), 2));
        for ((file, a), (_, b)) in one.iter().zip(&two) {
            assert!(a == b, "{name}: {} differs", file.display());
        }
    }
    session.assert_clean();
}
