//! Tables of bars as text: CSV and its kin with a header line.

use super::collect::Collector;
use super::{file, when};
use crate::data::{DataError, Place};
use csv::ByteRecord;
use std::borrow::Cow;
use std::cell::Cell;
use std::io::Read;
use std::path::Path;

/// The header may stand below a banner, within this many lines.
const HEADER_WITHIN: usize = 5;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What columns may be called, in lower case with `_` for everything that is neither letter nor digit; where several
/// are there, the first one in this list is taken.
const TIME: &[&str] = &[
    "ts_event",
    "timestamp",
    "datetime",
    "date_time",
    "timestamp_utc",
    "start_time",
    "start_date",
    "open_time",
    "ts",
    "date",
    "time",
];
const SYMBOL: &[&str] = &["symbol", "ticker", "instrument", "sym", "instrument_id"];
const OPEN: &[&str] = &["open", "open_price", "o"];
const HIGH: &[&str] = &["high", "high_price", "h"];
const LOW: &[&str] = &["low", "low_price", "l"];
const CLOSE: &[&str] = &["close", "close_price", "last", "c", "adj_close"];
const VOLUME: &[&str] = &["volume", "vol", "v", "tick_volume"];

/// Which field of a row is what.
struct Columns {
    time: usize,
    /// The time of day, where it stands apart from the date.
    clock: Option<usize>,
    symbol: Option<usize>,
    /// Open, high, low, close.
    prices: [usize; 4],
    volume: Option<usize>,
    fields: usize,
}

/// Reads the bars of `whole`, which begins with `prefix` and counts its bytes in `count`. Without a column for the
/// instrument, it is called as the file at `path`.
pub(super) fn read(
    prefix: &[u8],
    mut whole: impl Read,
    count: &Cell<u64>,
    path: &Path,
    collector: &mut Collector,
) -> Result<(), DataError> {
    let mut start = [0u8; BOM.len()];
    let bom = prefix.starts_with(BOM);
    if bom {
        whole.read_exact(&mut start).map_err(|e| collector.refused(Place::Byte(0), file::broken(&e)))?;
    }
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter(if bom { &prefix[BOM.len()..] } else { prefix }))
        .from_reader(whole);
    let stem = stem(path);
    let mut row = ByteRecord::new();
    let mut columns: Option<Columns> = None;
    let mut lacking: Option<(u64, String)> = None;
    let mut before_header = 0;
    let mut number = 0;
    loop {
        let more = rows.read_byte_record(&mut row).map_err(|e| {
            let reason = match e.into_kind() {
                csv::ErrorKind::Io(e) => file::broken(&e),
                kind => format!("it cannot be split into fields: {kind:?}"),
            };
            collector.refused(Place::Byte(count.get()), reason)
        })?;
        if !more {
            break;
        }
        number += 1;
        // lines are counted by \n; a file with nothing but \r between them has one
        let line = row.position().map_or(0, csv::Position::line).max(number);
        let Some(columns) = &columns else {
            match find_columns(&row) {
                Ok(found) => columns = Some(found),
                Err((known, reason)) => {
                    before_header += 1;
                    // the line that comes nearest to a header is the one to complain about
                    if known > 0 && lacking.is_none() {
                        lacking = Some((line, reason));
                    }
                    if before_header == HEADER_WITHIN {
                        break;
                    }
                }
            }
            continue;
        };
        take(&row, columns, &stem, Place::Line(line), collector)?;
    }
    if columns.is_none() {
        let (line, reason) = lacking.unwrap_or_else(|| {
            (1, "no line names the columns; put date,open,high,low,close,volume or the like on top".to_owned())
        });
        return Err(collector.refused(Place::Line(line), reason));
    }
    Ok(())
}

