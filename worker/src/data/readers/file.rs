//! Opening a file: which compression and which format, by its first bytes.

use super::collect::Collector;
use super::gzip::{Behind, Gzip};
use super::{dbn, table};
use crate::data::{DataError, Place};
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;

/// Enough for every magic number, and for a look at a table's first lines.
const PREFIX: usize = 16 << 10;

/// Reads the bars in the file at `path`.
pub(super) fn open(path: &Path, wanted: &[String]) -> Result<Collector, DataError> {
    let no_input = |e: &io::Error| DataError::NoInput { path: path.to_owned(), reason: unreadable(e) };
    let file = std::fs::File::open(path).map_err(|e| no_input(&e))?;
    read(path, file, wanted)
}

/// Reads the bars in `bytes`, the content of the file at `path`.
pub(super) fn read(path: &Path, bytes: impl Read, wanted: &[String]) -> Result<Collector, DataError> {
    let no_input = |reason: String| DataError::NoInput { path: path.to_owned(), reason };
    let foreign =
        |what: &str| DataError::Refused { path: path.to_owned(), place: Place::File, reason: what.to_owned() };
    let mut raw = BufReader::with_capacity(1 << 16, bytes);
    let magic = raw.fill_buf().map_err(|e| no_input(unreadable(&e)))?;
    let unpacked: Box<dyn Read + '_> = match magic {
        [] => return Err(no_input("it is empty".to_owned())),
        [0x1f, 0x8b, ..] => Box::new(Gzip::new(raw)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = zstd::stream::read::Decoder::with_buffer(raw);
            Box::new(decoder.map_err(|e| no_input(format!("no memory to decompress it: {e}")))?)
        }
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            return Err(foreign("it begins as the old DBZ format does; convert it to DBN"));
        }
        [b'P', b'K', 3, 4, ..] => return Err(foreign("it is a zip archive; unpack it first")),
        [b'P', b'A', b'R', b'1', ..] => return Err(foreign("it is a Parquet file; convert it to CSV or DBN")),
        _ => Box::new(raw),
    };
    let count = Rc::new(Cell::new(0));
    let mut stream = Stream { inner: unpacked, count: Rc::clone(&count) };
    let mut prefix = Vec::new();
    let mut collector = Collector::new(path, wanted);
    let cut = |e: &io::Error| collector.refused(Place::Byte(count.get()), broken(e));
    stream.by_ref().take(PREFIX as u64).read_to_end(&mut prefix).map_err(|e| cut(&e))?;
    let whole = Cursor::new(&prefix).chain(stream);
    match &prefix[..] {
        [] => return Err(foreign("it is compressed, and empty inside")),
        [b'D', b'B', b'N', ..] => dbn::read(whole, &mut collector)?,
        text if text.contains(&0) => return Err(foreign("it is neither DBN nor text with columns")),
        _ => table::read(&prefix, whole, &count, path, &mut collector)?,
    }
    Ok(collector)
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
    match error.kind() {
        ErrorKind::UnexpectedEof => {
            "the compressed data breaks off here; the file is truncated, fetch it again".to_owned()
        }
        _ => format!("the data is damaged from about here on, fetch the file again: {error}"),
    }
}
