//! What makes a bar possible.

use crate::data::Bars;

/// What is wrong with a bar of `[open, high, low, close]` and `volume`, if anything is.
pub(in crate::data) fn bar_fault(prices: [f64; 4], volume: f64) -> Option<String> {
    for (name, price) in ["open", "high", "low", "close"].iter().zip(prices) {
        if !price.is_finite() {
            return Some(format!("{name} is {price}, not a finite number; remove the bar or restore its price"));
        }
        if price <= 0.0 {
            return Some(format!("{name} is {price}; prices must be above 0, remove the bar or restore its price"));
        }
    }
    let [open, high, low, close] = prices;
    if high < low {
        return Some(format!("high {high} is below low {low}; correct or remove the bar"));
    }
    if high < open.max(close) || low > open.min(close) {
        return Some(format!(
            "open {open} or close {close} lies outside low {low} to high {high}; correct or remove the bar"
        ));
    }
    if !volume.is_finite() || volume < 0.0 {
        return Some(format!("volume is {volume}; it must be 0 or more"));
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

    /// Turns the order round.
    pub(super) fn reverse(&mut self) {
        self.start_ns.reverse();
        for column in [&mut self.open, &mut self.high, &mut self.low, &mut self.close, &mut self.volume] {
            column.reverse();
        }
    }
}
