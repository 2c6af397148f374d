//! Databento's binary encoding (DBN), versions 1 to 3: bars, and bars made from trades and quotes.
//!
//! The metadata are decoded by the crate `dbn`. Records are not: each is few lines to decode, and the crate asserts where
//! a damaged file has a record of odd length.

mod record;
mod symbols;

pub(in crate::data) use record::{Kind, LEVELS, Level, Mbo, NO_LEVEL, Record, price};

use super::file;
use super::intake::Collector;
use crate::data::{DataError, Place};
use ::dbn::decode::dbn::MetadataDecoder;
use ::dbn::{Metadata, Schema};
use std::io::{self, BufReader, Read};
use symbols::Symbols;

/// `DBN`, the version, and the length of the metadata that follow.
const PRELUDE: usize = 8;

/// Metadata longer than this is damage: the decoder would make room for it before it looks.
const MAX_METADATA: u64 = 256 << 20;

const SECOND: i64 = 1_000_000_000;

/// A DBN file from behind its metadata on.
pub(in crate::data) struct Records<R> {
    stream: BufReader<R>,
    /// Bytes read of the file, decompressed.
    at: u64,
    number: u64,
    /// Records end in the time they were sent.
    ts_out: bool,
    /// The schema, if the file has one.
    pub(in crate::data) schema: Option<Schema>,
    /// The format's version.
    pub(in crate::data) version: u8,
    symbols: Symbols,
    /// The longest record there can be, of 255 units of 4 bytes.
    bytes: [u8; 1020],
}

/// Where and why a file cannot be read.
pub(in crate::data) type Broken = (Place, String);

impl<R: Read> Records<R> {
    /// Reads the metadata of `whole`.
    pub(in crate::data) fn open(mut whole: R) -> Result<Records<R>, Broken> {
        let mut metadata = vec![0; PRELUDE];
        let there = fill(&mut whole, &mut metadata).map_err(|e| (Place::Byte(0), file::broken(&e)))?;
        let &[_, _, _, version, a, b, c, d] = &metadata[..there] else {
            return Err((Place::Byte(there as u64), CUT_IN_METADATA.to_owned()));
        };
        if !(1..=3).contains(&version) {
            return Err((Place::Byte(3), format!("it is DBN version {version}; versions 1 to 3 are read")));
        }
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        if length > MAX_METADATA {
            let reason = format!("the metadata claims {length} bytes; the file is damaged, fetch it again");
            return Err((Place::Byte(4), reason));
        }
        // a claim alone takes no memory: the buffer grows with what is there
        let read = whole.by_ref().take(length).read_to_end(&mut metadata);
        let at = metadata.len() as u64;
        read.map_err(|e| (Place::Byte(at), file::broken(&e)))?;
        if at < PRELUDE as u64 + length {
            return Err((Place::Byte(at), CUT_IN_METADATA.to_owned()));
        }
        let metadata: Metadata = MetadataDecoder::new(&metadata[..]).decode().map_err(|e| {
            let words = e.to_string();
            let words: Vec<&str> = words.split_whitespace().collect();
            (Place::Byte(PRELUDE as u64), format!("the metadata is damaged: {}", words.join(" ")))
        })?;
        Ok(Records {
            stream: BufReader::with_capacity(1 << 16, whole),
            at,
            number: 0,
            ts_out: metadata.ts_out,
            schema: metadata.schema,
            version,
            symbols: Symbols::new(&metadata),
            bytes: [0; 1020],
        })
    }

    /// The next record, its number from 0 and its place; none at the end.
    pub(in crate::data) fn next(&mut self) -> Result<Option<(Record<'_>, u64)>, Broken> {
        let (at, number) = (self.at, self.number);
        let broken = |e: &io::Error| (Place::Byte(at), file::broken(e));
        let there = fill(&mut self.stream, &mut self.bytes[..1]).map_err(|e| broken(&e))?;
        if there == 0 {
            return Ok(None);
        }
        let length = usize::from(self.bytes[0]) * record::LENGTH_UNIT;
        if length < record::HEADER {
            let reason = format!("record {number} claims {length} bytes, less than its header; the file is damaged");
            return Err((Place::Byte(at), reason));
        }
        let there = 1 + fill(&mut self.stream, &mut self.bytes[1..length]).map_err(|e| broken(&e))?;
        if there < length {
            let reason = format!("the file ends {there} bytes into record {number}; it is truncated, fetch it again");
            return Err((Place::Byte(at), reason));
        }
        let record = Record::new(&self.bytes[..length], self.ts_out);
        if let Some(expected) = self.schema.and_then(record::kind_of)
            && record.kind() != expected
            && !record.is_control()
        {
            let reason = format!(
                "record {number} is no {} record but of type {:#04x} and {length} bytes; the file is damaged",
                self.schema.map_or("", |schema| schema.as_str()),
                self.bytes[1]
            );
            return Err((Place::Byte(at), reason));
        }
        self.at += length as u64;
        self.number += 1;
        Ok(Some((record, number)))
    }

