//! Databento's binary encoding (DBN), versions 1 to 3, with bars in it.

use super::collect::Collector;
use super::file;
use crate::data::{DataError, Place};
use ::dbn::decode::dbn::MetadataDecoder;
use ::dbn::{HasRType, OhlcvMsg, Schema, TsSymbolMap, UNDEF_PRICE};
use std::io::{self, BufReader, Read};

/// `DBN`, the version, and the length of the metadata that follow.
const PRELUDE: usize = 8;

/// Metadata longer than this is damage: the decoder would make room for it before it looks.
const MAX_METADATA: u64 = 256 << 20;

/// Lengths of records are counted in these.
const LENGTH_UNIT: usize = 4;

/// Prices are counted in these.
const PRICE_UNITS: f64 = 1e9;

const SECOND: i64 = 1_000_000_000;

/// Bytes of a bar; another 8 follow where the file has send times.
const BAR: usize = 56;

/// Reads the bars of `whole`.
///
/// The metadata are decoded by the crate `dbn`. Records are not: they are few lines to decode, and the crate asserts
/// where a damaged file has a record of odd length.
pub(super) fn read(mut whole: impl Read, collector: &mut Collector) -> Result<(), DataError> {
    let mut metadata = vec![0; PRELUDE];
    let there = fill(&mut whole, &mut metadata).map_err(|e| collector.refused(Place::Byte(0), file::broken(&e)))?;
    let &[_, _, _, version, a, b, c, d] = &metadata[..there] else {
        return Err(collector.refused(Place::Byte(there as u64), CUT_IN_METADATA));
    };
    if !(1..=3).contains(&version) {
        let reason = format!("it is DBN version {version}; versions 1 to 3 are read");
        return Err(collector.refused(Place::Byte(3), reason));
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if length > MAX_METADATA {
        let reason = format!("the metadata claims {length} bytes; the file is damaged, fetch it again");
        return Err(collector.refused(Place::Byte(4), reason));
    }
    // a claim alone takes no memory: the buffer grows with what is there
    let read = whole.by_ref().take(length).read_to_end(&mut metadata);
    let mut at = metadata.len() as u64;
    read.map_err(|e| collector.refused(Place::Byte(at), file::broken(&e)))?;
    if at < PRELUDE as u64 + length {
        return Err(collector.refused(Place::Byte(at), CUT_IN_METADATA));
    }
    let damaged = |e: ::dbn::Error| {
        let words = e.to_string();
        let words: Vec<&str> = words.split_whitespace().collect();
        collector.refused(Place::Byte(PRELUDE as u64), format!("the metadata is damaged: {}", words.join(" ")))
    };
    let metadata = MetadataDecoder::new(&metadata[..]).decode().map_err(damaged)?;
    let Some(interval) = metadata.schema.and_then(interval_ns) else {
        let schema = metadata.schema.map_or("mixed".to_owned(), |s| s.to_string());
        return Err(collector.refused(Place::File, format!("it holds {schema} records, not bars (ohlcv-*)")));
    };
    collector.set_interval(interval);
    // without mappings an instrument goes by its number
    let symbols = metadata.symbol_map().unwrap_or_default();
    let mut whole = BufReader::with_capacity(1 << 16, whole);
    let mut record = [0; BAR + 8];
    let record = &mut record[..if metadata.ts_out { BAR + 8 } else { BAR }];
    for number in 0u64.. {
        let there = fill(&mut whole, record).map_err(|e| collector.refused(Place::Byte(at), file::broken(&e)))?;
        let claimed = usize::from(record[0]) * LENGTH_UNIT;
        match there {
            0 => break,
            _ if there < record.len() => {
                let reason =
                    format!("the file ends {there} bytes into record {number}; it is truncated, fetch it again");
                return Err(collector.refused(Place::Byte(at), reason));
            }
            _ if claimed != record.len() || !OhlcvMsg::has_rtype(record[1].into()) => {
                let reason = format!(
                    "record {number} is no bar of {} bytes but of type {:#04x} and {claimed} bytes; \
                     the file is damaged",
                    record.len(),
                    record[1]
                );
                return Err(collector.refused(Place::Byte(at), reason));
            }
            _ => at += there as u64,
        }
        take(record, &symbols, Place::Record(number), collector)?;
    }
    Ok(())
}

/// Takes the bar in `record`: length, type, publisher (2 bytes), instrument (4), time (8), four prices (8 each), volume
/// (8), all little-endian.
fn take(record: &[u8], symbols: &TsSymbolMap, place: Place, collector: &mut Collector) -> Result<(), DataError> {
    let word = |i: usize| u64::from_le_bytes(record[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    let instrument = (word(0) >> 32) as u32;
    let (start, prices, volume) = (word(1), [2, 3, 4, 5].map(|i| word(i).cast_signed()), word(6));
    if prices.contains(&UNDEF_PRICE) {
        return Err(collector.refused(place, "a price is undefined; remove the bar"));
    }
    if volume == u64::MAX {
        return Err(collector.refused(place, "the volume is undefined; remove the bar"));
    }
    let Ok(start_ns) = i64::try_from(start) else {
        return Err(collector.refused(place, "the time (ts_event) is undefined; remove the bar"));
    };
    let prices = prices.map(|p| p as f64 / PRICE_UNITS);
    match symbols.get_for_ts(start, instrument) {
        Some(symbol) => collector.push(symbol, start_ns, prices, volume as f64, place),
        None => collector.push(&instrument.to_string(), start_ns, prices, volume as f64, place),
    }
}

/// Reads until `buffer` is full or the stream ends, and says how much is there.
fn fill(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut there = 0;
    while there < buffer.len() {
        match stream.read(&mut buffer[there..])? {
            0 => break,
            n => there += n,
        }
    }
    Ok(there)
}

const CUT_IN_METADATA: &str = "the file ends inside its metadata; it is truncated, fetch it again";

/// Length of the bars of `schema`, if it has bars.
fn interval_ns(schema: Schema) -> Option<i64> {
    match schema {
        Schema::Ohlcv1S => Some(SECOND),
        Schema::Ohlcv1M => Some(60 * SECOND),
        Schema::Ohlcv1H => Some(3600 * SECOND),
        Schema::Ohlcv1D | Schema::OhlcvEod => Some(86_400 * SECOND),
        _ => None,
    }
}
