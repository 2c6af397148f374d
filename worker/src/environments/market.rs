//! Trading bars: hold a share of equity in an instrument, pay for each change.
//!
//! ```text
//! bar t                     | bar t+1
//! open ....... close        | open ................. close
//!              decide  -----> fill and pay           next decision
//!              [old position ][ new position         ]
//!              |<------------- reward of the step -->|
//! ```
//!
//! A decision at bar t knows bar t and what came before, and is filled at the open of bar t+1. The step's reward is
//! the log of what equity grew by from close to close, so rewards add up to the log of final equity
//! ([`bar_growth`]).

use super::{Environment, Step};
use crate::data::{DataError, Dataset, Part, Scaler, YEAR_NS};
use crate::seed::Draw;
use foxlaunch_shared::config::EnvironmentConfig;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What is left of equity when a position loses it all: far less than any bar leaves of it, but its logarithm is
/// finite (about -27.6). No growth above 0 is ever raised to it: one bad tick that takes equity up and down again would
/// come out as a gain.
pub const RUIN: f64 = 1e-12;

/// What equity is multiplied by from the close of one bar to the close of the next, net of costs; 0 where a position
/// lost it all.
///
/// `old` and `new` are positions as shares of equity, `close` is the price decided on, `next_open` the price of the
/// fill, `next_close` the price at the end:
///
/// growth = (1 + old (next_open / close - 1)) (1 + new (next_close / next_open - 1) - cost_rate |new - old| - carry)
///
/// `carry` is what it costs to hold `new` meanwhile, as a share of equity: the lender's fee of a short position.
/// A flip from long to short so pays twice. While a position is held it stays the same share of equity: prices move
/// it away, and it is brought back at each close and each open. Those small trades are not charged.
pub fn bar_growth(
    close: f64,
    next_open: f64,
    next_close: f64,
    [old, new]: [f64; 2],
    cost_rate: f64,
    carry: f64,
) -> f64 {
    let before = 1.0 + old * (next_open / close - 1.0);
    let after = 1.0 + new * (next_close / next_open - 1.0) - cost_rate * (new - old).abs() - carry;
    // two negative factors are no growth: equity was gone at the fill
    if before <= 0.0 || after <= 0.0 { 0.0 } else { before * after }
}

/// Where an episode stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarketState {
    /// Which instrument.
    pub instrument: u16,
    /// The last bar that is known.
    pub bar: u32,
    /// The position held, as an index into the configured positions.
    pub position: u8,
    /// Steps until the episode is cut.
    pub left: u32,
}

/// Bars of one part of a fold, to trade in. Bars and features are shared with the data set.
#[derive(Clone, Debug)]
pub struct Market {
    dataset: Dataset,
    part: Part,
    scaler: Scaler,
    positions: Vec<f64>,
    flat: u8,
    cost_rate: f64,
    /// Cost of being short of one unit of equity, as a share for each nanosecond.
    borrow_rate: f64,
    episode_bars: usize,
    /// For each instrument how many starts an episode may have, summed up to and including it.
    starts: Vec<usize>,
}

impl Market {
    /// The market of `part`, whose features are scaled by `scaler`.
    pub fn new(
        dataset: &Dataset,
        part: &Part,
        scaler: &Scaler,
        config: &EnvironmentConfig,
    ) -> Result<Market, DataError> {
        let mismatch = |reason: String| DataError::Mismatch { origin: dataset.source.clone(), reason };
        let features = dataset.feature_names().len();
        if scaler.len() != features {
            return Err(mismatch(format!("a scaler of {} features does not fit {features}", scaler.len())));
        }
        let instruments = dataset.instruments();
        let fits = part.ranges.len() == instruments.len()
            && part.ranges.iter().zip(instruments).all(|(range, i)| range.end <= i.bars.len());
        if !fits || instruments.iter().any(|i| u32::try_from(i.bars.len()).is_err()) {
            return Err(mismatch("the fold's ranges do not fit the bars".to_owned()));
        }
        let Some(flat) = config.positions.iter().position(|p| *p == 0.0).and_then(|p| u8::try_from(p).ok()) else {
            return Err(mismatch("environment.positions lacks 0, the flat position".to_owned()));
        };
        if config.positions.len() > 255 || config.episode_bars < 2 {
            return Err(mismatch("more than 255 positions, or episodes of less than 2 bars".to_owned()));
        }
        let mut total = 0;
        let mut starts = Vec::with_capacity(part.ranges.len());
        for range in &part.ranges {
            total += match range.len() {
                0 | 1 => 0,
                n => n - config.episode_bars.min(n) + 1,
            };
            starts.push(total);
        }
        if total == 0 {
            let reason = "no instrument has two bars in this part: there is nothing to trade".to_owned();
            return Err(DataError::TooShort { origin: dataset.source.clone(), reason });
        }
        Ok(Market {
            dataset: dataset.clone(),
            part: part.clone(),
            scaler: scaler.clone(),
            positions: config.positions.clone(),
            flat,
            cost_rate: config.cost_rate(),
            borrow_rate: config.borrow_rate() / YEAR_NS,
            episode_bars: config.episode_bars,
            starts,
        })
    }