/// The file's name without its ending.
fn stem(path: &Path) -> String {
    let name = path.file_name().map_or(Cow::Borrowed("bars"), |n| n.to_string_lossy());
    let ending = super::ENDINGS.iter().filter(|e| name.to_lowercase().ends_with(*e)).map(|e| e.len()).max();
    name.get(..name.len() - ending.unwrap_or(0)).unwrap_or(&name).to_owned()
}

/// Takes the bar in `row`.
fn take(
    row: &ByteRecord,
    columns: &Columns,
    stem: &str,
    place: Place,
    collector: &mut Collector,
) -> Result<(), DataError> {
    if row.len() != columns.fields {
        let reason = format!("{} fields, but the header has {}", row.len(), columns.fields);
        return Err(collector.refused(place, reason));
    }
    let field = |i: usize| String::from_utf8_lossy(row[i].trim_ascii());
    let number = |i: usize, name: &str| {
        let text = field(i);
        let number = text.parse::<f64>().ok().filter(|x| x.is_finite());
        number.ok_or_else(|| {
            let reason =
                format!("{name} is {text:?}, not a finite number (written as 1234.5); correct or remove the row");
            collector.refused(place, reason)
        })
    };
    let [open, high, low, close] = columns.prices;
    let prices = [number(open, "open")?, number(high, "high")?, number(low, "low")?, number(close, "close")?];
    let volume = columns.volume.map_or(Ok(0.0), |i| number(i, "volume"))?;
    let time = match columns.clock {
        Some(clock) => Cow::Owned(format!("{} {}", field(columns.time), field(clock))),
        None => field(columns.time),
    };
    let start_ns = when::parse(&time).map_err(|reason| collector.refused(place, reason))?;
    match columns.symbol.map(field) {
        Some(symbol) if symbol.is_empty() => Err(collector.refused(place, "the instrument's name is empty")),
        Some(symbol) => collector.push(&symbol, start_ns, prices, volume, place),
        None => collector.push(stem, start_ns, prices, volume, place),
    }
}

/// The columns that `header` names, or how many of them it does and what it lacks.
fn find_columns(header: &ByteRecord) -> Result<Columns, (usize, String)> {
    let names: Vec<String> = header.iter().map(normal).collect();
    let mut double = None;
    let mut find = |aliases: &[&str]| {
        let alias = aliases.iter().find(|alias| names.iter().any(|n| n == *alias))?;
        let mut at = (0..names.len()).filter(|&i| names[i] == *alias);
        let first = at.next();
        if at.next().is_some() {
            double = Some((*alias).to_owned());
        }
        first
    };
    let (open, high, low, close) = (find(OPEN), find(HIGH), find(LOW), find(CLOSE));
    let (time, symbol, volume) = (find(TIME), find(SYMBOL), find(VOLUME));
    let clock = time.filter(|&i| names[i] == "date").and_then(|_| find(&["time"]));
    let all = [("date or timestamp", time), ("open", open), ("high", high), ("low", low), ("close", close)];
    let known = all.iter().filter(|(_, at)| at.is_some()).count();
    let (Some(time), Some(open), Some(high), Some(low), Some(close)) = (time, open, high, low, close) else {
        let lacking: Vec<&str> = all.iter().filter(|(_, at)| at.is_none()).map(|(name, _)| *name).collect();
        return Err((known, format!("the header has no column {}; name it so", lacking.join(", "))));
    };
    if let Some(name) = double {
        return Err((known, format!("the header has two columns {name}; remove or rename one")));
    }
    Ok(Columns { time, clock, symbol, prices: [open, high, low, close], volume, fields: header.len() })
}

/// A column's name in lower case, with `_` between its words.
fn normal(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).to_lowercase();
    name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// The separator that is most frequent in the first lines.
fn delimiter(prefix: &[u8]) -> u8 {
    let lines = || prefix.split(|b| *b == b'\n').take(HEADER_WITHIN).flatten();
    // the first of equals wins
    *[b',', b';', b'\t', b'|'].iter().rev().max_by_key(|d| lines().filter(|b| b == d).count()).unwrap_or(&b',')
}
