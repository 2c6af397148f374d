//! Results of control tasks, and several seeds as one figure with an interval.

use foxlaunch_shared::evaluation::{ControlResult, Returns};
use serde::Serialize;

/// Resamples of the interval.
const RESAMPLES: usize = 4000;

/// Several seeds as one figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pooled {
    /// What is pooled of each seed.
    pub what: String,
    /// Each seed with its figure, in order.
    pub seeds: Vec<(u64, f64)>,
    /// Interquartile mean: the mean without the lowest and the highest quarter (Agarwal et al. 2021).
    pub iqm: f64,
    /// Its 95 % interval, by resampling the seeds.
    pub interval: [f64; 2],
    /// The middle figure.
    pub median: f64,
}

impl Pooled {
    /// Of seeds with a figure each; none where there are fewer than two.
    pub fn of(what: &str, seeds: Vec<(u64, f64)>) -> Option<Pooled> {
        if seeds.len() < 2 {
            return None;
        }
        let values: Vec<f64> = seeds.iter().map(|seed| seed.1).collect();
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut resample = || -> f64 {
            iqm((0..values.len()).map(|_| values[(split_mix(&mut random) % values.len() as u64) as usize]).collect())
        };
        let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
        means.sort_by(f64::total_cmp);
        let at = |share: f64| means[((means.len() - 1) as f64 * share).round() as usize];
        Some(Pooled {
            what: what.to_owned(),
            iqm: iqm(values.clone()),
            interval: [at(0.025), at(0.975)],
            median: median(values),
            seeds,
        })
    }
}

/// The mean without as many of the lowest and the highest as go into a quarter of all.
pub fn iqm(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 4;
    let middle = &values[cut..values.len() - cut];
    middle.iter().sum::<f64>() / middle.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

/// The next of a fixed sequence of evenly spread numbers (Steele, Lea and Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Columns of a table of returns.
pub const COLUMNS: [&str; 6] = ["mean", "median", "deviation", "least", "most", "length"];

/// What a result was measured on, in words.
pub fn about(result: &ControlResult) -> String {
    let episodes = result.best.returns.len();
    let ControlResult { environment, algorithm, seed, steps, .. } = result;
    format!("{environment}: {algorithm}, seed {seed}, {steps} steps; return of {episodes} greedy episodes")
}

/// Rows of a table: whose weights, and their figures under [`COLUMNS`].
pub fn rows(result: &ControlResult) -> Vec<(&'static str, [String; 6])> {
    let figures =
        |r: &Returns| [r.mean, r.median, r.deviation, r.least, r.most, r.mean_length].map(|x| format!("{x:.1}"));
    let last = result.last.as_ref().map(|last| ("last weights", figures(last)));
    std::iter::once(("best weights", figures(&result.best))).chain(last).collect()
}

/// Several seeds in words.
pub fn pooled_line(pooled: &Pooled) -> String {
    let [low, high] = pooled.interval;
    format!(
        "{} seeds, {}: interquartile mean {:.2}, 95 % interval {low:.2} to {high:.2}, median {:.2}",
        pooled.seeds.len(),
        pooled.what,
        pooled.iqm,
        pooled.median
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interquartile_mean_leaves_out_both_ends() {
        assert_eq!(iqm(vec![500.0, 9.0, 500.0, 500.0]), 500.0);
        assert_eq!(iqm(vec![3.0, 1.0, 2.0]), 2.0);
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(iqm(ten), 5.5);
    }

    #[test]
    fn the_interval_holds_the_figure_and_is_the_same_each_time() {
        let seeds: Vec<(u64, f64)> = (0..10).map(|i| (i, (i * i) as f64)).collect();
        let pooled = Pooled::of("mean return", seeds.clone()).expect("ten seeds");
        assert!(pooled.interval[0] < pooled.iqm && pooled.iqm < pooled.interval[1], "{pooled:?}");
        assert_eq!(Some(pooled), Pooled::of("mean return", seeds));
        let same = Pooled::of("mean return", vec![(0, 5.0), (1, 5.0)]).expect("two seeds");
        assert_eq!((same.iqm, same.interval, same.median), (5.0, [5.0, 5.0], 5.0));
        assert_eq!(Pooled::of("mean return", vec![(0, 5.0)]), None);
    }
}
