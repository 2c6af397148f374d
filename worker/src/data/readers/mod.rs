//! Reading bars: DBN, CSV and its kin, Parquet, plain or compressed, in zip archives, in folders; what a file holds is
//! told by its content.
//!
//! ```text
//! file -> (zip) -> decompressed stream -> records or rows -> Collector: cleaned, by instrument -> joined over files
//! ```
//!
//! A file is read as a stream, straight into columns. Bars that cannot be (double, out of order, high below low, no or
//! no finite price) are refused with their place, or left out or mended where `[cleaning]` says so, and counted. One
//! thing is harmless and no problem: a file that runs backwards from its first bar to its last is turned round.

mod archive;
mod bars_of;
mod columnar;
mod contracts;
pub(super) mod dbn;
mod file;
mod gzip;
mod intake;
mod join;
mod paths;
mod survey;
mod table;
mod when;

pub(super) use bars_of::bar_fault;
pub(super) use join::{Joined, step_between};
use paths::ENDINGS;
pub use survey::survey;

use super::{DataError, Dataset, Place};
use foxlaunch_shared::config::Config;
use join::Gathered;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// What the bars in the binary are called; their origin is told in the folder `sample`.
pub const SAMPLE_NAME: &str = "embedded sample: IBM, GOOG daily 2000-2013";

const SAMPLE: &[u8] = include_bytes!("../sample/us-daily-2000-2013.csv.gz");

/// Reads the bars that `config.data` names, cleans them as `config.cleaning` says, and computes the features of
/// `config.features`.
///
/// `data.path` is a file, a folder, a pattern, or several of them with commas between; empty for the sample in the
/// binary. Instruments come in the order of their names. Bars of one instrument may be spread over files, in any order,
/// if they do not overlap.
pub fn load(config: &Config) -> Result<Dataset, DataError> {
    let mut gathered = Gathered::new(config);
    let source = if config.data.path.is_empty() {
        let path = Path::new("embedded sample");
        gathered.add(path, file::read(path, file::Source::Bytes(Cursor::new(SAMPLE)), config, false)?);
        SAMPLE_NAME.to_owned()
    } else {
        for path in paths::expand(&config.data.path)? {
            gathered.add(&path, file::open(&path, config, false)?);
        }
        config.data.path.clone()
    };
    let (joined, problems) = gathered.join(&source)?;
    Ok(Dataset::chosen(source, joined, &config.features.columns, problems)?.in_zone(&config.data.zone))
}

/// Reads `bytes` as the content of a file called `name`, under `config`: what a fuzzer calls. Bars over all instruments.
pub fn read_bytes(name: &str, bytes: &[u8], config: &Config) -> Result<usize, DataError> {
    let taken = file::read(Path::new(name), file::Source::Bytes(Cursor::new(bytes)), config, true)?;
    Ok(taken.chunks.iter().map(|chunk| chunk.bars.len()).sum())
}

/// What `take` makes of the decompressed bytes of the DBN file at `path`.
pub(super) fn with_dbn<T>(
    path: &Path,
    take: impl FnOnce(Box<dyn Read>) -> Result<T, dbn::Broken>,
) -> Result<T, DataError> {
    let no_input = |e: std::io::Error| DataError::NoInput { path: path.to_owned(), reason: file::unreadable(&e) };
    let refused = |(place, reason)| DataError::Refused { path: path.to_owned(), place, reason };
    let mut raw = BufReader::new(File::open(path).map_err(no_input)?);
    let magic = raw.fill_buf().map_err(no_input)?;
    let stream: Box<dyn Read> = match magic {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::with_buffer(raw).map_err(no_input)?),
        [b'D', b'B', b'N', ..] => Box::new(raw),
        _ => return Err(refused((Place::File, "it is not DBN; books are read from DBN alone".to_owned()))),
    };
    take(stream).map_err(refused)
}

/// `ns` since 1970 as a date and time of day.
pub(crate) fn moment(ns: i64) -> String {
    when::format(ns)
}

#[cfg(test)]
mod cleaning_tests;
#[cfg(test)]
mod real_files;
#[cfg(test)]
mod tests;
