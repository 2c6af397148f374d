//! Tables of bars, quotes, trades, books or other series as text: CSV and its kin.

pub(super) mod columns;
mod number;
pub(super) mod row;

use super::intake::Collector;
use super::{file, when};
use crate::data::{DataError, Place};
use columns::{Layout, Shape, bare_layout, layout};
use csv::ByteRecord;
use foxlaunch_shared::zone::Zone;
use number::Numbers;
use row::{Row, Taker};
use std::borrow::Cow;
use std::cell::Cell;
use std::io::Read;
use std::path::Path;

/// The header may stand below a banner, within this many lines.
const HEADER_WITHIN: usize = 5;

/// Rows that are looked at for the sign before decimals.
const LOOKED_AT: usize = 50;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads `whole`, which begins with `prefix` and counts its bytes in `count`. Without a column for the instrument, it is
/// called as the file `name`.
pub(super) fn read(
    prefix: &[u8],
    mut whole: impl Read,
    count: &Cell<u64>,
    name: &Path,
    collector: &mut Collector,
) -> Result<(), DataError> {
    let mut start = [0u8; BOM.len()];
    let bom = prefix.starts_with(BOM);
    if bom {
        whole.read_exact(&mut start).map_err(|e| collector.refused(Place::Byte(0), file::broken(&e)))?;
    }
    let prefix = if bom { &prefix[BOM.len()..] } else { prefix };
    if is_feed(prefix) {
        let reason = "it is a raw feed of JSON messages, which is not read; convert it to DBN or to a table";
        return Err(collector.refused(Place::Line(1), reason));
    }
    let separator = delimiter(prefix);
    let decimal = collector.config.data.decimal.clone();
    let cells = first_cells(prefix, separator);
    let numbers = Numbers::of(&decimal, separator, cells.iter().map(String::as_str))
        .map_err(|reason| collector.refused(Place::Line(1), reason))?;
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(separator)
        .from_reader(file::Lines::new(whole));
    let mut row = ByteRecord::new();
    let mut taker: Option<Taker> = None;
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
        if let Some(taker) = &mut taker {
            taker.take(&Text { row: &row, numbers }, Place::Line(line), collector)?;
            continue;
        }
        let cells: Vec<String> = row.iter().map(|cell| text(cell).trim().to_owned()).collect();
        match layout(&cells, &collector.config.data, &own_columns(collector)) {
            // a banner above the header may look like the header of something else
            Ok(found) if found.shape != Shape::Series || before_header == 0 => {
                taker = Some(Taker::new(found, name, collector));
            }
            Ok(_) => before_header += 1,
            Err((known, reason)) => {
                if before_header == 0
                    && let Some(found) = bare(&cells, name, numbers, collector)
                {
                    let note = "no line names the columns: taken as time, open, high, low, close and volume, as far as \
                                there are";
                    collector.note(note);
                    let mut bare = Taker::new(found, name, collector);
                    bare.take(&Text { row: &row, numbers }, Place::Line(line), collector)?;
                    taker = Some(bare);
                    continue;
                }
                before_header += 1;
                // the line that comes nearest to a header is the one to complain about
                if known > 0 && lacking.is_none() || reason.contains("single changes") || reason.contains("columns ") {
                    lacking = lacking.or(Some((line, reason)));
                }
            }
        }
        if before_header == HEADER_WITHIN {
            break;
        }
    }
    if taker.is_none() {
        let (line, reason) = lacking.unwrap_or_else(|| {
            (1, "no line names the columns; put date,open,high,low,close,volume or the like on top".to_owned())
        });
        return Err(collector.refused(Place::Line(line), reason));
    }
    Ok(())
}

/// The own columns that `features.columns` names.
pub(super) fn own_columns(collector: &Collector) -> Vec<String> {
    crate::data::features::own_columns(&collector.config.features.columns)
}

/// A row of text.
struct Text<'a> {
    row: &'a ByteRecord,
    numbers: Numbers,
}

impl Row for Text<'_> {
    fn len(&self) -> usize {
        self.row.len()
    }

    fn text(&self, i: usize) -> Cow<'_, str> {
        text(self.row.get(i).unwrap_or_default().trim_ascii())
    }

    fn number(&self, i: usize) -> Option<f64> {
        // most numbers are plain; the rest takes the longer way
        self.numbers.parse(&self.text(i))
    }

    fn volume(&self, i: usize) -> Option<f64> {
        self.numbers.parse_volume(&self.text(i))
    }

    fn moment(&self, i: usize, zone: &Zone) -> Result<i64, String> {
        when::parse_in(&self.text(i), zone)
    }
}

/// Text as UTF-8, else as Latin-1, in which every byte is a character.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|b| char::from(*b)).collect()),
    }
}

/// The layout of a table whose first row is data, if it is one that is read.
fn bare(cells: &[String], name: &Path, numbers: Numbers, collector: &Collector) -> Option<Layout> {
    if !own_columns(collector).is_empty() {
        return None;
    }
    let zone = collector.config.data.zone();
    let is_time = |cell: &str| when::parse_in(cell, &zone).is_ok();
    bare_layout(cells, row::day_in_name(name), is_time, |cell| numbers.parse(cell).is_some())
}

/// Cells of the first rows.
fn first_cells(prefix: &[u8], separator: u8) -> Vec<String> {
    let rows = csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(separator).from_reader(prefix);
    // the last row of the prefix may be cut
    let rows: Vec<ByteRecord> = rows.into_byte_records().map_while(Result::ok).take(LOOKED_AT + 1).collect();
    let whole = rows.len().saturating_sub(1).max(1);
    let cells = rows.iter().take(whole).flat_map(|row| row.iter().map(|cell| text(cell.trim_ascii()).into_owned()));
    cells.collect()
}

/// Whether the first line is a message in JSON, perhaps behind the time of its receipt.
fn is_feed(prefix: &[u8]) -> bool {
    let line = prefix.split(|b| *b == b'\n').next().unwrap_or_default();
    let behind = line.iter().position(|b| !(b.is_ascii_digit() || *b == b' ')).unwrap_or(line.len());
    line[behind..].starts_with(b"{")
}

/// The separator that is most frequent in the first lines.
fn delimiter(prefix: &[u8]) -> u8 {
    let lines = || prefix.split(|b| *b == b'\n').take(HEADER_WITHIN).flatten();
    let count = |d: u8| lines().filter(|b| **b == d).count();
    // a comma may be a sign before decimals or between thousands: another separator in every line is the separator
    let rows = prefix.split(|b| *b == b'\n').filter(|line| !line.is_empty()).take(HEADER_WITHIN);
    let rows: Vec<&[u8]> = rows.collect();
    let in_all = |d: u8| rows.iter().all(|line| line.iter().filter(|b| **b == d).count() >= 4);
    if let Some(d) = [b';', b'\t', b'|'].into_iter().find(|d| in_all(*d)) {
        return d;
    }
    // the first of equals wins
    *[b',', b';', b'\t', b'|'].iter().rev().max_by_key(|d| count(**d)).unwrap_or(&b',')
}
