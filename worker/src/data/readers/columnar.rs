//! Parquet: its columns are named as those of a table of text, and its rows are taken as such.

use super::file::Source;
use super::intake::Collector;
use super::table::columns::{Shape, layout};
use super::table::own_columns;
use super::table::row::{Row, Taker};
use super::when;
use crate::data::{DataError, Place};
use foxlaunch_shared::zone::Zone;
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as Record};
use std::borrow::Cow;
use std::cell::Cell;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// Reads `source` row group by row group.
pub(super) fn read(mut source: Source<'_>, collector: &mut Collector) -> Result<(), DataError> {
    let opened = guarded(|| match source {
        Source::File(file) => SerializedFileReader::new(file).map(|r| Box::new(r) as Box<dyn FileReader>),
        Source::Bytes(_) => {
            let mut bytes = Vec::new();
            source.read_to_end(&mut bytes)?;
            SerializedFileReader::new(bytes::Bytes::from(bytes)).map(|r| Box::new(r) as Box<dyn FileReader>)
        }
    });
    let file = opened.map_err(|reason| collector.refused(Place::File, damaged(&reason)))?;
    collector.what.format = "parquet";
    let schema = file.metadata().file_metadata().schema_descr();
    let flat = (0..schema.num_columns()).all(|i| schema.column(i).max_rep_level() == 0);
    if !flat || schema.num_columns() != schema.root_schema().get_fields().len() {
        let reason = "its columns are nested; give a table with one value in each cell";
        return Err(collector.refused(Place::File, reason));
    }
    let names: Vec<String> = (0..schema.num_columns()).map(|i| schema.column(i).name().to_owned()).collect();
    let moments: Vec<Option<Moment>> = (0..schema.num_columns())
        .map(|i| match schema.column(i).logical_type_ref() {
            Some(LogicalType::Timestamp(time)) => {
                let unit_ns = match time.unit {
                    TimeUnit::MILLIS => 1_000_000,
                    TimeUnit::MICROS => 1_000,
                    TimeUnit::NANOS => 1,
                };
                Some(Moment { unit_ns, is_utc: time.is_adjusted_to_u_t_c })
            }
            _ => None,
        })
        .collect();
    let found = layout(&names, &collector.config.data, &own_columns(collector));
    let found = found.map_err(|(_, reason)| collector.refused(Place::File, reason))?;
    if found.shape == Shape::Series && found.fields < 2 {
        return Err(collector.refused(Place::File, "it has a column of moments, and nothing else"));
    }
    let path = collector.path().to_owned();
    let mut taker = Taker::new(found, &path, collector);
    let mut rows =
        guarded(|| file.get_row_iter(None)).map_err(|reason| collector.refused(Place::File, damaged(&reason)))?;
    for number in 0u64.. {
        let place = Place::Record(number);
        let row = guarded(|| rows.next().transpose()).map_err(|reason| collector.refused(place, damaged(&reason)))?;
        let Some(record) = row else { break };
        taker.take(&Cells { record: &record, moments: &moments }, place, collector)?;
    }
    Ok(())
}

fn damaged(reason: &str) -> String {
    if let Some((_, codec)) = reason.split_once("Disabled feature at compile time: ") {
        let codec = if codec == "flate2" { "gzip" } else { codec };
        return format!("it is compressed by {codec}, which is not read; write it with zstd, snappy or no compression");
    }
    format!("the Parquet file is damaged or of a form that is not read: {reason}")
}

/// What `read` gives, where the library's own checks of a damaged file may end in a panic.
fn guarded<T>(read: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, String> {
    hush();
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(false);
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(one_line(error.to_string())),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            Err(one_line(words.to_owned()))
        }
    }
}

thread_local! {
    /// Whether this thread reads Parquet, and a panic becomes a refusal.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Has panics of guarded threads told by their refusal alone: a damaged file is one line, and no trace of the stack.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                usual(panic);
            }
        }));
    });
}

/// A row of Parquet.
struct Cells<'a> {
    record: &'a Record,
    /// What the schema says of columns that are moments.
    moments: &'a [Option<Moment>],
}

/// A column of moments.
#[derive(Clone, Copy, Debug)]
struct Moment {
    /// Nanoseconds in its unit.
    unit_ns: i64,
    /// Whether it is UTC's, else what clocks show.
    is_utc: bool,
}

impl Cells<'_> {
    fn field(&self, i: usize) -> Option<&Field> {
        self.record.get_column_iter().nth(i).map(|(_, field)| field)
    }
}

impl Row for Cells<'_> {
    fn len(&self) -> usize {
        self.record.len()
    }

    fn text(&self, i: usize) -> Cow<'_, str> {
        match self.field(i) {
            Some(Field::Str(text)) => Cow::Borrowed(text),
            Some(Field::Bytes(bytes)) => String::from_utf8_lossy(bytes.data()),
            None | Some(Field::Null) => Cow::Borrowed(""),
            Some(other) => Cow::Owned(other.to_string()),
        }
    }

    fn number(&self, i: usize) -> Option<f64> {
        let number = match self.field(i)? {
            Field::Double(x) => *x,
            Field::Float(x) => f64::from(*x),
            Field::Byte(x) => f64::from(*x),
            Field::Short(x) => f64::from(*x),
            Field::Int(x) => f64::from(*x),
            Field::Long(x) => *x as f64,
            Field::UByte(x) => f64::from(*x),
            Field::UShort(x) => f64::from(*x),
            Field::UInt(x) => f64::from(*x),
            Field::ULong(x) => *x as f64,
            Field::Str(text) => text.trim().parse().ok()?,
            other @ Field::Decimal(_) => other.to_string().parse().ok()?,
            _ => return None,
        };
        Some(number).filter(|x| x.is_finite())
    }

    fn volume(&self, i: usize) -> Option<f64> {
        self.number(i)
    }

    fn moment(&self, i: usize, zone: &Zone) -> Result<i64, String> {
        let known = self.moments.get(i).copied().flatten();
        // the library gives some as plain numbers
        let (count, unit_ns) = match self.field(i) {
            Some(Field::TimestampMillis(ms)) => (*ms, 1_000_000),
            Some(Field::TimestampMicros(us)) => (*us, 1_000),
            Some(Field::Long(count)) if known.is_some() => (*count, known.map_or(1, |moment| moment.unit_ns)),
            Some(Field::Date(days)) => return zone.day_ns(i64::from(*days)),
            _ => return when::parse_in(&self.text(i), zone),
        };
        let ns = count.checked_mul(unit_ns);
        let ns = ns.ok_or_else(|| "a moment is too far from 1970 for nanoseconds".to_owned())?;
        if known.is_none_or(|moment| moment.is_utc) { Ok(ns) } else { zone.utc_ns(ns) }
    }
}
