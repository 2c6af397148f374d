//! What makes a bar possible.

use crate::data::Bars;
use foxlaunch_shared::config::Problem;

/// What is wrong with a bar of `[open, high, low, close]` and `volume`, if anything is.
pub(in crate::data) fn bar_fault(prices: [f64; 4], volume: f64) -> Option<(Problem, String)> {
    for (name, price) in ["open", "high", "low", "close"].iter().zip(prices) {
        if !price.is_finite() {
            let reason = format!("{name} is {price}, not a finite number; remove the bar or restore its price");
            return Some((Problem::UndefinedPrice, reason));
        }
        if price <= 0.0 {
            let problem = if price < 0.0 { Problem::NegativePrice } else { Problem::ZeroPrice };
            let reason = format!("{name} is {price}; prices must be above 0, remove the bar or restore its price");
            return Some((problem, reason));
        }
    }
    let [open, high, low, close] = prices;
    if high < low {
        let reason = format!("high {high} is below low {low}; correct or remove the bar");
        return Some((Problem::HighBelowLow, reason));
    }
    if high < open.max(close) || low > open.min(close) {
        let reason =
            format!("open {open} or close {close} lies outside low {low} to high {high}; correct or remove the bar");
        return Some((Problem::HighBelowLow, reason));
    }
    if !volume.is_finite() || volume < 0.0 {
        return Some((Problem::BadVolume, format!("volume is {volume}; it must be 0 or more")));
    }
    None
}

impl Bars {
    /// Puts `later` at the end.
    pub(super) fn append(&mut self, later: Bars) {
        self.start_ns.extend(later.start_ns);
        self.open.extend(later.open);
        self.high.extend(later.high);
        self.low.extend(later.low);
        self.close.extend(later.close);
        self.volume.extend(later.volume);
    }

    /// Puts one bar at the end.
    pub(in crate::data) fn push(&mut self, start_ns: i64, [open, high, low, close]: [f64; 4], volume: f64) {
        self.start_ns.push(start_ns);
        self.open.push(open);
        self.high.push(high);
        self.low.push(low);
        self.close.push(close);
        self.volume.push(volume);
    }

    /// Puts one bar in the place of the last one.
    pub(super) fn replace_last(&mut self, prices: [f64; 4], volume: f64) {
        let columns = [&mut self.open, &mut self.high, &mut self.low, &mut self.close, &mut self.volume];
        let values = prices.into_iter().chain([volume]);
        for (column, value) in columns.into_iter().zip(values) {
            if let Some(last) = column.last_mut() {
                *last = value;
            }
        }
    }

    /// The bars at `order`, in that order.
    pub(super) fn pick(&mut self, order: &[usize]) {
        self.start_ns = order.iter().map(|&i| self.start_ns[i]).collect();
        for column in [&mut self.open, &mut self.high, &mut self.low, &mut self.close, &mut self.volume] {
            *column = order.iter().map(|&i| column[i]).collect();
        }
    }
}
