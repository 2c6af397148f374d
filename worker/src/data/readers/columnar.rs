//! Parquet: its columns are named as those of a table of text, and its rows are taken as such.

use super::file::Source;
use super::intake::Collector;
use super::table::columns::{Shape, layout};
use super::table::own_columns;
use super::table::row::{Row, Taker};
use super::when;
use crate::data::{DataError, Place};
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as Record};
use std::borrow::Cow;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
    let nanoseconds: Vec<bool> = (0..schema.num_columns())
        .map(|i| match schema.column(i).logical_type_ref() {
            Some(LogicalType::Timestamp(time)) => matches!(time.unit, TimeUnit::NANOS),
            _ => false,
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
        taker.take(&Cells { record: &record, nanoseconds: &nanoseconds }, place, collector)?;
    }
    Ok(())
}

fn damaged(reason: &str) -> String {
    format!("the Parquet file is damaged or of a form that is not read: {reason}")
}

/// What `read` gives, where the library's own checks of a damaged file may end in a panic.
fn guarded<T>(read: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, String> {
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(one_line(error.to_string())),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            Err(one_line(words.to_owned()))
        }
    }
}

/// A row of Parquet.
struct Cells<'a> {
    record: &'a Record,
    /// Which columns are moments in nanoseconds, which the library gives as plain numbers.
    nanoseconds: &'a [bool],
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

    fn moment(&self, i: usize, ahead: i64) -> Result<i64, String> {
        let too_far = || "a moment is too far from 1970 for nanoseconds".to_owned();
        match self.field(i) {
            Some(Field::TimestampMillis(ms)) => ms.checked_mul(1_000_000).ok_or_else(too_far),
            Some(Field::TimestampMicros(us)) => us.checked_mul(1_000).ok_or_else(too_far),
            Some(Field::Long(ns)) if self.nanoseconds.get(i) == Some(&true) => Ok(*ns),
            Some(Field::Date(days)) => {
                let midnight = i64::from(*days).checked_mul(86_400_000_000_000);
                midnight.and_then(|ns| ns.checked_sub(ahead * 1_000_000_000)).ok_or_else(too_far)
            }
            _ => when::parse_in(&self.text(i), ahead),
        }
    }
}
