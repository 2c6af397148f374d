//! The table at the end of a run: each fold and all together, beside holding and chance.

use crate::report::calendar::moment;
use crate::report::collect::FoldReport;
use crate::report::verdict::{Verdict, never_learned, percent, signed_percent};
use crate::report::{Comparison, Report, control, figures};
use foxlaunch_shared::evaluation::{Span, Track};
use foxlaunch_shared::run_dir::RunDir;
use foxlaunch_shared::statistics::Figures;

/// No line is wider, paths and names of instruments excepted.
pub const WIDTH: usize = 100;
const COLUMNS: [&str; 6] = ["return", "Sharpe", "max drawdown", "turnover", "in market", "trades"];
const WIDTHS: [usize; 6] = [19, 15, 14, 10, 11, 8];
const NAME: usize = 19;

/// The table of `report` and where its run's files are, as plain text with a newline at the end.
pub fn summary(report: &Report) -> String {
    let mut lines = Vec::new();
    for fold in &report.folds {
        lines.push(format!("fold {}: {}", fold.fold + 1, when(&fold.result.test)));
        lines.extend(block(&fold.result));
    }
    if let Some(chained) = report.chained.as_ref().filter(|_| report.folds.len() > 1) {
        lines.push(format!("all folds, one after another: {}", when(&chained.test)));
        lines.extend(block(chained));
    }
    if let Some(deflated) = report.deflated.as_ref().filter(|_| report.chained.is_some()) {
        lines.push(format!(
            "{}: {} ({} {} known on these bars)",
            deflated.name(),
            percent(deflated.probability),
            deflated.trials,
            if deflated.trials == 1 { "trial" } else { "trials" }
        ));
        lines.push(String::new());
    }
    for result in &report.control {
        lines.push(control::about(result));
        lines.push(row("", &control::COLUMNS.map(str::to_owned)));
        lines.extend(control::rows(result).iter().map(|(name, cells)| row(name, cells)));
        lines.push(String::new());
    }
    if let Some(pooled) = &report.pooled {
        if report.control.is_empty() {
            lines.extend(pooled.seeds.iter().map(|(seed, value)| format!("seed {seed}: {} {value:+.4}", pooled.what)));
        }
        lines.extend([control::pooled_line(pooled), String::new()]);
    }
    if report.folds.is_empty() && report.control.is_empty() && report.pooled.is_none() {
        lines.extend(["no fold has a test result yet".to_owned(), String::new()]);
    }
    lines.extend(report.unlearned().into_iter().map(never_learned));
    lines.extend(report.missing.iter().map(|what| format!("left out: {what}")));
    let run = RunDir::new(&report.folder);
    lines.push(format!("run folder   {}", run.path().display()));
    lines.push(format!("checkpoints  {}", run.checkpoints().display()));
    lines.push(format!("report       {}", run.report_html().display()));
    lines.join("\n") + "\n"
}

/// The table of one result on other data, and whether they are `seen`: what the policy learned from or was chosen by.
pub fn evaluated(report: &FoldReport, seen: Option<&Span>) -> String {
    let mut lines = vec![format!("the policy of fold {}, {}", report.fold + 1, when(&report.result.test))];
    lines.push(format!("on {}", report.instruments.join(", ")));
    lines.extend(block(&report.result));
    if let Some(seen) = seen {
        lines.push(format!(
            "in-sample: it learned from, or was chosen by, bars of {} to {}: this is no test",
            moment(seen.first_ns),
            moment(seen.last_ns)
        ));
    }
    lines.extend(figures::of_costs(&report.result));
    let rows = figures::rows(&report.result);
    lines.push(format!("  {:<34}{:>20}{:>20}", "", "policy", "buy & hold"));
    lines.extend(rows.iter().map(|[name, policy, hold]| format!("  {name:<34}{policy:>20}{hold:>20}")));
    lines.join("\n") + "\n"
}

fn when(test: &Span) -> String {
    format!("tested on {} to {}, {} bars", moment(test.first_ns), moment(test.last_ns), test.bars)
}

