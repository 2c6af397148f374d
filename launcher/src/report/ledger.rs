//! How many trials stand behind a result: a ledger beside the runs, a line for each that came to an end, only ever added
//! to. The best of many trials looks good by luck; the deflated Sharpe ratio takes that off
//! (Bailey, Lopez de Prado 2014).

use anyhow::Context;
use foxlaunch_shared::run_dir::RunDir;
use foxlaunch_shared::statistics::{Moments, expected_best_sharpe, probabilistic_sharpe};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// The ledger's name, in the folder that holds the run's.
const NAME: &str = "foxlaunch-trials.jsonl";
/// A ledger of more bytes is not read: it is something else.
const LIMIT: u64 = 1 << 28;

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The digest of the bars that it was tested on.
    pub test: String,
    /// The digest of its settings.
    pub config: String,
    /// Its Sharpe ratio per day.
    pub sharpe: f64,
    /// The run's name.
    pub run: String,
}

/// What trials take off a Sharpe ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deflated {
    /// Trials that were counted: distinct settings tested on the same bars, this one among them.
    pub trials: usize,
    /// Of these, how many the ledger knows; the rest was said on the command line.
    pub known: usize,
    /// Daily returns that the probability rests on.
    pub days: usize,
    /// The Sharpe ratio per day that the best of so many trials without skill is expected to have.
    pub benchmark: f64,
    /// The probability that the true Sharpe ratio is above that: the deflated Sharpe ratio; with one trial the
    /// probabilistic one, whose benchmark is 0.
    pub probability: f64,
}

impl Deflated {
    /// What it is called: with one trial nothing is deflated.
    pub fn name(&self) -> &'static str {
        if self.trials > 1 { "deflated Sharpe ratio" } else { "probabilistic Sharpe ratio" }
    }
}

fn path(run: &RunDir) -> Option<PathBuf> {
    let folder = std::fs::canonicalize(run.path()).ok()?;
    Some(folder.parent()?.join(NAME))
}

/// Enters `trial` into the ledger beside `run`, if it is not there.
pub fn enter(run: &RunDir, trial: &Trial) -> anyhow::Result<()> {
    let Some(path) = path(run) else { return Ok(()) };
    let known = |other: &Trial| (&other.test, &other.config) == (&trial.test, &trial.config);
    if read(run).iter().any(known) {
        return Ok(());
    }
    let write = || -> std::io::Result<()> {
        // one write of one line: lines of several runs that end together stay whole
        let line = serde_json::to_string(trial)? + "\n";
        OpenOptions::new().create(true).append(true).open(&path)?.write_all(line.as_bytes())
    };
    write().with_context(|| format!("{}: this trial is not counted", path.display()))
}

/// All trials in the ledger beside `run`; lines that are none are passed over.
pub fn read(run: &RunDir) -> Vec<Trial> {
    let Some(path) = path(run) else { return Vec::new() };
    let small = std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= LIMIT);
    let text = if small { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What the trials in `ledger` that were tested on the bars of `own`, and at least `at_least` trials, take off the Sharpe
/// ratio of `daily` returns.
pub fn deflated(ledger: &[Trial], own: &Trial, daily: &Moments, at_least: usize) -> Deflated {
    let mut ratios: BTreeMap<&str, f64> = ledger
        .iter()
        .filter(|trial| trial.test == own.test)
        .map(|trial| (trial.config.as_str(), trial.sharpe))
        .collect();
    ratios.insert(&own.config, own.sharpe);
    let known = ratios.len();
    let trials = known.max(at_least);
    let ratios: Vec<f64> = ratios.into_values().filter(|ratio| ratio.is_finite()).collect();
    // of one ratio nothing is known of how they vary: without skill, by what chance alone does
    let deviation = match ratios.len() {
        2.. => Moments::of(&ratios).deviation,
        _ => 1.0 / (daily.count.max(2) as f64 - 1.0).sqrt(),
    };
    let benchmark = expected_best_sharpe(trials, deviation);
    Deflated { trials, known, days: daily.count, benchmark, probability: probabilistic_sharpe(daily, benchmark) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(config: &str, sharpe: f64) -> Trial {
        Trial { test: "bars".to_owned(), config: config.to_owned(), sharpe, run: "run".to_owned() }
    }

    fn daily() -> Moments {
        let returns: Vec<f64> = (0..500).map(|t| 0.001 + 0.01 * f64::from(t * 7919 % 101 - 50) / 50.0).collect();
        Moments::of(&returns)
    }

    #[test]
    fn the_ledger_grows_by_distinct_trials_and_survives_broken_lines() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::new(folder.path().join("run"));
        std::fs::create_dir(run.path()).unwrap();
        for t in [trial("a", 0.1), trial("b", 0.2), trial("a", 0.1)] {
            enter(&run, &t).unwrap();
        }
        assert_eq!(read(&run), [trial("a", 0.1), trial("b", 0.2)]);
        let ledger = folder.path().join(NAME);
        let text = std::fs::read_to_string(&ledger).unwrap();
        std::fs::write(&ledger, format!("{text}{{\"test\": 7}}\nnonsense\n")).unwrap();
        enter(&run, &trial("c", 0.3)).unwrap();
        assert_eq!(read(&run).len(), 3);
    }

    #[test]
    fn more_trials_make_a_ratio_less_certain_and_those_on_other_bars_do_not_count() {
        let own = trial("a", daily().sharpe());
        let alone = deflated(&[], &own, &daily(), 0);
        assert_eq!((alone.trials, alone.benchmark, alone.name()), (1, 0.0, "probabilistic Sharpe ratio"));
        assert_eq!(alone.probability, probabilistic_sharpe(&daily(), 0.0));
        let mut others: Vec<Trial> = (0..9).map(|k| trial(&format!("t{k}"), 0.01 * f64::from(k) - 0.04)).collect();
        let many = deflated(&others, &own, &daily(), 0);
        assert_eq!((many.trials, many.known, many.name()), (10, 10, "deflated Sharpe ratio"));
        assert!(many.benchmark > 0.0 && many.probability < alone.probability);
        // the count can be raised, never lowered
        assert_eq!(deflated(&others, &own, &daily(), 3).trials, 10);
        let raised = deflated(&others, &own, &daily(), 500);
        assert!(raised.trials == 500 && raised.known == 10 && raised.probability < many.probability);
        assert!(deflated(&[], &own, &daily(), 500).probability < alone.probability);
        others.iter_mut().for_each(|t| t.test = "other bars".to_owned());
        assert_eq!(deflated(&others, &own, &daily(), 0), alone);
    }
}
