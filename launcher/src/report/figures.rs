//! The figures beyond the first table: for the page, for the screen.

use super::chain::Comparison;
use super::ledger::Deflated;
use super::verdict::{percent, signed_percent};
use foxlaunch_shared::statistics::Figures;

/// Name, policy, buy and hold of each figure. Cells are plain text.
pub fn rows(comparison: &Comparison) -> Vec<[String; 3]> {
    let both = |name: &str, show: &dyn Fn(&Figures) -> String| {
        [name.to_owned(), show(&comparison.figures), show(&comparison.hold_figures)]
    };
    let (policy, hold) = (&comparison.policy, &comparison.buy_and_hold);
    let range = |[low, high]: [f64; 2]| format!("{low:.2} to {high:.2}");
    vec![
        both("Return in a year", &|f| f.cagr.map_or("-".to_owned(), signed_percent)),
        both("Volatility in a year", &|f| percent(f.volatility)),
        both("Sharpe of daily returns", &|f| format!("{:.2}", f.sharpe_daily)),
        both("its 90 % interval", &|f| range(f.sharpe_interval)),
        both("90 % interval of the return", &|f| {
            format!("{} to {}", signed_percent(f.return_interval[0]), signed_percent(f.return_interval[1]))
        }),
        both("Probability of a Sharpe above 0", &|f| percent(f.probabilistic_sharpe)),
        both("Sortino", &|f| format!("{:.2}", f.sortino)),
        both("Calmar", &|f| f.calmar.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))),
        both("Longest drawdown, bars", &|f| f.drawdown_bars.to_string()),
        both("Longest drawdown, days", &|f| format!("{:.0}", f.drawdown_days)),
        ["Bars with a gain while in market".to_owned(), percent(policy.hit_rate), percent(hold.hit_rate)],
        ["Mean size of the position".to_owned(), percent(policy.exposure), percent(hold.exposure)],
    ]
}

/// What costs do to the policy, in a sentence; none where its folds do not say.
pub fn of_costs(comparison: &Comparison) -> Option<String> {
    let level = |(factor, total): &(f64, f64)| match *factor {
        0.0 => format!("{} without costs", signed_percent(*total)),
        1.0 => format!("{} with those of the settings", signed_percent(*total)),
        factor => format!("{} with {factor} times as much", signed_percent(*total)),
    };
    let levels: Vec<String> = comparison.costs.iter().map(level).collect();
    if levels.is_empty() {
        return None;
    }
    let even = match comparison.break_even {
        Some(rate) => {
            let about = if comparison.estimated { "about " } else { "" };
            format!("; nothing is left at {about}{:.3} % of the traded value", 100.0 * rate)
        }
        None if comparison.costs.first().is_some_and(|(_, gross)| *gross <= 0.0) => {
            "; no cost is low enough for a gain".to_owned()
        }
        None => String::new(),
    };
    Some(format!("The same decisions return {}{even}.", levels.join(", ")))
}

/// What the number of trials takes off, in a sentence.
pub fn of_trials(deflated: &Deflated) -> String {
    let Deflated { trials, known, days, probability, .. } = deflated;
    let sure = percent(*probability);
    if *trials < 2 {
        return format!(
            "The probability that the true Sharpe ratio is above 0 is {sure}, from {days} daily returns. One trial is known \
             on these bars, so nothing is taken off for the choice among several (probabilistic, not deflated, Sharpe ratio)."
        );
    }
    let counted = if trials > known { format!(", of which {known} are known here") } else { String::new() };
    format!(
        "The probability that the true Sharpe ratio is above what the best of {trials} trials without skill would show is \
         {sure} (deflated Sharpe ratio, {days} daily returns; trials are distinct settings that were tested on these \
         bars{counted})."
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn every_figure_has_a_cell_for_both() {
        let comparison = Comparison::of(&sample::fold(0, &sample::wave(300, 0.0002, 0.0)));
        let rows = rows(&comparison);
        assert!(
            rows.len() >= 12 && rows.iter().flatten().all(|cell| !cell.is_empty() && !cell.contains("NaN")),
            "{rows:?}"
        );
    }

    #[test]
    fn sentences_say_what_was_counted() {
        let comparison = Comparison::of(&sample::fold(0, &[1.0, 1.1]));
        let text = of_costs(&comparison).unwrap();
        assert_eq!(
            text,
            "The same decisions return +10.0% without costs, +5.00% with those of the settings, +0.0% with 2 times as \
             much; nothing is left at 0.040 % of the traded value."
        );
        let mut deflated = Deflated { trials: 1, known: 1, days: 250, benchmark: 0.0, probability: 0.9 };
        assert!(
            of_trials(&deflated).contains("90.0%, from 250 daily") && of_trials(&deflated).contains("not deflated")
        );
        (deflated.trials, deflated.known) = (40, 12);
        assert!(
            of_trials(&deflated).contains("best of 40 trials") && of_trials(&deflated).contains("12 are known here")
        );
    }
}
