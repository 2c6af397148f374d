//! What a trained policy was worth on bars it never saw: written by a worker, read by the report.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A part of a fold: from the first to the last bar that belongs to it, over all instruments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Start of the first bar, in nanoseconds since 1970 (UTC).
    pub first_ns: i64,
    /// Start of the last bar, in nanoseconds since 1970 (UTC).
    pub last_ns: i64,
    /// Bars, summed over the instruments.
    pub bars: usize,
}

/// How one way of trading went. Returns are per bar and net of costs; shares, not percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Track {
    /// Final equity over initial equity, minus 1.
    pub total_return: f64,
    /// Mean over standard deviation (ddof 1) of the returns, times the root of the periods in a year; 0 where
    /// the returns do not vary.
    pub sharpe: f64,
    /// The largest fall from a peak of equity, as a share of the peak, from 0 to 1.
    pub max_drawdown: f64,
    /// Mean traded value per bar, in units of equity: 2 is a flip from long to short.
    pub turnover: f64,
    /// Share of bars with a position.
    pub time_in_market: f64,
    /// How often the position changed.
    pub trades: usize,
    /// Share of the bars with a position that gained, net of costs.
    #[serde(default)]
    pub hit_rate: f64,
    /// Mean size of the position over all bars, as a share of equity.
    #[serde(default)]
    pub exposure: f64,
    /// Equity after each bar, starting from 1 before the first.
    pub equity: Vec<f64>,
}

/// Many random policies with the policy's own turnover and its own share of bars in each position, as a band to compare
/// with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomBand {
    /// How many were drawn.
    pub runs: usize,
    /// Their total returns: 5 %, 50 % and 95 % quantile.
    pub total_return: [f64; 3],
    /// Their Sharpe ratios: 5 %, 50 % and 95 % quantile.
    pub sharpe: [f64; 3],
    /// The median one in full.
    pub median: Track,
}

/// The policy's own decisions, had trades and short positions cost otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostLevel {
    /// How many times the configured costs.
    pub factor: f64,
    /// Final equity over initial equity, minus 1.
    pub total_return: f64,
    /// The Sharpe ratio, as in [`Track`].
    pub sharpe: f64,
}

/// A fold's test result: the policy beside holding and chance, on the same bars, at the same costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldResult {
    /// Which fold, from 0.
    pub fold: usize,
    /// The instruments, in the data's order. Each holds an equal share of equity, rebalanced every bar.
    pub instruments: Vec<String>,
    /// Where it learned.
    pub train: Span,
    /// Where its best checkpoint was chosen.
    pub validation: Span,
    /// Where it was tested.
    pub test: Span,
    /// Bars in a year, from the data's own calendar.
    pub periods_per_year: f64,
    /// Cost of trading one unit of equity, as a share.
    pub cost_rate: f64,
    /// Start of each bar of the test part in nanoseconds since 1970 (UTC), matching `equity[1..]`.
    pub times_ns: Vec<i64>,
    /// The zone whose days the daily figures are of, as the setting `data.zone` has it; UTC where it is not there.
    #[serde(default)]
    pub zone: String,
    /// The policy.
    pub policy: Track,
    /// Long from the first bar to the last.
    pub buy_and_hold: Track,
    /// Chance with equal turnover and equal shares of long and short.
    pub random: RandomBand,
    /// The policy without costs, with those configured, and with twice as much.
    #[serde(default)]
    pub costs: Vec<CostLevel>,
    /// The cost of trading one unit of equity, as a share, at which the policy's decisions would have earned nothing; none
    /// where they lose even without costs, or never traded.
    #[serde(default)]
    pub break_even: Option<f64>,
}

/// A digest of what was tested on, as hex: the instruments and the start of every bar of all test parts. Results with the
/// same one were tested on the same bars.
pub fn test_digest(folds: &[FoldResult]) -> String {
    let mut digest = Sha256::new();
    for fold in folds {
        for name in &fold.instruments {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name.as_bytes());
        }
        digest.update((fold.times_ns.len() as u64).to_le_bytes());
        fold.times_ns.iter().for_each(|ns| digest.update(ns.to_le_bytes()));
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What greedy episodes were worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Returns {
    /// Mean of the returns.
    pub mean: f64,
    /// The middle one; the mean of both where there are two.
    pub median: f64,
    /// Standard deviation of exactly these returns (ddof 0).
    pub deviation: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// Steps of an episode, on average.
    pub mean_length: f64,
    /// Each episode's, in the order of the episodes.
    pub returns: Vec<f64>,
}

/// A control task's result: one seed of one algorithm, in episodes from first states that training never saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlResult {
    /// The environment's name.
    pub environment: String,
    /// The algorithm's name.
    pub algorithm: String,
    /// The seed that everything was derived from.
    pub seed: u64,
    /// Environment steps of training.
    pub steps: u64,
    /// By the weights with the best validation score.
    pub best: Returns,
    /// By the weights as training ended.
    pub last: Option<Returns>,
}
