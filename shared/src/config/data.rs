//! Settings of data, folds and the environment.

use super::{Refused, require};
use serde::{Deserialize, Serialize};

/// `[data]`: where the bars are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// A file or folder, or several with commas between; empty for the embedded sample.
    pub path: String,
    /// Which instruments to use; empty for all.
    pub instruments: Vec<String>,
    /// Refuse data with more instruments than this.
    pub max_instruments: usize,
}

impl DataConfig {
    pub(super) fn check(&self) -> Refused {
        require(self.max_instruments > 0, "data.max_instruments", self.max_instruments, "must be at least 1")
    }
}

/// `[folds]`: how the span is split, walking forward in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoldsConfig {
    /// How many folds.
    pub count: usize,
    /// Share of the span that all test parts cover together.
    pub test_fraction: f64,
    /// Share of a fold's train part that is kept for validation.
    pub validation_fraction: f64,
    /// Bars left out at each border.
    pub embargo_bars: usize,
}

impl FoldsConfig {
    pub(super) fn check(&self) -> Refused {
        require((1..=1000).contains(&self.count), "folds.count", self.count, "must be from 1 to 1000")?;
        let open = |x: f64| x > 0.0 && x < 1.0;
        require(open(self.test_fraction), "folds.test_fraction", self.test_fraction, "must be between 0 and 1")?;
        let v = self.validation_fraction;
        require(open(v), "folds.validation_fraction", v, "must be between 0 and 1")
    }
}

/// `[environment]`: what the agent acts in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentConfig {
    /// Its registered name.
    pub name: String,
    /// The registered name of the reward; empty for the environment's own.
    pub reward: String,
    /// How many are stepped side by side, over all workers.
    pub streams: usize,
    /// Bars of a training episode.
    pub episode_bars: usize,
    /// The position that each action means, as a share of equity; negative is short.
    pub positions: Vec<f64>,
    /// Fee in basis points of the traded value.
    pub fee_bps: f64,
    /// Half the spread between ask and bid in basis points.
    pub half_spread_bps: f64,
    /// Slippage in basis points.
    pub slippage_bps: f64,
    /// What the learner's rewards are multiplied by.
    pub reward_scale: f64,
    /// Greedy episodes of an evaluation where there are no bars to evaluate on.
    pub evaluation_episodes: usize,
}

impl EnvironmentConfig {
    /// The cost of trading one unit of equity, as a share.
    pub fn cost_rate(&self) -> f64 {
        (self.fee_bps + self.half_spread_bps + self.slippage_bps) * 1e-4
    }

    pub(super) fn check(&self) -> Refused {
        require((1..=1 << 20).contains(&self.streams), "environment.streams", self.streams, "must be from 1 to 2^20")?;
        let bars = self.episode_bars;
        require(bars >= 2, "environment.episode_bars", bars, "must be at least 2")?;
        let p = &self.positions;
        let sane = p.len() >= 2 && p.len() <= 255 && p.iter().all(|x| x.is_finite() && x.abs() <= 10.0);
        require(sane, "environment.positions", format!("{p:?}"), "must be 2 to 255 numbers between -10 and 10")?;
        require(p.contains(&0.0), "environment.positions", format!("{p:?}"), "must contain 0, the flat position")?;
        for (key, bps) in [
            ("environment.fee_bps", self.fee_bps),
            ("environment.half_spread_bps", self.half_spread_bps),
            ("environment.slippage_bps", self.slippage_bps),
        ] {
            require((0.0..1000.0).contains(&bps), key, bps, "must be from 0 to below 1000")?;
        }
        let e = self.evaluation_episodes;
        require((1..=1 << 20).contains(&e), "environment.evaluation_episodes", e, "must be from 1 to 2^20")?;
        let s = self.reward_scale;
        require(s.is_finite() && s > 0.0, "environment.reward_scale", s, "must be above 0")
    }
}