    /// The data behind it.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The state in which `bar` of `instrument` is the last known one and `position`, an index, is held.
    pub fn at(&self, instrument: usize, bar: usize, position: u8) -> MarketState {
        MarketState { instrument: instrument as u16, bar: bar as u32, position, left: 1 }
    }

    /// The bars of each instrument that belong to it.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// The position that each action means, as a share of equity.
    pub fn positions(&self) -> &[f64] {
        &self.positions
    }

    /// The index of the flat position.
    pub fn flat(&self) -> u8 {
        self.flat
    }

    /// Cost of trading one unit of equity, as a share.
    pub fn cost_rate(&self) -> f64 {
        self.cost_rate
    }

    /// The same market where trades and short positions cost `factor` times as much.
    pub fn with_costs(&self, factor: f64) -> Market {
        Market { cost_rate: factor * self.cost_rate, borrow_rate: factor * self.borrow_rate, ..self.clone() }
    }

    /// The same market where trades cost `cost_rate`, as a share.
    pub fn with_cost_rate(&self, cost_rate: f64) -> Market {
        Market { cost_rate, ..self.clone() }
    }

    /// [`bar_growth`] from `bar` of `instrument` to the next; `bar` must not be the last. A short position pays for the
    /// time between their starts, holes included.
    pub fn growth(&self, instrument: usize, bar: usize, old: f64, new: f64) -> f64 {
        let bars = &self.dataset.instruments()[instrument].bars;
        let carry = match new < 0.0 && self.borrow_rate > 0.0 {
            true => -new * self.borrow_rate * bars.start_ns[bar + 1].saturating_sub(bars.start_ns[bar]) as f64,
            false => 0.0,
        };
        bar_growth(bars.close[bar], bars.open[bar + 1], bars.close[bar + 1], [old, new], self.cost_rate, carry)
    }

    fn range(&self, state: &MarketState) -> Range<usize> {
        self.part.ranges[usize::from(state.instrument)].clone()
    }
}

impl Environment for Market {
    type State = MarketState;
    type Action = usize;

    fn observation_len(&self) -> usize {
        self.scaler.len() + 1
    }

    fn actions(&self) -> usize {
        self.positions.len()
    }

    /// Flat at a bar from which the episode fits into the part; every such bar of every instrument is as likely as
    /// any other. Where a part is shorter than an episode, the episode is the part.
    fn reset(&self, draw: &mut Draw) -> MarketState {
        let total = *self.starts.last().expect("a market has an instrument: its maker says so");
        let at = draw.random_range(0..total as u64) as usize;
        let instrument = self.starts.partition_point(|&s| s <= at);
        let range = &self.part.ranges[instrument];
        let bar = range.start + at - instrument.checked_sub(1).map_or(0, |i| self.starts[i]);
        MarketState {
            instrument: instrument as u16,
            bar: bar as u32,
            position: self.flat,
            left: (self.episode_bars.min(range.len()) - 1) as u32,
        }
    }

    fn step(&self, state: &MarketState, action: usize, _draw: &mut Draw) -> Step<MarketState> {
        let bar = state.bar as usize;
        let end = self.range(state).end;
        if bar + 1 >= end {
            // a state at the very end has no successor: the episode was cut before
            return Step { next: *state, reward: 0.0, terminated: false, truncated: true };
        }
        let (old, new) = (self.positions[usize::from(state.position)], self.positions[action]);
        let growth = self.growth(usize::from(state.instrument), bar, old, new);
        let next =
            MarketState { bar: state.bar + 1, position: action as u8, left: state.left.saturating_sub(1), ..*state };
        let terminated = growth <= 0.0;
        let truncated = !terminated && (next.left == 0 || bar + 2 >= end);
        Step { next, reward: if terminated { RUIN.ln() } else { growth.ln() }, terminated, truncated }
    }

    /// The scaled features of the last known bar, then the position as a share of equity.
    fn observe(&self, state: &MarketState, out: &mut [f32]) {
        let width = self.scaler.len();
        let at = state.bar as usize * width;
        let row = &self.dataset.instruments()[usize::from(state.instrument)].features[at..at + width];
        self.scaler.scale(row, &mut out[..width]);
        out[width] = self.positions[usize::from(state.position)] as f32;
    }
}

#[cfg(test)]
mod tests;
