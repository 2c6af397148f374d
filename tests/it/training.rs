//! `train dqn` from outside: what it leaves, and that its numbers depend on nothing but seed and settings.

use crate::session::Session;
use foxlaunch_shared::evaluation::FoldResult;
use foxlaunch_shared::metric::Metric;
use foxlaunch_shared::run_dir::RunDir;
use std::collections::BTreeMap;

/// A run of seconds: the smoke run, shorter.
pub(crate) const SHORT: &str = "train dqn --smoke --set train.steps=1600";

/// Every file whose bytes the numbers decide: weights, moments, metrics, test results.
pub(crate) fn numbers(run: &RunDir) -> BTreeMap<String, Vec<u8>> {
    numbers_of(run, "fold-0.json")
}

/// As [`numbers`], of a run whose result is in `result`.
pub(crate) fn numbers_of(run: &RunDir, result: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![run.checkpoints(), run.evaluation(), run.metrics()];
    while let Some(path) = open.pop() {
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.exists() {
            let name = path.strip_prefix(run.path()).unwrap().to_string_lossy().into_owned();
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
    assert!(found.keys().any(|name| name.ends_with("model.safetensors")), "{:?}", found.keys());
    assert!(found.keys().any(|name| name.ends_with(result)), "{:?}", found.keys());
    found
}

pub(crate) fn assert_same(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    let differing: Vec<_> = a.keys().filter(|name| a[*name] != b[*name]).collect();
    assert!(differing.is_empty(), "different bytes in {differing:?}");
}

#[test]
fn a_smoke_run_leaves_everything_a_person_needs() {
    let session = Session::new();
    let ended = session.run("--cpu --nproc 2 train dqn --smoke --out run");
    ended.assert_code(0);
    let run = session.run_dir("run");
    for path in [run.config(), run.plan(), run.events(), run.metrics(), run.report_html(), run.report_json()] {
        assert!(std::fs::metadata(&path).is_ok_and(|file| file.len() > 0), "{}", path.display());
    }
    assert!(std::fs::read_dir(run.tensorboard()).unwrap().next().is_some());
    assert!(run.checkpoints().join("latest").exists());
    for fold in 0..2 {
        let result: FoldResult = serde_json::from_slice(&std::fs::read(run.fold(fold)).unwrap()).unwrap();
        assert!(result.train.last_ns < result.validation.first_ns && result.validation.last_ns < result.test.first_ns);
        assert_eq!(result.policy.equity.len(), result.times_ns.len() + 1);
    }
    for line in session.read("run/metrics.jsonl").lines() {
        let _: Metric = serde_json::from_str(line).unwrap();
    }
    assert!(ended.err.contains("2 workers on the processor"), "{}", ended.err);
    assert!(ended.err.contains("gradients over shared memory"), "{}", ended.err);
    for word in ["fold 1", "fold 2", "policy", "buy & hold", "random", "Sharpe", "report.html"] {
        assert!(ended.out.contains(word), "{word} in\n{}", ended.out);
    }
    session.assert_clean();
    // the report can be written again, from the folder alone
    std::fs::remove_file(run.report_html()).unwrap();
    assert!(session.run("report run").assert_code(0).out.contains("buy & hold"));
    assert!(run.report_html().exists());
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_does_not() {
    let session = Session::new();
    for (name, seed) in [("a", 7), ("b", 7), ("c", 8)] {
        session.run(&format!("--cpu --nproc 2 {SHORT} --seed {seed} --out {name}")).assert_code(0);
    }
    let [a, b, c] = ["a", "b", "c"].map(|name| numbers(&session.run_dir(name)));
    assert_same(&a, &b);
    assert_ne!(a["metrics.jsonl"], c["metrics.jsonl"]);
}

#[test]
fn one_to_four_workers_give_the_same_bits() {
    let session = Session::new();
    let run = |workers: u32| {
        let name = format!("run-{workers}");
        let words = format!("--cpu --nproc {workers} {SHORT} --set parallel.virtual_shards=4 --out {name}");
        session.run(&words).assert_code(0);
        numbers(&session.run_dir(&name))
    };
    let alone = run(1);
    for workers in 2..=4 {
        assert_same(&alone, &run(workers));
    }
}

#[test]
fn own_bars_of_a_file_are_trained_on() {
    let session = Session::new();
    let mut text = String::from("time,open,high,low,close,volume\n");
    let mut price = 100.0f64;
    for minute in 0..3000i64 {
        let open = price;
        price *= 1.0 + 0.002 * ((minute as f64 * 0.7).sin() + (minute as f64 * 0.013).cos() * 0.3);
        let (high, low) = (open.max(price) * 1.0005, open.min(price) * 0.9995);
        text +=
            &format!("{},{open:.6},{high:.6},{low:.6},{price:.6},{}\n", 1_700_000_000 + minute * 60, 100 + minute % 7);
    }
    session.write("bars.csv", text);
    let ended = session.run(&format!("--cpu --nproc 2 {SHORT} --data bars.csv --out run"));
    ended.assert_code(0);
    assert!(ended.err.contains("bars.csv"), "{}", ended.err);
}

#[test]
fn local_sgd_runs_and_says_so_in_the_settings() {
    let session = Session::new();
    for every in [2, 4] {
        let words = format!("--cpu --nproc 2 {SHORT} --set parallel.sync_every_n_steps={every} --out run-{every}");
        session.run(&words).assert_code(0);
    }
    let [two, four] = ["run-2", "run-4"].map(|name| numbers(&session.run_dir(name)));
    assert_ne!(two["metrics.jsonl"], four["metrics.jsonl"]);
}