fn block(comparison: &Comparison) -> Vec<String> {
    let random = &comparison.random;
    let ([low, _, high], [worst, _, best]) = (random.total_return, random.sharpe);
    let range = [format!("{} to {}", signed_percent(low), signed_percent(high)), format!("{worst:.2} to {best:.2}")];
    let about = if comparison.estimated { "random 5-95 %, est." } else { "random 5-95 %" };
    vec![
        row("", &COLUMNS.map(str::to_owned)),
        row("policy", &cells(&comparison.policy)),
        row("buy & hold", &cells(&comparison.buy_and_hold)),
        row("random, median", &cells(&random.median)),
        row(about, &range),
        of_figures(&comparison.figures),
        format!("  -> {}", Verdict::of(comparison)),
        String::new(),
    ]
}

/// The policy's figures for a year, and how sure its Sharpe ratio is.
fn of_figures(figures: &Figures) -> String {
    let [low, high] = figures.sharpe_interval;
    format!(
        "  policy in a year {}, volatility {}; Sharpe of days {:.2}, 90 % from {low:.2} to {high:.2}",
        figures.cagr.map_or("-".to_owned(), signed_percent),
        percent(figures.volatility),
        figures.sharpe_daily
    )
}

fn cells(track: &Track) -> [String; 6] {
    [
        signed_percent(track.total_return),
        format!("{:.2}", track.sharpe),
        percent(track.max_drawdown),
        format!("{:.3}", track.turnover),
        percent(track.time_in_market),
        track.trades.to_string(),
    ]
}

fn row(name: &str, cells: &[String]) -> String {
    let cells: String = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$}")).collect();
    format!("  {name:<NAME$}{cells}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn report() -> (tempfile::TempDir, Report) {
        let folder = tempfile::tempdir().expect("a folder");
        let run = RunDir::new(folder.path());
        sample::write_run(&run, &["IBM"]);
        let report = crate::report::collect::collect(&run, 0).expect("a report");
        (folder, report)
    }

    #[test]
    fn columns_are_aligned_and_the_lines_fit() {
        let (_folder, report) = report();
        let text = summary(&report);
        let rows: Vec<&str> = text.lines().filter(|line| line.contains('%') && line.contains("  ")).collect();
        assert!(rows.len() >= 16, "{text}");
        assert!(text.lines().filter(|line| !line.contains('/')).all(|line| line.chars().count() <= WIDTH), "{text}");
        let ends = |word: &str| text.lines().find_map(|line| Some(line.find(word)? + word.len()));
        let policy = text.lines().find(|line| line.starts_with("  policy")).expect("a row");
        let figure = signed_percent(report.folds[0].result.policy.total_return);
        assert_eq!(policy.find(&figure).map(|at| at + figure.len()), ends("return"), "{text}");
    }

    #[test]
    fn a_block_reads_like_this() {
        let comparison = Comparison::of(&sample::fold(0, &[1.0, 1.1]));
        // A line's end that is escaped would take the next line's indent with it.
        let want = "
                                  return         Sharpe  max drawdown  turnover  in market  trades
  policy                          +10.0%           0.42          0.0%     0.031      71.0%      25
  buy & hold                      +0.04%           0.42          0.0%     0.031      71.0%      25
  random, median                  -0.01%           0.42          0.0%     0.031      71.0%      25
  random 5-95 %         -15.0% to +20.0%  -1.10 to 0.80
  policy in a year -, volatility 0.0%; Sharpe of days 0.00, 90 % from 0.00 to 0.00
  -> the test part is too short to judge
";
        assert_eq!(block(&comparison).join("\n"), want[1..]);
    }

    #[test]
    fn every_fold_all_together_and_the_places_are_there() {
        let (_folder, report) = report();
        let text = summary(&report);
        for word in
            ["fold 1: tested on 2006-01-02", "fold 3: ", "all folds, one after another", "est.", "checkpoints  /"]
        {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
        assert!(text.ends_with("report.html\n"));
    }

    #[test]
    fn a_run_without_results_says_so() {
        let (_folder, mut report) = report();
        report.folds.clear();
        report.chained = None;
        assert!(summary(&report).starts_with("no fold has a test result yet\n"));
    }
}
