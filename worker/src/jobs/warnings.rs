//! What a person should know before a training starts.

use crate::data::{Dataset, Instrument, moment};
use foxlaunch_shared::config::{AlgorithmConfig, Config};

/// A close so many times the one before it, or such a part of it, is hardly what a market did.
const LEAP: f64 = 10.0;

/// A warning for each instrument in which a close is more than [`LEAP`] times, or less than a [`LEAP`]th of, the close
/// before it.
pub(super) fn leaps(dataset: &Dataset) -> Vec<String> {
    let leap = |i: &Instrument| {
        let close = &i.bars.close;
        let factor = |t: usize| close[t] / close[t - 1];
        let mut at = (1..close.len()).filter(|&t| factor(t) > LEAP || factor(t) < 1.0 / LEAP);
        let first = at.next()?;
        let more = match at.count() {
            0 => String::new(),
            n => format!(" (and {n} more of this kind)"),
        };
        let factor = match factor(first) {
            up if up > 1.0 => format!("{up:.3e} times"),
            down => format!("1/{:.3e} of", 1.0 / down),
        };
        let when = moment(i.bars.start_ns[first]);
        Some(format!(
            "{}: the close at {when} is {factor} the one before it{more}: it looks like a bad tick or an unadjusted \
             split",
            i.bars.symbol
        ))
    };
    dataset.instruments().iter().filter_map(leap).collect()
}

/// Warnings where the replay memory never holds enough for a first update.
pub(super) fn unlearned(config: &Config) -> Vec<String> {
    if config.train.algorithm != AlgorithmConfig::Dqn {
        return Vec::new();
    }
    let (dqn, steps) = (&config.dqn, config.train.steps);
    let every = dqn.train_every as u64;
    // steps come in blocks; the last ones of each stream still wait for the n-step window to be full
    let waiting = (dqn.n_step as u64 - 1).saturating_mul(config.environment.streams as u64);
    let kept = steps.div_ceil(every).saturating_mul(every).saturating_sub(waiting);
    let mut warnings = Vec::new();
    if dqn.learning_starts as u64 > kept {
        warnings.push(format!(
            "dqn.learning_starts = {} is above the {kept} transitions that train.steps = {steps} surely leave: (next to) \
             nothing is learned, and what is tested is the policy that training began with",
            dqn.learning_starts
        ));
    }
    if dqn.learning_starts > dqn.buffer_size {
        warnings.push(format!(
            "dqn.learning_starts = {} is above dqn.buffer_size = {}: nothing is learned, and what is tested is the policy \
             that training began with",
            dqn.learning_starts, dqn.buffer_size
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::super::{Registry, plan, tests::config};
    use super::*;

    /// A table of `closes`, one a day from 2001-09-09 on.
    fn table(closes: &[f64]) -> String {
        let mut text = "time,open,high,low,close,volume\n".to_owned();
        for (t, c) in closes.iter().enumerate() {
            text += &format!("{},{c},{c},{c},{c},1\n", 1_000_000_000 + 86_400 * t);
        }
        text
    }

    #[test]
    fn the_plan_warns_of_ticks_that_cannot_be() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("my.csv");
        let path = format!("data.path={}", file.display());
        let warnings = |spikes: &[(usize, f64)]| {
            let mut closes: Vec<f64> = (0..600).map(|t| 100.0 + f64::from(t * 7 % 13)).collect();
            spikes.iter().for_each(|&(t, close)| closes[t] = close);
            std::fs::write(&file, table(&closes)).unwrap();
            let all = plan(&Registry::built_in(), &config(&[&path])).unwrap().warnings;
            all.into_iter().filter(|w| w.contains("bad tick")).collect::<Vec<_>>()
        };
        assert_eq!(warnings(&[(300, 900.0)]), [""; 0]);
        let up = warnings(&[(300, 1e9)]);
        assert_eq!(up.len(), 1);
        for word in ["my: ", "2002-07-06", "times", "1 more", "unadjusted split"] {
            assert!(up[0].contains(word), "{word}: {}", up[0]);
        }
        let down = warnings(&[(300, 1.0)]);
        assert!(down[0].contains("1/1."), "{down:?}");
    }

    #[test]
    fn a_run_that_cannot_learn_is_warned_of_and_one_that_can_is_not() {
        let blocks = "dqn.train_every=16";
        for (starts, steps, n_step, warned) in [
            ("1600", "1600", "1", false),
            ("1601", "1600", "1", true),
            ("1600", "1600", "3", true),
            ("9", "1", "1", false),
        ] {
            let pairs = [("dqn.learning_starts", starts), ("train.steps", steps), ("dqn.n_step", n_step)];
            let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let config = config(&[blocks, &pairs[0], &pairs[1], &pairs[2]]);
            assert_eq!(!unlearned(&config).is_empty(), warned, "{pairs:?}");
        }
        let small = config(&["dqn.learning_starts=3000", "dqn.buffer_size=2000"]);
        assert!(unlearned(&small).iter().any(|w| w.contains("dqn.buffer_size")), "{:?}", unlearned(&small));
    }
}
