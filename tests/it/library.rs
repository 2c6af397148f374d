//! The library face: an own candle model, trained under `foxlaunch run`.

use crate::session::Session;

const THIRD_PARTY: &str = env!("CARGO_BIN_EXE_fox-test-third-party");

#[test]
fn an_own_model_trains_on_several_workers_and_ends_the_same_on_each() {
    let session = Session::new();
    let ended = session.run(&format!("--cpu --nproc 3 run --out run -- {THIRD_PARTY}"));
    ended.assert_code(0);
    let weights: Vec<&str> =
        ended.out.lines().filter_map(|line| line.split_once("] weights ")).map(|(_, w)| w).collect();
    assert_eq!(weights.len(), 3, "{}", ended.out);
    assert!(weights.iter().all(|other| *other == weights[0]), "{weights:?}");
    let values: Vec<f32> = weights[0].trim_matches(['[', ']']).split(", ").map(|x| x.parse().unwrap()).collect();
    assert!(values.iter().all(|w| (w - 2.0).abs() < 0.05), "it learns to double: {values:?}");
    let events = session.read("run/events.jsonl");
    assert_eq!(events.matches("\"event\":\"ready\"").count(), 3, "{events}");
}

#[test]
fn the_same_program_runs_without_a_launcher() {
    let output = std::process::Command::new(THIRD_PARTY).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("weights "));
}

#[test]
fn the_readme_shows_this_very_program() {
    let read = |path: &str| std::fs::read_to_string(crate::source::root().join(path)).unwrap();
    let (readme, program) = (read("worker/README.md"), read("tests/programs/third_party.rs"));
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(shown, &program[program.find("use candle_core").unwrap()..]);
}
