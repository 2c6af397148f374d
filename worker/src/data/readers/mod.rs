//! Reading bars: `.dbn`, `.dbn.zst`, CSV, CSV.gz, CSV.zst, or a folder of them; what a file holds is told by its content.
//!
//! A file is read as a stream, straight into columns. Bars that cannot be (double, out of order, high below low, no
//! or no finite price) are refused with their place; nothing is repaired or left out without a word. The one
//! exception is harmless: a file that runs backwards from its first bar to its last is turned round.

mod bars_of;
mod collect;
mod dbn;
mod file;
mod gzip;
mod table;
mod when;

pub(super) use bars_of::bar_fault;

use super::{Bars, DataError, Dataset, Place};
use collect::{Chunk, Collector};
use foxlaunch_shared::config::DataConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the bars in the binary are called; their origin is told in the folder `sample`.
pub const SAMPLE_NAME: &str = "embedded sample: IBM, GOOG daily 2000-2013";

const SAMPLE: &[u8] = include_bytes!("../sample/us-daily-2000-2013.csv.gz");

/// Names that end so are bar files, when a folder is read.
const ENDINGS: [&str; 5] = [".dbn", ".dbn.zst", ".csv", ".csv.gz", ".csv.zst"];

/// Reads the bars that `config` names, and computes their features.
///
/// `path` is a file, a folder, or several of them with commas between; empty for the sample in the binary.
/// Instruments come in the order of their names. Bars of one instrument may be spread over files, in any order, if
/// they do not overlap.
pub fn load(config: &DataConfig) -> Result<Dataset, DataError> {
    let mut gathered = Gathered::new(&config.instruments);
    let source = if config.path.is_empty() {
        let path = Path::new("embedded sample");
        gathered.add(path, file::read(path, SAMPLE, &config.instruments)?);
        SAMPLE_NAME.to_owned()
    } else {
        for path in paths(&config.path) {
            for path in files(path)? {
                gathered.add(&path, file::open(&path, &config.instruments)?);
            }
        }
        config.path.clone()
    };
    let bars = gathered.join(&source, config.max_instruments)?;
    Dataset::new(source, bars)
}

/// `ns` since 1970 as a date and time of day.
pub(crate) fn moment(ns: i64) -> String {
    when::format(ns)
}

/// The path, or the paths between commas where there is no file of the whole name.
fn paths(text: &str) -> Vec<&Path> {
    if Path::new(text).exists() {
        return vec![Path::new(text)];
    }
    text.split(',').map(|path| Path::new(path.trim())).collect()
}

/// The file, or the bar files in the folder in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let no_input = |reason: String| DataError::NoInput { path: path.to_owned(), reason };
    let metadata = std::fs::metadata(path).map_err(|e| no_input(file::unreadable(&e)))?;
    if !metadata.is_dir() {
        regular(path, &metadata)?;
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.map_err(|e| no_input(file::unreadable(&e)))?;
    let is_bars = |name: &str| ENDINGS.iter().any(|ending| name.to_lowercase().ends_with(ending));
    let mut files: Vec<PathBuf> =
        entries.iter().filter(|e| e.file_name().to_str().is_some_and(is_bars)).map(|e| e.path()).collect();
    files.retain(|f| !f.is_dir());
    files.sort();
    if files.is_empty() {
        let there = entries.len();
        return Err(no_input(format!("none of the {there} entries of this folder ends in {}", ENDINGS.join(", "))));
    }
    for file in &files {
        let no_input = |e| DataError::NoInput { path: file.clone(), reason: file::unreadable(&e) };
        regular(file, &std::fs::metadata(file).map_err(no_input)?)?;
    }
    Ok(files)
}

/// Refuses pipes, sockets and devices: opening one may wait for ever, and a pipe gives its bytes only once, while every
/// worker reads all data.
fn regular(path: &Path, metadata: &std::fs::Metadata) -> Result<(), DataError> {
    if metadata.is_file() {
        return Ok(());
    }
    let reason = "it is neither a regular file nor a folder; write the bars to a file first".to_owned();
    Err(DataError::NoInput { path: path.to_owned(), reason })
}

