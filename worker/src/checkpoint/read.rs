//! Reading: nothing is believed before it matches the manifest.

use super::keep;
use super::{CheckpointError, LATEST, MANIFEST, Manifest, Point, VERSION, sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A manifest is a kilobyte; what is larger is none.
const MAX_MANIFEST: u64 = 1 << 20;
/// Larger files are refused: they would not be read into memory in good faith.
const MAX_FILE: u64 = 1 << 36;
/// Files in one checkpoint.
const MAX_FILES: usize = 64;

/// A whole checkpoint in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Its folder.
    pub path: PathBuf,
    /// Where it was taken.
    pub point: Point,
    files: BTreeMap<String, Vec<u8>>,
}

impl Loaded {
    /// The bytes of the file `name`.
    pub fn file(&self, name: &str) -> Result<&[u8], CheckpointError> {
        let missing = || CheckpointError::damaged(&self.path, format!("it lacks {name}"));
        self.files.get(name).map(Vec::as_slice).ok_or_else(missing)
    }
}

/// The newest whole checkpoint, and what was passed over to find it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The checkpoint.
    pub loaded: Loaded,
    /// A line for each newer one that is damaged, with the reason.
    pub skipped: Vec<String>,
}

/// Reads the checkpoint in the folder `path` and checks every byte of it.
pub fn read(path: &Path) -> Result<Loaded, CheckpointError> {
    let text = read_file(&path.join(MANIFEST), MAX_MANIFEST, None)?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|e| CheckpointError::damaged(&path.join(MANIFEST), e))?;
    if manifest.version != VERSION {
        let reason = format!("it has version {}, this program reads {VERSION}", manifest.version);
        return Err(CheckpointError::damaged(path, reason));
    }
    if manifest.files.len() > MAX_FILES {
        return Err(CheckpointError::damaged(path, format!("its manifest lists {} files", manifest.files.len())));
    }
    let mut files = BTreeMap::new();
    for entry in manifest.files {
        if entry.name.contains('/') || entry.name.starts_with('.') {
            return Err(CheckpointError::damaged(path, format!("its manifest names a file {:?}", entry.name)));
        }
        let place = path.join(&entry.name);
        let bytes = read_file(&place, MAX_FILE, Some(entry.bytes))?;
        if sha256(&bytes) != entry.sha256 {
            return Err(CheckpointError::damaged(&place, "its SHA-256 is not the one in the manifest"));
        }
        files.insert(entry.name, bytes);
    }
    Ok(Loaded { path: path.to_owned(), point: manifest.point, files })
}

/// The newest whole checkpoint below `root` that was taken on the way: the one that `latest` names, else the newest
/// before it. An error if there are some and none is whole; `None` if there never was one.
pub fn newest(root: &Path) -> Result<Option<Found>, CheckpointError> {
    let mut candidates: Vec<PathBuf> = keep::on_the_way(root)?.into_iter().map(|(_, path)| path).collect();
    let mut skipped = Vec::new();
    if let Ok(named) = std::fs::read_link(root.join(LATEST)) {
        match candidates.iter().position(|path| path.file_name() == Some(named.as_os_str())) {
            // A newer one than the latest was written whole, but never named: the one that was named wins, since
            // the run told its launcher about that one only.
            Some(at) => drop(candidates.drain(..at)),
            None => skipped.push(format!("{}: it is not there", root.join(named).display())),
        }
    }
    for path in &candidates {
        match read(path) {
            Ok(loaded) => return Ok(Some(Found { loaded, skipped })),
            Err(e) => skipped.push(e.to_string()),
        }
    }
    if candidates.is_empty() && skipped.is_empty() {
        return Ok(None);
    }
    Err(CheckpointError::NoneUsable { root: root.to_owned(), reasons: skipped })
}

/// Reads a regular file of at most `limit` bytes, and of `expected` bytes if that is known.
fn read_file(path: &Path, limit: u64, expected: Option<u64>) -> Result<Vec<u8>, CheckpointError> {
    let meta = path.symlink_metadata().map_err(CheckpointError::io("read", path))?;
    if !meta.is_file() {
        return Err(CheckpointError::damaged(path, "it is not a regular file"));
    }
    if meta.len() > limit {
        return Err(CheckpointError::damaged(path, format!("{} bytes, more than the limit of {limit}", meta.len())));
    }
    if let Some(expected) = expected.filter(|expected| *expected != meta.len()) {
        return Err(CheckpointError::damaged(path, format!("{} bytes instead of {expected}", meta.len())));
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    let file = File::open(path).map_err(CheckpointError::io("read", path))?;
    file.take(limit).read_to_end(&mut bytes).map_err(CheckpointError::io("read", path))?;
    Ok(bytes)
}
