//! The bars of one file, sorted out by instrument while they are read.

use super::{bar_fault, when};
use crate::data::{Bars, DataError, Place};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// The bars of one instrument in one file.
pub(super) struct Chunk {
    pub(super) bars: Bars,
    /// Length of a bar, where the file tells.
    pub(super) interval_ns: Option<i64>,
}

/// Takes bars in the order of the file and refuses those that cannot be.
pub(super) struct Collector {
    path: PathBuf,
    wanted: BTreeSet<String>,
    interval_ns: Option<i64>,
    numbers: HashMap<String, usize>,
    instruments: Vec<Growing>,
    latest: usize,
}

struct Growing {
    bars: Bars,
    wanted: bool,
    last_ns: Option<i64>,
    /// Whether time rises or falls; known from the second bar on.
    order: Option<Ordering>,
}

impl Collector {
    /// Takes the instruments in `wanted`, or all if it is empty.
    pub(super) fn new(path: &Path, wanted: &[String]) -> Collector {
        Collector {
            path: path.to_owned(),
            wanted: wanted.iter().cloned().collect(),
            interval_ns: None,
            numbers: HashMap::new(),
            instruments: Vec::new(),
            latest: 0,
        }
    }

    /// Says how long each bar is.
    pub(super) fn set_interval(&mut self, ns: i64) {
        self.interval_ns = Some(ns);
    }

    /// A refusal at `place` of this file.
    pub(super) fn refused(&self, place: Place, reason: impl Into<String>) -> DataError {
        DataError::Refused { path: self.path.clone(), place, reason: reason.into() }
    }

    /// Takes the bar at `place`: its prices are `[open, high, low, close]`.
    pub(super) fn push(
        &mut self,
        symbol: &str,
        start_ns: i64,
        prices: [f64; 4],
        volume: f64,
        place: Place,
    ) -> Result<(), DataError> {
        let number = self.number(symbol);
        if !self.instruments[number].wanted {
            return Ok(());
        }
        if let Some(fault) = bar_fault(prices, volume) {
            return Err(self.refused(place, format!("{symbol}: {fault}")));
        }
        let growing = &mut self.instruments[number];
        if let Some(last) = growing.last_ns {
            let order = start_ns.cmp(&last);
            let expected = *growing.order.get_or_insert(order);
            if order == Ordering::Equal {
                let advice = match place {
                    Place::Record(_) => "keep one of the two, or one publisher's bars",
                    _ => "keep one of the two",
                };
                let at = when::format(start_ns);
                return Err(self.refused(place, format!("{symbol}: a second bar starts at {at}; {advice}")));
            }
            if order != expected {
                let (at, last) = (when::format(start_ns), when::format(last));
                let reason = format!("{symbol}: the bar of {at} stands after that of {last}; sort the file by time");
                return Err(self.refused(place, reason));
            }
        }
        growing.last_ns = Some(start_ns);
        let bars = &mut growing.bars;
        bars.start_ns.push(start_ns);
        bars.open.push(prices[0]);
        bars.high.push(prices[1]);
        bars.low.push(prices[2]);
        bars.close.push(prices[3]);
        bars.volume.push(volume);
        Ok(())
    }

    fn number(&mut self, symbol: &str) -> usize {
        // most files hold one instrument, or long runs of one
        if self.instruments.get(self.latest).is_none_or(|i| i.bars.symbol != symbol) {
            self.latest = match self.numbers.get(symbol) {
                Some(&number) => number,
                None => {
                    let wanted = self.wanted.is_empty() || self.wanted.contains(symbol);
                    let bars = Bars { symbol: symbol.to_owned(), ..Bars::default() };
                    self.instruments.push(Growing { bars, wanted, last_ns: None, order: None });
                    self.numbers.insert(symbol.to_owned(), self.instruments.len() - 1);
                    self.instruments.len() - 1
                }
            };
        }
        self.latest
    }

    /// All instruments that were seen, and the bars of those that are wanted, in rising time.
    pub(super) fn finish(self) -> (Vec<String>, Vec<Chunk>) {
        let seen = self.instruments.iter().map(|i| i.bars.symbol.clone()).collect();
        let chunk = |growing: Growing| {
            let mut bars = growing.bars;
            if growing.order == Some(Ordering::Less) {
                bars.reverse();
            }
            Chunk { bars, interval_ns: self.interval_ns }
        };
        (seen, self.instruments.into_iter().filter(|i| i.wanted).map(chunk).collect())
    }
}