    /// The name of the instrument of a record.
    pub(in crate::data) fn name(&self, instrument: u32, ns: u64) -> String {
        self.symbols.name(instrument, ns)
    }
}

/// Reads `whole` into `collector`.
pub(super) fn read(whole: impl Read, collector: &mut Collector) -> Result<(), DataError> {
    let refused = |collector: &Collector, (place, reason): Broken| collector.refused(place, reason);
    let mut records = Records::open(whole).map_err(|broken| refused(collector, broken))?;
    collector.what.format = "dbn";
    collector.what.schema = records.schema.map_or("mixed", |schema| schema.as_str()).to_owned();
    collector.what.notes.push(format!("DBN version {}", records.version));
    let makes = what_bars_are(records.schema, &collector.config.data.bars_from);
    match makes {
        Bars::Ready(interval) => collector.set_interval(interval),
        Bars::FromTrades | Bars::FromQuotes => collector.makes_bars(),
        Bars::None => {
            let what = collector.what.schema.clone();
            collector.what.notes.push(format!("no bars are made from {what} records"));
        }
    }
    let publisher = collector.config.data.publisher;
    let mut numbers = Numbers::default();
    while let Some((record, number)) = records.next().map_err(|broken| refused(collector, broken))? {
        collector.records += 1;
        if publisher != 0 && u64::from(record.publisher()) != publisher {
            continue;
        }
        let place = Place::Record(number);
        match (makes, record.kind()) {
            (Bars::None, _) => record.event().into_iter().for_each(|ns| collector.pass(ns)),
            (Bars::Ready(_), Kind::Bar) => {
                let Some((ns, prices, volume)) = record.bar() else {
                    let reason = "the time (ts_event) is undefined; remove the bar".to_owned();
                    collector.judge(foxlaunch_shared::config::Problem::Unreadable, place, || reason)?;
                    continue;
                };
                let (instrument, ts) = (record.instrument(), ns as u64);
                let at = numbers.of(instrument, ts, &records.symbols, collector);
                collector.bar(at, ns, prices, volume, &[], place)?;
            }
            (Bars::FromTrades, kind) => {
                let Some((ns, price, size)) = record.trade(kind) else { continue };
                let at = numbers.of(record.instrument(), ns as u64, &records.symbols, collector);
                collector.trade(at, ns, price, size, place)?;
            }
            (Bars::FromQuotes, kind) => {
                let Some((ns, Level { bid, ask, .. })) = record.quote(kind) else { continue };
                let at = numbers.of(record.instrument(), ns as u64, &records.symbols, collector);
                collector.quote(at, ns, bid, ask, place)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where bars come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bars {
    /// The file holds them, each so many nanoseconds long.
    Ready(i64),
    FromTrades,
    FromQuotes,
    None,
}

fn what_bars_are(schema: Option<Schema>, from: &str) -> Bars {
    let either = if from == "quotes" { Bars::FromQuotes } else { Bars::FromTrades };
    match schema {
        Some(Schema::Ohlcv1S) => Bars::Ready(SECOND),
        Some(Schema::Ohlcv1M) => Bars::Ready(60 * SECOND),
        Some(Schema::Ohlcv1H) => Bars::Ready(3600 * SECOND),
        Some(Schema::Ohlcv1D | Schema::OhlcvEod) => Bars::Ready(86_400 * SECOND),
        Some(Schema::Trades | Schema::Mbo) => Bars::FromTrades,
        Some(Schema::Mbp1 | Schema::Tbbo | Schema::Mbp10 | Schema::Cmbp1 | Schema::Tcbbo) => either,
        Some(Schema::Bbo1S | Schema::Bbo1M | Schema::Cbbo1S | Schema::Cbbo1M) => Bars::FromQuotes,
        _ => Bars::None,
    }
}

/// The collector's number for each instrument, looked up by name only where the name can have changed.
#[derive(Default)]
struct Numbers {
    latest: Option<(u32, std::ops::Range<u64>, usize)>,
    known: std::collections::HashMap<u32, (std::ops::Range<u64>, usize)>,
}

impl Numbers {
    fn of(&mut self, instrument: u32, ns: u64, symbols: &Symbols, collector: &mut Collector) -> usize {
        if let Some((latest, valid, number)) = &self.latest
            && *latest == instrument
            && valid.contains(&ns)
        {
            return *number;
        }
        let found = match self.known.get(&instrument) {
            Some((valid, number)) if valid.contains(&ns) => (valid.clone(), *number),
            _ => {
                let (valid, name) = symbols.find(instrument, ns);
                (valid, collector.instrument(&name))
            }
        };
        self.known.insert(instrument, found.clone());
        self.latest = Some((instrument, found.0, found.1));
        found.1
    }
}

/// Reads until `buffer` is full or the stream ends, and says how much is there.
fn fill(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut there = 0;
    while there < buffer.len() {
        match stream.read(&mut buffer[there..]) {
            Ok(0) => break,
            Ok(n) => there += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(there)
}

const CUT_IN_METADATA: &str = "the file ends inside its metadata; it is truncated, fetch it again";
