//! Which files a setting means: paths and patterns with commas between, folders.

use super::file;
use crate::data::DataError;
use std::path::{Path, PathBuf};

/// Names that end so are read, when a folder is.
pub(super) const ENDINGS: [&str; 8] = [".dbn", ".dbn.zst", ".csv", ".csv.gz", ".csv.zst", ".tsv", ".zip", ".parquet"];

/// The files that `text` means.
pub(super) fn expand(text: &str) -> Result<Vec<PathBuf>, DataError> {
    let mut all = Vec::new();
    for part in parts(text) {
        all.append(&mut match is_pattern(part) {
            true => matches(part)?,
            false => files(Path::new(part))?,
        });
    }
    Ok(all)
}

/// The path, or the parts between commas where there is no file of the whole name.
fn parts(text: &str) -> Vec<&str> {
    if Path::new(text).exists() {
        return vec![text];
    }
    text.split(',').map(str::trim).collect()
}

fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '[']) && !Path::new(part).exists()
}

/// The files that fit `pattern`, in the order of their names.
fn matches(pattern: &str) -> Result<Vec<PathBuf>, DataError> {
    let no_input = |reason: String| DataError::NoInput { path: PathBuf::from(pattern), reason };
    let found = glob::glob(pattern).map_err(|e| no_input(format!("it is no pattern that is understood: {e}")))?;
    let mut all = Vec::new();
    for path in found {
        let path = path.map_err(|e| no_input(format!("{}: {}", e.path().display(), file::unreadable(e.error()))))?;
        all.append(&mut files(&path)?);
    }
    if all.is_empty() {
        return Err(no_input("no file fits this pattern".to_owned()));
    }
    all.dedup();
    Ok(all)
}

/// The file, or the files in the folder that are read, in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let no_input = |reason: String| DataError::NoInput { path: path.to_owned(), reason };
    let metadata = std::fs::metadata(path).map_err(|e| no_input(file::unreadable(&e)))?;
    if !metadata.is_dir() {
        regular(path, &metadata)?;
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.map_err(|e| no_input(file::unreadable(&e)))?;
    let is_read = |name: &str| ENDINGS.iter().any(|ending| name.to_lowercase().ends_with(ending));
    let mut files: Vec<PathBuf> =
        entries.iter().filter(|e| e.file_name().to_str().is_some_and(is_read)).map(|e| e.path()).collect();
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
