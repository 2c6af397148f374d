//! Settings of data, folds and the environment.

use super::{Refused, require};
use crate::zone::{Repeated, Zone};
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
    /// Contracts that follow each other, by what their names begin with; each becomes one instrument.
    pub continuous: Vec<String>,
    /// Length in seconds of bars that are made from trades, quotes or books.
    pub bar_seconds: u64,
    /// What such bars are made from: `trades`, `quotes`, or `auto`.
    pub bars_from: String,
    /// The only publisher to take from DBN files; 0 for all.
    pub publisher: u64,
    /// Which column of a table is what, as `NAME=COLUMN`, beside the usual names; `#2` is the second column.
    pub columns: Vec<String>,
    /// The sign before decimals in tables: `.`, `,`, or empty for what fits the table.
    pub decimal: String,
    /// Of which zone moments are that say none: how far it is ahead of UTC, as `-05:00`, or a place, as
    /// `America/New_York`. Days are that zone's too.
    pub zone: String,
    /// Of a time of day that is there twice, when a place's clocks are put back: `error`, or which is meant, `first`,
    /// `second`, or `order`, the one that fits to the row before.
    pub repeated_hour: String,
}

/// What a column of a table can be.
const COLUMNS: [&str; 12] =
    ["time", "clock", "symbol", "open", "high", "low", "close", "volume", "bid", "ask", "price", "size"];

impl DataConfig {
    /// What `columns` says: name and column.
    pub fn named_columns(&self) -> impl Iterator<Item = (&str, &str)> {
        self.columns.iter().filter_map(|pair| pair.split_once('=')).map(|(name, column)| (name.trim(), column.trim()))
    }

    /// The zone of moments that say none.
    pub fn zone(&self) -> Zone {
        let repeated = match self.repeated_hour.as_str() {
            "first" | "order" => Repeated::First,
            "second" => Repeated::Second,
            _ => Repeated::Error,
        };
        Zone::parse(&self.zone).unwrap_or_default().with_repeated(repeated)
    }

    pub(super) fn check(&self) -> Refused {
        require(self.max_instruments > 0, "data.max_instruments", self.max_instruments, "must be at least 1")?;
        let seconds = self.bar_seconds;
        require((1..=86_400 * 7).contains(&seconds), "data.bar_seconds", seconds, "must be from 1 to 604800 (a week)")?;
        let known = ["auto", "trades", "quotes"].contains(&self.bars_from.as_str());
        require(known, "data.bars_from", &self.bars_from, "must be auto, trades or quotes")?;
        require(self.publisher <= u64::from(u16::MAX), "data.publisher", self.publisher, "must be below 65536")?;
        let known = ["", ".", ","].contains(&self.decimal.as_str());
        require(known, "data.decimal", &self.decimal, "must be . or , or empty")?;
        let reason = "must be as -05:00, or a place of the IANA Time Zone Database as America/New_York";
        require(Zone::parse(&self.zone).is_some(), "data.zone", &self.zone, reason)?;
        let known = ["error", "first", "second", "order"].contains(&self.repeated_hour.as_str());
        require(known, "data.repeated_hour", &self.repeated_hour, "must be error, first, second or order")?;
        let named = self.named_columns().count() == self.columns.len();
        let named = named && self.named_columns().all(|(name, _)| COLUMNS.contains(&name));
        let reason = format!("must be pairs as \"time=Datum\" or \"close=#5\", of {}", COLUMNS.join(", "));
        require(named, "data.columns", format!("{:?}", self.columns), &reason)
    }
}

/// `[features]`: what the agent sees of a bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeaturesConfig {
    /// Which ones: names of the set `fox51-v1`, or of own columns of the data; empty for the whole set.
    pub columns: Vec<String>,
}

/// `[folds]`: how the span is split, walking forward in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoldsConfig {
    /// How many folds.
    pub count: usize,
    /// `expanding`: fold k learns from all before its test part; `rolling`: from as many bars as the first fold.
    pub scheme: String,
    /// Share of the span that all test parts cover together.
    pub test_fraction: f64,
    /// Share of a fold's train part that is kept for validation.
    pub validation_fraction: f64,
    /// Bars left out at each border.
    pub embargo_bars: usize,
    /// Bars that a label looks ahead: so many more are left out before each border, since their labels lie behind it.
    pub label_bars: usize,
}

impl FoldsConfig {
    pub(super) fn check(&self) -> Refused {
        require((1..=1000).contains(&self.count), "folds.count", self.count, "must be from 1 to 1000")?;
        let known = ["expanding", "rolling"].contains(&self.scheme.as_str());
        require(known, "folds.scheme", &self.scheme, "must be expanding or rolling")?;
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
    /// What holding a short position costs in a year, in basis points of its value.
    pub borrow_bps: f64,
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

    /// The cost of being short of one unit of equity for a year, as a share.
    pub fn borrow_rate(&self) -> f64 {
        self.borrow_bps * 1e-4
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
        let borrow = self.borrow_bps;
        require((0.0..=1e5).contains(&borrow), "environment.borrow_bps", borrow, "must be from 0 to 100000")?;
        let e = self.evaluation_episodes;
        require((1..=1 << 20).contains(&e), "environment.evaluation_episodes", e, "must be from 1 to 2^20")?;
        let s = self.reward_scale;
        require(s.is_finite() && s > 0.0, "environment.reward_scale", s, "must be above 0")
    }
}
