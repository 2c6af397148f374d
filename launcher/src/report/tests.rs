use super::{sample, write};
use foxlaunch_shared::run_dir::RunDir;
use std::fs;

/// A run folder in a temporary place that lives as long as the first value.
fn made(instruments: &[&str]) -> (tempfile::TempDir, RunDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunDir::new(folder.path().join("run <b>\"&'"));
    sample::write_run(&run, instruments);
    (folder, run)
}

#[test]
fn the_page_runs_nothing_and_asks_for_nothing() {
    let (_folder, run) = made(&["<script>alert(1)</script>", "A&B\" onload='x"]);
    write(&run, 0).expect("a report");
    let page = fs::read_to_string(run.report_html()).expect("the page");
    for forbidden in ["<script", "http://", "https://", "src=", "href=", "url(", "@import", "onload='"] {
        assert!(!page.contains(forbidden), "the page contains {forbidden}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "an instrument's name is shown, escaped");
    assert!(page.contains("<h1>run &lt;b&gt;&quot;&amp;&#39;</h1>"), "the folder's name is shown, escaped");
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn page_and_numbers_agree() {
    let (_folder, run) = made(&["IBM"]);
    let report = write(&run, 0).expect("a report");
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(run.report_json()).expect("the numbers")).expect("JSON");
    let page = fs::read_to_string(run.report_html()).expect("the page");
    assert_eq!(json["folds"].as_array().map(Vec::len), Some(3));
    assert_eq!(report.missing, [""; 0]);
    for fold in &report.folds {
        let policy = &json["folds"][fold.fold]["policy"];
        assert_eq!(policy["total_return"].as_f64(), Some(fold.result.policy.total_return));
        assert!(page.contains(&super::verdict::signed_percent(fold.result.policy.total_return)));
        assert!(page.contains(&format!("<h2>Fold {}</h2>", fold.fold + 1)));
    }
    let chained = report.chained.expect("three folds");
    assert_eq!(json["chained"]["policy"]["total_return"].as_f64(), Some(chained.policy.total_return));
    assert_eq!(json["chained"]["verdict"], "within the range of chance");
    assert!(page.contains("within the range of chance"));
}

#[test]
fn a_fold_that_never_learned_is_said_to() {
    let (_folder, run) = made(&["IBM"]);
    assert_eq!(write(&run, 0).expect("a report").unlearned(), [0; 0]);
    let lines = fs::read_to_string(run.metrics()).expect("metrics");
    let metrics =
        lines.lines().map(|line| serde_json::from_str::<foxlaunch_shared::metric::Metric>(line).expect("one"));
    let left = metrics.filter(|metric| metric.fold != 1).map(|metric| serde_json::to_string(&metric).expect("JSON"));
    let none = "{\"fold\":1,\"update\":0,\"step\":1000,\"values\":{\"validation\":0.1}}".to_owned();
    fs::write(run.metrics(), left.chain([none]).collect::<Vec<_>>().join("\n") + "\n").expect("written");
    let report = write(&run, 0).expect("a report");
    assert_eq!((report.unlearned(), report.missing.len()), (vec![1], 0), "{:?}", report.missing);
    let page = fs::read_to_string(run.report_html()).expect("the page");
    assert!(page.contains("Fold 2 never learned"));
    assert!(crate::screen::summary::summary(&report).contains("Fold 2 never learned"));
}

#[test]
fn validation_is_shown_as_a_choice_and_never_in_the_numbers() {
    let (_folder, run) = made(&["IBM"]);
    let report = write(&run, 0).expect("a report");
    assert_eq!(report.validation_metric(), Some("validation"));
    let page = fs::read_to_string(run.report_html()).expect("the page");
    assert!(page.contains("it is no result"));
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(run.report_json()).expect("the numbers")).expect("JSON");
    let keys = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&json["folds"][0]["validation"]), ["bars", "first_ns", "last_ns"], "where, and no figure");
    assert_eq!(
        keys(&json),
        ["chained", "deflated", "folder", "folds", "missing", "problems", "run", "test_digest", "version"]
    );
    assert_eq!(json["deflated"]["trials"], 1);
    for key in ["cagr", "calmar", "drawdown_bars", "probabilistic_sharpe", "sharpe_interval", "sortino", "volatility"] {
        assert!(
            !json["folds"][0]["policy_figures"][key].is_null() && !json["chained"]["policy_figures"][key].is_null()
        );
    }
    assert_eq!(json["folds"][0]["costs"][2]["factor"], 2.0);
}

#[test]
fn a_run_that_was_cut_off_is_reported_as_far_as_it_went() {
    let (_folder, run) = made(&["IBM"]);
    fs::remove_file(run.fold(2)).expect("removed");
    fs::remove_file(run.plan()).expect("removed");
    let whole = fs::read_to_string(run.fold(1)).expect("a fold");
    fs::write(run.fold(1), &whole[..whole.len() / 2]).expect("cut");
    let mut metrics = fs::read_to_string(run.metrics()).expect("metrics");
    metrics.push_str("{\"fold\": 2, \"upd");
    fs::write(run.metrics(), metrics).expect("cut");

    let report = write(&run, 0).expect("a report");
    assert_eq!(report.folds.len(), 1);
    let missing = report.missing.join("\n");
    for named in ["plan.json", "fold-1.json", "fold 3 of 3", "metrics.jsonl has 1 unreadable lines; line 361"] {
        assert!(missing.contains(named), "{named} is not in\n{missing}");
    }
    let page = fs::read_to_string(run.report_html()).expect("the page");
    assert!(page.contains("Left out: fold 3 of 3 has no test result."));
}

#[test]
fn an_empty_folder_gives_a_page_that_says_so_and_none_gives_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = write(&RunDir::new(folder.path()), 0).expect("a report");
    assert!(report.chained.is_none() && report.missing.len() == 3, "{:?}", report.missing);
    let nowhere = RunDir::new(folder.path().join("nowhere"));
    let error = format!("{:#}", write(&nowhere, 0).expect_err("no folder"));
    assert!(error.contains("nowhere"), "{error}");
}

#[test]
fn a_result_whose_parts_do_not_fit_is_refused() {
    let (_folder, run) = made(&["IBM"]);
    let mut fold = sample::fold(0, &[1.0, 1.1, 1.2]);
    fold.policy.equity.pop();
    fs::write(run.fold(0), serde_json::to_string(&fold).expect("JSON")).expect("written");
    let report = write(&run, 0).expect("a report");
    assert!(report.missing.iter().any(|what| what.contains("policy has 2 values for 2 bars")), "{:?}", report.missing);
    assert_eq!(report.folds.len(), 2);
}

#[test]
fn only_whole_files_are_left() {
    let (_folder, run) = made(&["IBM"]);
    write(&run, 0).expect("a report");
    write(&run, 0).expect("a report over the first");
    let names: Vec<String> = fs::read_dir(run.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().all(|name| !name.starts_with(".report-")), "{names:?}");
}
