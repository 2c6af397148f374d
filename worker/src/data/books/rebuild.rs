//! A book put together from its orders' events (Databento, "State management of resting orders").

use super::super::readers::dbn::Mbo;
use std::collections::{BTreeMap, HashMap};

/// Resting orders, and what they sum to at each price.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    orders: HashMap<u64, (bool, i64, u32)>,
    /// Size by price; of bids the best is the last.
    bids: BTreeMap<i64, u64>,
    asks: BTreeMap<i64, u64>,
}

impl Book {
    /// Does what `event` says; whether the order it names was there as it should be.
    pub(super) fn apply(&mut self, event: &Mbo) -> bool {
        let is_bid = event.side == b'B';
        match event.action {
            b'R' => {
                *self = Book::default();
                true
            }
            b'A' => {
                let known = self.remove(event.order);
                self.insert(event.order, is_bid, event.price, event.size);
                !known
            }
            b'M' => {
                let known = self.remove(event.order);
                self.insert(event.order, is_bid, event.price, event.size);
                known
            }
            b'C' => match self.orders.get(&event.order).copied() {
                None => false,
                Some((is_bid, price, size)) => {
                    self.remove(event.order);
                    if size > event.size {
                        self.insert(event.order, is_bid, price, size - event.size);
                    }
                    true
                }
            },
            // trades and fills change nothing: the cancellation that follows does
            _ => true,
        }
    }

    fn side(&mut self, is_bid: bool) -> &mut BTreeMap<i64, u64> {
        if is_bid { &mut self.bids } else { &mut self.asks }
    }

    fn insert(&mut self, order: u64, is_bid: bool, price: i64, size: u32) {
        self.orders.insert(order, (is_bid, price, size));
        *self.side(is_bid).entry(price).or_default() += u64::from(size);
    }

    fn remove(&mut self, order: u64) -> bool {
        let Some((is_bid, price, size)) = self.orders.remove(&order) else { return false };
        let side = self.side(is_bid);
        if let Some(sum) = side.get_mut(&price) {
            *sum = sum.saturating_sub(u64::from(size));
            if *sum == 0 {
                side.remove(&price);
            }
        }
        true
    }

    /// Writes the best levels into `out`, `[levels][4]`; `price` makes a number of a price in its units.
    pub(super) fn best(&self, out: &mut [f64], price: impl Fn(i64) -> f64) {
        let mut asks = self.asks.iter();
        let mut bids = self.bids.iter().rev();
        for cell in out.chunks_exact_mut(4) {
            let side = |level: Option<(&i64, &u64)>| level.map_or((f64::NAN, 0.0), |(p, s)| (price(*p), *s as f64));
            let ((ask, ask_size), (bid, bid_size)) = (side(asks.next()), side(bids.next()));
            cell.copy_from_slice(&[ask, ask_size, bid, bid_size]);
        }
    }
}