/// What was read so far, by instrument.
struct Gathered<'a> {
    wanted: &'a [String],
    seen: BTreeSet<String>,
    chunks: BTreeMap<String, Vec<(PathBuf, Chunk)>>,
    files: Vec<PathBuf>,
}

impl<'a> Gathered<'a> {
    fn new(wanted: &'a [String]) -> Gathered<'a> {
        Gathered { wanted, seen: BTreeSet::new(), chunks: BTreeMap::new(), files: Vec::new() }
    }

    fn add(&mut self, path: &Path, collected: Collector) {
        let (seen, chunks) = collected.finish();
        self.seen.extend(seen);
        self.files.push(path.to_owned());
        for chunk in chunks {
            self.chunks.entry(chunk.bars.symbol.clone()).or_default().push((path.to_owned(), chunk));
        }
    }

    /// The bars of each instrument in one piece.
    fn join(self, source: &str, limit: usize) -> Result<Vec<Bars>, DataError> {
        let origin = || source.to_owned();
        if self.seen.is_empty() {
            let path = match &self.files[..] {
                [one] => one.clone(),
                _ => PathBuf::from(source),
            };
            return Err(DataError::Refused { path, place: Place::File, reason: "it holds no bars".to_owned() });
        }
        let missing: Vec<String> = self.wanted.iter().filter(|w| !self.seen.contains(*w)).cloned().collect();
        if !missing.is_empty() {
            return Err(DataError::UnknownInstruments { origin: origin(), missing, there: named(&self.seen) });
        }
        if self.chunks.len() > limit {
            return Err(DataError::TooManyInstruments { origin: origin(), there: self.chunks.len(), limit });
        }
        self.chunks.into_values().map(join_chunks).collect()
    }
}

/// The first names of `seen`, and how many more there are.
fn named(seen: &BTreeSet<String>) -> Vec<String> {
    let mut names: Vec<String> = seen.iter().take(20).cloned().collect();
    if seen.len() > names.len() {
        names.push(format!("and {} more", seen.len() - names.len()));
    }
    names
}

fn join_chunks(mut chunks: Vec<(PathBuf, Chunk)>) -> Result<Bars, DataError> {
    chunks.sort_by_key(|(_, chunk)| chunk.bars.start_ns.first().copied());
    let mut chunks = chunks.into_iter();
    let (mut last_path, Chunk { mut bars, mut interval_ns }) =
        chunks.next().expect("an instrument is seen because it has bars");
    for (path, chunk) in chunks {
        let refused = |reason: String| DataError::Refused { path: path.clone(), place: Place::File, reason };
        let (before, from) = (bars.start_ns[bars.len() - 1], chunk.bars.start_ns[0]);
        if from <= before {
            return Err(refused(format!(
                "its bars of {} begin at {}, but {} has bars of it up to {}; remove one of the two",
                bars.symbol,
                when::format(from),
                last_path.display(),
                when::format(before)
            )));
        }
        if let (Some(a), Some(b)) = (interval_ns, chunk.interval_ns)
            && a != b
        {
            let (a, b) = (a / 1_000_000_000, b / 1_000_000_000);
            return Err(refused(format!(
                "its bars of {} last {b} s, but those in {} last {a} s; use bars of one length",
                bars.symbol,
                last_path.display()
            )));
        }
        interval_ns = interval_ns.or(chunk.interval_ns);
        bars.append(chunk.bars);
        last_path = path;
    }
    bars.interval_ns = interval_ns.unwrap_or_else(|| median_step(&bars.start_ns));
    Ok(bars)
}

/// The median time from one bar to the next; 0 for less than two bars.
fn median_step(start_ns: &[i64]) -> i64 {
    let mut steps: Vec<i64> = start_ns.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    if steps.is_empty() {
        return 0;
    }
    let middle = steps.len() / 2;
    *steps.select_nth_unstable(middle).1
}

#[cfg(test)]
mod real_files;
#[cfg(test)]
mod tests;
