//! Order books: snapshots of the best levels of both sides, from DBN's MBP-10, or put together from its MBO.
//!
//! A snapshot is what the book is after all records of one event; it is kept where that differs from the one before.
//! Crossed books (a bid above an ask, as in an auction before the opening) are counted and left out.

mod rebuild;

use super::readers::dbn::{Kind, LEVELS, Level, NO_LEVEL, Records, price};
use super::{DataError, Place};
use rebuild::Book;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// The last record of an event of a venue has this flag (Databento, "Flags").
const LAST: u8 = 1 << 7;

/// Snapshots of one instrument's book.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Books {
    /// The instrument's name.
    pub symbol: String,
    /// When each was so, in nanoseconds since 1970 (UTC), rising: its receipt.
    pub time_ns: Vec<i64>,
    /// Row-major `[snapshots][levels][4]`: price and size of the ask, price and size of the bid, from the best on; a
    /// level that is not there is NaN with a size of 0.
    pub levels: Vec<f64>,
    /// Levels of each snapshot.
    pub depth: usize,
    /// Snapshots that were left out because bid and ask crossed.
    pub crossed: u64,
    /// Records that named an order that was not there.
    pub unknown: u64,
}

impl Books {
    /// How many snapshots.
    pub fn len(&self) -> usize {
        self.time_ns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }

    /// The values of snapshot `k`.
    pub fn snapshot(&self, k: usize) -> &[f64] {
        &self.levels[k * self.depth * 4..(k + 1) * self.depth * 4]
    }

    /// Puts `snapshot` of `ns` at the end, if it says something new.
    fn push(&mut self, ns: i64, snapshot: &[f64]) {
        let (ask, bid) = (snapshot[0], snapshot[2]);
        if bid > ask {
            self.crossed += 1;
            return;
        }
        // NaN is not equal to itself: bits are compared
        let same = |a: &[f64]| a.iter().zip(snapshot).all(|(x, y)| x.to_bits() == y.to_bits());
        if !self.is_empty() && same(self.snapshot(self.len() - 1)) {
            return;
        }
        // one moment has one book, the last of it
        match self.time_ns.last() {
            Some(last) if *last == ns => self.levels.truncate((self.len() - 1) * self.depth * 4),
            _ => self.time_ns.push(ns),
        }
        self.levels.extend_from_slice(snapshot);
    }
}

/// Reads the books in the DBN file at `path`, `depth` levels of each side (at most 10 of MBP-10), by instrument. Records
/// that are not in the order of their receipt are refused.
pub fn read(path: &Path, depth: usize) -> Result<Vec<Books>, DataError> {
    super::readers::with_dbn(path, |stream| take(stream, depth))
}

fn take(stream: impl Read, depth: usize) -> Result<Vec<Books>, super::readers::dbn::Broken> {
    let mut records = Records::open(stream)?;
    let mut all: BTreeMap<u32, (Books, Book)> = BTreeMap::new();
    let mut snapshot = vec![f64::NAN; depth * 4];
    let mut names: Vec<(u32, i64)> = Vec::new();
    while let Some((record, number)) = records.next()? {
        let kind = record.kind();
        if !matches!(kind, Kind::Book | Kind::Order) {
            continue;
        }
        let Some(ns) = record.received() else { continue };
        let instrument = record.instrument();
        let (books, book) = all.entry(instrument).or_insert_with(|| {
            names.push((instrument, ns));
            (Books { depth, ..Books::default() }, Book::default())
        });
        // a book of a moment must not rest on what came later
        if let Some(before) = books.time_ns.last().copied().filter(|before| ns < *before) {
            let (at, before) = (super::moment(ns), super::moment(before));
            let reason =
                format!("it was received at {at}, before its predecessor of {before}; sort the file by receipt");
            return Err((Place::Record(number), reason));
        }
        let whole = match kind {
            Kind::Book => {
                for (k, cell) in snapshot.chunks_exact_mut(4).enumerate() {
                    let level = (k < LEVELS).then(|| record.level(k));
                    let Level { bid, ask, bid_size, ask_size } = level.unwrap_or(NO_LEVEL);
                    cell.copy_from_slice(&[ask, ask_size, bid, bid_size]);
                }
                true
            }
            _ => {
                let mbo = record.mbo();
                books.unknown += u64::from(!book.apply(&mbo));
                let whole = mbo.flags & LAST != 0;
                if whole {
                    book.best(&mut snapshot, price);
                }
                whole
            }
        };
        if whole {
            books.push(ns, &snapshot);
        }
    }
    for (instrument, ns) in names {
        if let Some((books, _)) = all.get_mut(&instrument) {
            books.symbol = records.name(instrument, ns as u64);
        }
    }
    Ok(all.into_values().map(|(books, _)| books).collect())
}

#[cfg(test)]
mod tests;
