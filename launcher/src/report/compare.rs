//! Several runs side by side.

use super::collect::Report;
use super::verdict::{Verdict, percent, signed_percent};

/// A line for each of `reports`: seed, bars, return, Sharpe ratio and what it is worth, and the verdict; runs that were
/// tested on other bars than the first are marked, since their figures cannot be compared with its.
pub fn table(reports: &[Report]) -> String {
    let width = reports.iter().map(|report| report.run.chars().count()).max().unwrap_or(0).clamp(3, 40);
    let mut lines = vec![
        "runs side by side, all folds one after another".to_owned(),
        format!(
            "  {:width$} {:>8} {:>7} {:>9} {:>7} {:>15} {:>9} {:>7}",
            "run", "seed", "bars", "return", "Sharpe", "90 % interval", "drawdown", "sure"
        ),
    ];
    let first = reports.first().and_then(|report| report.test_digest.clone());
    let mut marked = false;
    for report in reports {
        let name: String = report.run.chars().take(width).collect();
        let Some(chained) = &report.chained else {
            lines.push(format!("  {name:width$} has no test result"));
            continue;
        };
        let figures = &chained.figures;
        let [low, high] = figures.sharpe_interval;
        let other = report.test_digest != first;
        marked |= other;
        lines.push(format!(
            "  {name:width$} {:>8} {:>7} {:>9} {:>7.2} {:>15} {:>9} {:>7}{}  {}",
            report.config.as_ref().map_or("?".to_owned(), |config| config.train.seed.to_string()),
            chained.times_ns.len(),
            signed_percent(chained.policy.total_return),
            figures.sharpe_daily,
            format!("{low:.2} to {high:.2}"),
            percent(chained.policy.max_drawdown),
            report.deflated.as_ref().map_or("-".to_owned(), |d| percent(d.probability)),
            if other { " *" } else { "" },
            Verdict::of(chained).short()
        ));
    }
    let returns: Vec<f64> = reports.iter().filter_map(|r| Some(r.chained.as_ref()?.policy.total_return)).collect();
    if let (Some(low), Some(high)) =
        (returns.iter().copied().reduce(f64::min), returns.iter().copied().reduce(f64::max))
    {
        let mut sorted = returns.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = 0.5 * (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]);
        lines.push(format!(
            "  returns from {} to {}, median {}: so much lies between runs alike",
            signed_percent(low),
            signed_percent(high),
            signed_percent(middle)
        ));
    }
    if marked {
        lines.push("  * tested on other bars than the first: not to be compared with it".to_owned());
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::{collect, sample};
    use super::*;
    use foxlaunch_shared::run_dir::RunDir;

    #[test]
    fn runs_stand_side_by_side_and_other_bars_are_marked() {
        let folder = tempfile::tempdir().unwrap();
        let reports: Vec<Report> = ["one", "two", "three"]
            .iter()
            .map(|name| {
                let run = RunDir::new(folder.path().join(name));
                let instruments = if *name == "three" { ["MSFT"] } else { ["IBM"] };
                sample::write_run(&run, &instruments);
                collect::collect(&run, 0).unwrap()
            })
            .collect();
        let text = table(&reports);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7, "{text}");
        assert!(
            lines[2].trim_start().starts_with("one") && !lines[3].contains(" *") && lines[4].contains(" *"),
            "{text}"
        );
        assert!(lines[5].contains("median") && lines[6].contains("not to be compared"), "{text}");
    }
}
