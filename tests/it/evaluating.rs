//! What a finished run is good for: `evaluate`, `predict`, and reports of several runs.

use crate::session::Session;
use crate::training::SHORT;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// Bars of a day each, as a table; the last ones are left out where `len` is smaller.
fn table(len: usize) -> String {
    let mut text = String::from("time,open,high,low,close,volume\n");
    let mut price = 100.0f64;
    for day in 0..len as i64 {
        let open = price;
        price *= 1.0 + 0.01 * ((day as f64 * 0.7).sin() + (day as f64 * 0.013).cos() * 0.3);
        let (high, low) = (open.max(price) * 1.005, open.min(price) * 0.995);
        text +=
            &format!("{},{open:.6},{high:.6},{low:.6},{price:.6},{}\n", 1_400_000_000 + day * 86_400, 100 + day % 7);
    }
    text
}

#[test]
fn a_policy_is_evaluated_and_followed_on_other_data() {
    let session = Session::new();
    session.run(&format!("--cpu --nproc 1 {SHORT} --out run")).assert_code(0);
    session.write("x.csv", table(400));
    let ended = session.run("evaluate run --data x.csv --json");
    ended.assert_code(0);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&result["instruments"], &result["fold"]), (&serde_json::json!(["x"]), &Value::from(1)));
    assert_eq!((&result["in_sample"], &result["test"]["bars"]), (&Value::from(false), &Value::from(340)));
    assert_eq!(result["costs"].as_array().unwrap().len(), 3);
    // at the run's own costs it is what the table says
    assert_eq!(result["costs"][1]["total_return"], result["policy"]["total_return"]);
    let page = session.run("evaluate run --data x.csv --fold 1").assert_code(0).out.clone();
    for word in ["the policy of fold 1", "buy & hold", "Calmar", "without costs"] {
        assert!(page.contains(word), "{word} in\n{page}");
    }
    // its own data are what it learned from
    assert!(session.run("evaluate run").assert_code(0).out.contains("in-sample"));
    let other = session.run("evaluate run --data x.csv --set features.columns=[\"return_1\"]");
    other.assert_code(65);
    assert!(other.err.contains("not those that this policy learned from"), "{}", other.err);
    session.run("evaluate run --data x.csv --fold 9").assert_code(65);
    session.run("evaluate nowhere --data x.csv").assert_code(66);

    let whole = session.run("predict run --data x.csv").assert_code(0).out.clone();
    let rows: Vec<&str> = whole.lines().skip(1).collect();
    assert_eq!((whole.lines().next(), rows.len()), (Some("time,instrument,position"), 340));
    assert!(rows.iter().all(|row| ["-1", "0", "1"].contains(&row.rsplit(',').next().unwrap())), "{whole}");
    // what is decided on a bar does not change when later ones come: no look into the future
    session.write("y.csv", table(300));
    let early = session.run("predict run --data y.csv").assert_code(0).out.replace(",y,", ",x,");
    assert_eq!(early.lines().skip(1).collect::<Vec<_>>(), rows[..240]);
    let mut command = session.command("predict run run --data -");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(table(400).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains(",stdin,"));
    let positions = |text: &str| text.lines().map(|row| row.rsplit(',').next().unwrap().to_owned()).collect::<Vec<_>>();
    // two policies that are one agree with it
    assert_eq!(positions(&String::from_utf8_lossy(&output.stdout)), positions(&whole));
    session.assert_clean();
}

#[test]
fn a_policy_of_ppo_is_evaluated_and_followed_with_the_sizes_of_its_checkpoint() {
    let session = Session::new();
    let small = "--set ppo.policy_hidden=[24] --set ppo.value_hidden=[12,6]";
    session
        .run(&format!("--cpu --nproc 2 -q train ppo --smoke --set train.steps=4096 {small} --out run"))
        .assert_code(0);
    session.write("x.csv", table(400));
    let ended = session.run("evaluate run --data x.csv --json");
    ended.assert_code(0);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&result["in_sample"], &result["test"]["bars"]), (&Value::from(false), &Value::from(340)));
    assert_eq!(result["costs"][1]["total_return"], result["policy"]["total_return"]);
    // whatever the settings say, the weights have the sizes, and are of the algorithm, that the checkpoint says
    let others = "--set ppo.policy_hidden=[8] --set network.hidden_dim_base=32 --set train.algorithm=dqn";
    let again = session.run(&format!("evaluate run --data x.csv --json {others}"));
    again.assert_code(0);
    assert_eq!(again.out, ended.out);

    let whole = session.run("predict run --data x.csv").assert_code(0).out.clone();
    let rows: Vec<&str> = whole.lines().skip(1).collect();
    assert_eq!((whole.lines().next(), rows.len()), (Some("time,instrument,position"), 340));
    session.write("x.csv", table(300));
    let early = session.run("predict run --data x.csv").assert_code(0).out.clone();
    assert_eq!(early.lines().skip(1).collect::<Vec<_>>(), rows[..240]);
    session.write("x.csv", table(61));
    let short = session.run("predict run --data x.csv");
    short.assert_code(65);
    assert!(short.err.contains("x.csv: 61 bars are too few: features look back over 60"), "{}", short.err);
    session.assert_clean();
}

#[test]
fn runs_are_compared_and_trials_are_counted() {
    let session = Session::new();
    for seed in 1..=2 {
        let ended = session.run(&format!("--cpu --nproc 2 {SHORT} --seed {seed} --out run-{seed}"));
        ended.assert_code(0);
        let named = ["probabilistic Sharpe ratio", "deflated Sharpe ratio"][seed - 1];
        assert!(ended.out.contains(named), "{named} in\n{}", ended.out);
    }
    let ledger = session.read("foxlaunch-trials.jsonl");
    assert_eq!(ledger.lines().count(), 2, "{ledger}");
    let both = session.run("report run-1 run-2").assert_code(0).out.clone();
    for word in ["runs side by side", "run-1", "run-2", "median", "2 trials known"] {
        assert!(both.contains(word), "{word} in\n{both}");
    }
    session.run("report run-1 --trials 50").assert_code(0);
    let report: Value = serde_json::from_str(&session.read("run-1/report.json")).unwrap();
    assert_eq!((&report["deflated"]["trials"], &report["deflated"]["known"]), (&Value::from(50), &Value::from(2)));
    let page = session.read("run-1/report.html");
    assert!(page.contains("best of 50 trials") && page.contains("More figures"));
    // the same settings again are no new trial
    session.run(&format!("--cpu --nproc 2 {SHORT} --seed 2 --out again")).assert_code(0);
    assert_eq!(session.read("foxlaunch-trials.jsonl").lines().count(), 2);
}
