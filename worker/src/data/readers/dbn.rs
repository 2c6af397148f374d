//! Databento's binary encoding (DBN), versions 1 to 3, with bars in it.

use super::collect::Collector;
use super::file;
use crate::data::{DataError, Place};
use dbn::decode::DbnMetadata;
use dbn::decode::dbn::Decoder;
use dbn::{HasRType, OhlcvMsg, Record, Schema, UNDEF_PRICE, UNDEF_TIMESTAMP, VersionUpgradePolicy};
use std::cell::Cell;
use std::io::Read;

/// `DBN`, the version, and the length of the metadata that follow.
const PRELUDE: usize = 8;

/// Metadata longer than this is damage: the decoder would make room for it before it looks.
const MAX_METADATA: u64 = 256 << 20;

/// Prices are counted in these.
const PRICE_UNITS: f64 = 1e9;

const SECOND: i64 = 1_000_000_000;

/// Reads the bars of `whole`, which begins with `prefix` and counts its bytes in `count`.
pub(super) fn read(
    prefix: &[u8],
    whole: impl Read,
    count: &Cell<u64>,
    collector: &mut Collector,
) -> Result<(), DataError> {
    let &[_, _, _, version, a, b, c, d, ..] = prefix else {
        return Err(collector.refused(Place::Byte(prefix.len() as u64), CUT_IN_METADATA));
    };
    if !(1..=3).contains(&version) {
        let reason = format!("it is DBN version {version}; versions 1 to 3 are read");
        return Err(collector.refused(Place::Byte(3), reason));
    }
    let metadata_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    if metadata_bytes > MAX_METADATA {
        let reason = format!("the metadata claims {metadata_bytes} bytes; the file is damaged, fetch it again");
        return Err(collector.refused(Place::Byte(4), reason));
    }
    let mut decoder = Decoder::with_upgrade_policy(whole, VersionUpgradePolicy::AsIs).map_err(|e| match e {
        dbn::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::UnexpectedEof => {
            collector.refused(Place::Byte(count.get()), CUT_IN_METADATA)
        }
        dbn::Error::Io { source, .. } => collector.refused(Place::Byte(count.get()), file::broken(&source)),
        e => collector.refused(Place::Byte(PRELUDE as u64), format!("the metadata is damaged: {}", one_line(&e))),
    })?;
    let schema = decoder.metadata().schema;
    let Some(interval) = schema.and_then(interval_ns) else {
        let schema = schema.map_or("mixed".to_owned(), |s| s.to_string());
        return Err(collector.refused(Place::File, format!("it holds {schema} records, not bars (ohlcv-*)")));
    };
    collector.set_interval(interval);
    // without mappings an instrument goes by its number
    let symbols = decoder.metadata().symbol_map().unwrap_or_default();
    let mut at = PRELUDE as u64 + metadata_bytes;
    for number in 0u64.. {
        let record = match decoder.decode_ref() {
            Ok(Some(record)) => record,
            Ok(None) => {
                let there = count.get().saturating_sub(at);
                if there == 0 {
                    return Ok(());
                }
                let reason =
                    format!("the file ends {there} bytes into record {number}; it is truncated, fetch it again");
                return Err(collector.refused(Place::Byte(at), reason));
            }
            Err(dbn::Error::Io { source, .. }) => return Err(collector.refused(Place::Byte(at), file::broken(&source))),
            Err(e) => {
                let reason = format!("record {number} is damaged: {}", one_line(&e));
                return Err(collector.refused(Place::Byte(at), reason));
            }
        };
        at += record.record_size() as u64;
        let place = Place::Record(number);
        // the decoder would panic on a bar that is shorter than a bar
        let fits = OhlcvMsg::has_rtype(record.header().rtype.into()) && record.record_size() >= size_of::<OhlcvMsg>();
        let Some(bar) = fits.then(|| record.get::<OhlcvMsg>()).flatten() else {
            let (kind, size) = (record.header().rtype, record.record_size());
            return Err(collector.refused(place, format!("type {kind:#04x}, {size} bytes: it is not a bar")));
        };
        let prices = [bar.open, bar.high, bar.low, bar.close];
        if prices.contains(&UNDEF_PRICE) {
            return Err(collector.refused(place, "a price is undefined; remove the bar"));
        }
        if bar.volume == u64::MAX {
            return Err(collector.refused(place, "the volume is undefined; remove the bar"));
        }
        let start = bar.hd.ts_event;
        let Some(start_ns) = i64::try_from(start).ok().filter(|_| start != UNDEF_TIMESTAMP) else {
            return Err(collector.refused(place, "the time (ts_event) is undefined; remove the bar"));
        };
        let prices = prices.map(|p| p as f64 / PRICE_UNITS);
        match symbols.get_for_ts(start, bar.hd.instrument_id) {
            Some(symbol) => collector.push(symbol, start_ns, prices, bar.volume as f64, place)?,
            None => {
                let symbol = bar.hd.instrument_id.to_string();
                collector.push(&symbol, start_ns, prices, bar.volume as f64, place)?;
            }
        }
    }
    Ok(())
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

fn one_line(error: &dbn::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
