//! Writing: beside, synced, renamed, and only then named the latest.

use super::keep::{self, Name, TEMPORARY};
use super::{CheckpointError, Contents, FileEntry, LATEST, MANIFEST, Manifest, VERSION, sha256};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes checkpoints into one folder. Only one process of a run may.
#[derive(Clone, Debug)]
pub struct Writer {
    root: PathBuf,
    keep: usize,
}

impl Writer {
    /// A writer into the folder `root`, made when it is needed, that leaves the `keep` newest besides the best.
    pub fn new(root: impl Into<PathBuf>, keep: usize) -> Writer {
        Writer { root: root.into(), keep: keep.max(1) }
    }

    /// Writes `contents`, makes it the latest and removes those no longer kept. Gives its folder.
    pub fn write(&self, contents: &Contents) -> Result<PathBuf, CheckpointError> {
        let name = Name::Update { fold: contents.point.fold, update: contents.point.update };
        let place = self.put(name, contents)?;
        self.point_latest_at(name)?;
        keep::prune(&self.root, self.keep)?;
        Ok(place)
    }

    /// Writes `contents` as the best of its fold. Gives its folder.
    pub fn write_best(&self, contents: &Contents) -> Result<PathBuf, CheckpointError> {
        self.put(Name::Best { fold: contents.point.fold }, contents)
    }

    fn put(&self, name: Name, contents: &Contents) -> Result<PathBuf, CheckpointError> {
        let root = &self.root;
        fs::create_dir_all(root).map_err(CheckpointError::io("make", root))?;
        keep::clean(root)?;
        let beside = root.join(format!("{TEMPORARY}{name}"));
        let place = root.join(name.to_string());
        let written = fill(&beside, contents).and_then(|()| {
            if place.exists() {
                // From an earlier attempt. A kill between these two leaves the one before it, and `clean` the rest.
                keep::remove(root, &place)?;
            }
            fs::rename(&beside, &place).map_err(CheckpointError::io("rename", &beside))
        });
        if let Err(e) = written {
            // The disk may be full: give back what the attempt took. Its own failure would say nothing new.
            let _ = fs::remove_dir_all(&beside);
            return Err(e);
        }
        sync_folder(root)?;
        Ok(place)
    }

    fn point_latest_at(&self, name: Name) -> Result<(), CheckpointError> {
        let (link, beside) = (self.root.join(LATEST), self.root.join(format!("{TEMPORARY}{LATEST}")));
        std::os::unix::fs::symlink(name.to_string(), &beside).map_err(CheckpointError::io("link", &beside))?;
        fs::rename(&beside, &link).map_err(CheckpointError::io("move", &link))?;
        sync_folder(&self.root)
    }
}

/// Makes the folder `place` and writes and syncs all files into it, the manifest last.
fn fill(place: &Path, contents: &Contents) -> Result<(), CheckpointError> {
    fs::create_dir(place).map_err(CheckpointError::io("make", place))?;
    let mut files = Vec::new();
    for (name, bytes) in &contents.files {
        write_synced(&place.join(name), bytes)?;
        files.push(FileEntry { name: name.clone(), bytes: bytes.len() as u64, sha256: sha256(bytes) });
    }
    let manifest = Manifest { version: VERSION, point: contents.point.clone(), files };
    let mut text = serde_json::to_vec_pretty(&manifest).map_err(|e| CheckpointError::form(MANIFEST, e))?;
    text.push(b'\n');
    write_synced(&place.join(MANIFEST), &text)?;
    sync_folder(place)
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(CheckpointError::io("write", path))
}

fn sync_folder(path: &Path) -> Result<(), CheckpointError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(CheckpointError::io("sync", path))
}
