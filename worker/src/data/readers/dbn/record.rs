//! One DBN record, field by field (Databento, "DBN encoding" and the pages of the schemas). All is little-endian.

use ::dbn::Schema;

/// Lengths of records are counted in these.
pub(super) const LENGTH_UNIT: usize = 4;
/// Length, type, publisher (2 bytes), instrument (4), time of the event (8).
pub(super) const HEADER: usize = 16;
/// Levels of a book in MBP-10.
pub(in crate::data) const LEVELS: usize = 10;

/// Prices are counted in these.
const PRICE_UNITS: f64 = 1e9;
const UNDEFINED_PRICE: i64 = i64::MAX;
const UNDEFINED_TIME: u64 = u64::MAX;
/// Where the levels begin behind what precedes them, and the bytes of one.
const FIRST_LEVEL: usize = 48;
const LEVEL: usize = 32;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::data) enum Kind {
    Bar,
    Trade,
    /// A book of one level, after an event (MBP-1, TBBO and their consolidated forms).
    Top,
    /// A book of one level, at the end of an interval (BBO, CBBO).
    Sampled,
    Book,
    Order,
    /// One of the kinds from which no bars come, or damaged: its type, and how long it is.
    Other(u8),
}

/// A level of a book. A price that is not there is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::data) struct Level {
    pub(in crate::data) bid: f64,
    pub(in crate::data) ask: f64,
    pub(in crate::data) bid_size: f64,
    pub(in crate::data) ask_size: f64,
}

/// A level that is not there.
pub(in crate::data) const NO_LEVEL: Level = Level { bid: f64::NAN, ask: f64::NAN, bid_size: 0.0, ask_size: 0.0 };

/// An event of a single order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::data) struct Mbo {
    pub(in crate::data) order: u64,
    pub(in crate::data) price: i64,
    pub(in crate::data) size: u32,
    pub(in crate::data) flags: u8,
    pub(in crate::data) action: u8,
    pub(in crate::data) side: u8,
}

/// The kind that the records of `schema` have, where they have but one.
pub(super) fn kind_of(schema: Schema) -> Option<Kind> {
    Some(match schema {
        Schema::Ohlcv1S | Schema::Ohlcv1M | Schema::Ohlcv1H | Schema::Ohlcv1D | Schema::OhlcvEod => Kind::Bar,
        Schema::Trades => Kind::Trade,
        Schema::Mbp1 | Schema::Tbbo | Schema::Cmbp1 | Schema::Tcbbo => Kind::Top,
        Schema::Bbo1S | Schema::Bbo1M | Schema::Cbbo1S | Schema::Cbbo1M => Kind::Sampled,
        Schema::Mbp10 => Kind::Book,
        Schema::Mbo => Kind::Order,
        _ => return None,
    })
}

/// A record's bytes, at least a header's and as many as it says itself.
#[derive(Clone, Copy)]
pub(in crate::data) struct Record<'a> {
    bytes: &'a [u8],
    ts_out: bool,
}

impl<'a> Record<'a> {
    pub(super) fn new(bytes: &'a [u8], ts_out: bool) -> Record<'a> {
        Record { bytes, ts_out }
    }

    /// Its kind; one of the wrong length is of no kind that is read.
    pub(in crate::data) fn kind(&self) -> Kind {
        let rtype = self.bytes[1];
        // consolidated quotes are called top in MBP-1 files of consolidated venues too
        let (kind, length) = match rtype {
            0x11 | 0x20..=0x24 => (Kind::Bar, 56),
            0x00 => (Kind::Trade, 48),
            0x01 | 0xb1 | 0xc2 => (Kind::Top, 80),
            0xc0 | 0xc1 | 0xc3 | 0xc4 => (Kind::Sampled, 80),
            0x0a => (Kind::Book, FIRST_LEVEL + LEVELS * LEVEL),
            0xa0 => (Kind::Order, 56),
            other => return Kind::Other(other),
        };
        let length = if self.ts_out { length + 8 } else { length };
        if self.bytes.len() == length { kind } else { Kind::Other(rtype) }
    }

    /// Whether it says something about the stream: an error, a symbol's mapping, a system message.
    pub(super) fn is_control(&self) -> bool {
        (0x15..=0x17).contains(&self.bytes[1])
    }

    pub(in crate::data) fn publisher(&self) -> u16 {
        u16::from_le_bytes([self.bytes[2], self.bytes[3]])
    }

    pub(in crate::data) fn instrument(&self) -> u32 {
        self.u32(4)
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn price(&self, at: usize) -> f64 {
        price(self.u64(at).cast_signed())
    }

    /// When it happened, if that is known.
    pub(super) fn event(&self) -> Option<i64> {
        i64::try_from(self.u64(8)).ok()
    }

    /// When it was received, else when it happened: files are ordered by the former.
    pub(in crate::data) fn received(&self) -> Option<i64> {
        let at = if self.kind() == Kind::Order { 40 } else { 32 };
        [self.u64(at), self.u64(8)].into_iter().find(|ns| *ns != UNDEFINED_TIME).and_then(|ns| i64::try_from(ns).ok())
    }

    /// Start, `[open, high, low, close]` and volume of a bar; none where its time is undefined.
    pub(super) fn bar(&self) -> Option<(i64, [f64; 4], f64)> {
        let prices = [16, 24, 32, 40].map(|at| self.price(at));
        let volume = match self.u64(48) {
            u64::MAX => f64::NAN,
            volume => volume as f64,
        };
        Some((i64::try_from(self.u64(8)).ok()?, prices, volume))
    }

    /// Time, price and size of a trade, if this record of `kind` is one.
    pub(super) fn trade(&self, kind: Kind) -> Option<(i64, f64, f64)> {
        let (price, size, action) = match kind {
            Kind::Trade | Kind::Top | Kind::Book => (16, 24, 28),
            Kind::Order => (24, 32, 38),
            _ => return None,
        };
        if self.bytes[action] != b'T' {
            return None;
        }
        Some((self.received()?, self.price(price), f64::from(self.u32(size))))
    }

    /// Time and best level, if this record of `kind` has one. That of an interval's end belongs to the interval.
    pub(super) fn quote(&self, kind: Kind) -> Option<(i64, Level)> {
        match kind {
            Kind::Top | Kind::Book => Some((self.received()?, self.level(0))),
            Kind::Sampled => Some((self.received()?.saturating_sub(1), self.level(0))),
            _ => None,
        }
    }

    /// The level `k` of a record of the kinds with levels.
    pub(in crate::data) fn level(&self, k: usize) -> Level {
        let at = FIRST_LEVEL + k * LEVEL;
        Level {
            bid: self.price(at),
            ask: self.price(at + 8),
            bid_size: f64::from(self.u32(at + 16)),
            ask_size: f64::from(self.u32(at + 20)),
        }
    }

    /// The event of an order, of a record of the kind [`Kind::Order`].
    pub(in crate::data) fn mbo(&self) -> Mbo {
        Mbo {
            order: self.u64(16),
            price: self.u64(24).cast_signed(),
            size: self.u32(32),
            flags: self.bytes[36],
            action: self.bytes[38],
            side: self.bytes[39],
        }
    }
}

/// A price in its units as a number; NaN where it is undefined.
pub(in crate::data) fn price(units: i64) -> f64 {
    if units == UNDEFINED_PRICE { f64::NAN } else { units as f64 / PRICE_UNITS }
}
