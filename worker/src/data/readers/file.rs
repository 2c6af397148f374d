//! Opening a file: which compression and which format, by its first bytes.

use super::gzip::{Behind, Gzip};
use super::intake::{Collector, Taken};
use super::{archive, columnar, dbn, table};
use crate::data::{DataError, Place};
use foxlaunch_shared::config::Config;
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

/// Enough for every magic number, and for a look at a table's first lines.
const PREFIX: usize = 16 << 10;

/// Reads the file at `path`; a `survey` counts every problem before it refuses.
pub(super) fn open(path: &Path, config: &Config, survey: bool) -> Result<Taken, DataError> {
    let no_input = |e: &io::Error| DataError::NoInput { path: path.to_owned(), reason: unreadable(e) };
    let file = std::fs::File::open(path).map_err(|e| no_input(&e))?;
    read(path, Source::File(file), config, survey)
}

/// What a file's bytes come from.
pub(super) enum Source<'a> {
    /// A file.
    File(std::fs::File),
    /// Memory.
    Bytes(Cursor<&'a [u8]>),
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::File(file) => file.read(buffer),
            Source::Bytes(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for Source<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Source::File(file) => file.seek(to),
            Source::Bytes(bytes) => bytes.seek(to),
        }
    }
}

/// Reads `bytes`, the content of the file at `path`.
pub(super) fn read(path: &Path, mut bytes: Source<'_>, config: &Config, survey: bool) -> Result<Taken, DataError> {
    let no_input = |reason: String| DataError::NoInput { path: path.to_owned(), reason };
    let mut magic = Vec::new();
    let look = bytes.by_ref().take(4).read_to_end(&mut magic).and_then(|_| bytes.seek(SeekFrom::Start(0)));
    look.map_err(|e| no_input(unreadable(&e)))?;
    let mut collector = Collector::new(path, config, survey);
    match magic[..] {
        [] => return Err(no_input("it is empty".to_owned())),
        [b'P', b'K', 3 | 5, 4 | 6] => archive::read(bytes, &mut collector)?,
        [b'P', b'A', b'R', b'1'] => columnar::read(bytes, &mut collector)?,
        _ => content(bytes, path, &mut collector)?,
    }
    collector.finish()
}

/// Reads `bytes`, the content of a file called `name`, that may be compressed.
pub(super) fn content(bytes: impl Read, name: &Path, collector: &mut Collector) -> Result<(), DataError> {
    let path = collector.path().to_owned();
    let no_input = |reason: String| DataError::NoInput { path: path.clone(), reason };
    let mut raw = BufReader::with_capacity(1 << 16, bytes);
    let magic = raw.fill_buf().map_err(|e| collector.refused(Place::Byte(0), broken(&e)))?;
    let begins_skippable = matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    let unpacked: Box<dyn Read + '_> = match magic {
        [] => return Err(no_input("it is empty".to_owned())),
        [0x1f, 0x8b, ..] => Box::new(Gzip::new(raw)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            let decoder = zstd::stream::read::Decoder::with_buffer(raw);
            Box::new(decoder.map_err(|e| no_input(format!("no memory to decompress it: {e}")))?)
        }
        _ => Box::new(raw),
    };
    let count = Rc::new(Cell::new(0));
    let mut stream = Stream { inner: unpacked, count: Rc::clone(&count) };
    let mut prefix = Vec::new();
    let cut = |e: &io::Error| collector.refused(Place::Byte(count.get()), broken(e));
    stream.by_ref().take(PREFIX as u64).read_to_end(&mut prefix).map_err(|e| cut(&e))?;
    let whole = Cursor::new(&prefix).chain(stream);
    match &prefix[..] {
        // zstd allows such a frame before any data; DBZ has its metadata in it, and records without a word behind it
        records if begins_skippable && !records.starts_with(b"DBN") && (records.is_empty() || records.contains(&0)) => {
            let reason = "it begins as the old DBZ format does; convert it to DBN";
            Err(collector.refused(Place::Byte(0), reason))
        }
        [] => Err(collector.refused(Place::File, "it is compressed, and empty inside")),
        [b'D', b'B', b'N', ..] => dbn::read(whole, collector),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            let reason = "it is text in UTF-16, which is not read; save it as UTF-8";
            Err(collector.refused(Place::Byte(0), reason))
        }
        text if text.contains(&0) => {
            let reason = "it is neither DBN with its metadata, nor Parquet, nor text with columns";
            Err(collector.refused(Place::Byte(0), reason))
        }
        _ => {
            collector.what.format = "csv";
            table::read(&prefix, whole, &count, name, collector)
        }
    }
}

/// A decompressed stream that counts its bytes.
struct Stream<'a> {
    inner: Box<dyn Read + 'a>,
    count: Rc<Cell<u64>>,
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count.set(self.count.get() + n as u64);
        Ok(n)
    }
}

/// What a failed read of a file means for a person.
pub(super) fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        ErrorKind::PermissionDenied => "no permission to read it".to_owned(),
        _ => format!("it cannot be read: {error}"),
    }
}

/// What a failed read in the middle of a file means for a person.
pub(super) fn broken(error: &io::Error) -> String {
    if let Some(behind) = error.get_ref().and_then(|inner| inner.downcast_ref::<Behind>()) {
        return behind.to_string();
    }
    if let Some(long) = error.get_ref().and_then(|inner| inner.downcast_ref::<TooLong>()) {
        return long.to_string();
    }
    match error.kind() {
        ErrorKind::UnexpectedEof => {
            "the compressed data breaks off here; the file is truncated, fetch it again".to_owned()
        }
        _ => format!("the data is damaged from about here on, fetch the file again: {error}"),
    }
}

/// Longer lines are no rows of a table, and are not kept to find out.
const LONGEST_LINE: usize = 1 << 20;

/// A line does not end.
#[derive(Debug)]
struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a line is longer than {LONGEST_LINE} bytes, so it is no table; give a file with a row on each line")
    }
}

impl std::error::Error for TooLong {}

/// Text whose lines are at most [`LONGEST_LINE`] long.
pub(super) struct Lines<R> {
    inner: R,
    /// Bytes since the last line ended.
    since: usize,
}

impl<R: Read> Lines<R> {
    /// The lines of `inner`.
    pub(super) fn new(inner: R) -> Lines<R> {
        Lines { inner, since: 0 }
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.since = match buffer[..n].iter().rposition(|b| matches!(b, b'\n' | b'\r')) {
            Some(at) => n - at - 1,
            None => self.since + n,
        };
        if self.since > LONGEST_LINE { Err(io::Error::new(ErrorKind::InvalidData, TooLong)) } else { Ok(n) }
    }
}
