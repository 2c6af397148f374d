//! Names of checkpoints, and which of them stay.

use super::{CheckpointError, LATEST};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The beginning of every folder that is not yet, or no longer, a checkpoint.
pub(super) const TEMPORARY: &str = ".tmp-";

/// The name of a checkpoint's folder. Names sort as training goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Taken on the way.
    Update {
        /// Which fold.
        fold: u32,
        /// After how many updates of it.
        update: u64,
    },
    /// The best of a fold.
    Best {
        /// Which fold.
        fold: u32,
    },
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Update { fold, update } => write!(f, "fold-{fold:03}-update-{update:09}"),
            Name::Best { fold } => write!(f, "fold-{fold:03}-best"),
        }
    }
}

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Name, ()> {
        let (fold, rest) = text.strip_prefix("fold-").and_then(|rest| rest.split_once('-')).ok_or(())?;
        let fold = fold.parse().map_err(|_| ())?;
        let name = match rest.strip_prefix("update-") {
            Some(update) => Name::Update { fold, update: update.parse().map_err(|_| ())? },
            None if rest == "best" => Name::Best { fold },
            None => return Err(()),
        };
        // only the one spelling that is written
        if name.to_string() == text { Ok(name) } else { Err(()) }
    }
}

/// All checkpoints in `root` taken on the way, the newest first.
pub(super) fn on_the_way(root: &Path) -> Result<Vec<(Name, PathBuf)>, CheckpointError> {
    let mut found = Vec::new();
    for entry in entries(root)? {
        if let Ok(name @ Name::Update { .. }) = entry.1.parse() {
            found.push((name, entry.0));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

/// Removes all but the `keep` newest checkpoints taken on the way; the one that `latest` names stays in any case.
pub(super) fn prune(root: &Path, keep: usize) -> Result<(), CheckpointError> {
    let latest = std::fs::read_link(root.join(LATEST)).ok();
    for (name, path) in on_the_way(root)?.into_iter().skip(keep) {
        if latest.as_deref() != Some(Path::new(&name.to_string())) {
            remove(root, &path)?;
        }
    }
    Ok(())
}

/// Removes what earlier writers, killed on the way, left behind.
pub(super) fn clean(root: &Path) -> Result<(), CheckpointError> {
    for (path, name) in entries(root)? {
        if name.starts_with(TEMPORARY) {
            delete(&path)?;
        }
    }
    Ok(())
}

/// Removes the folder at `path`. It is renamed first, so that it is never half there under its name.
pub(super) fn remove(root: &Path, path: &Path) -> Result<(), CheckpointError> {
    let aside = root.join(format!("{TEMPORARY}old"));
    delete(&aside)?;
    std::fs::rename(path, &aside).map_err(CheckpointError::io("remove", path))?;
    delete(&aside)
}

fn delete(path: &Path) -> Result<(), CheckpointError> {
    let gone = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(e) => Err(e),
    };
    match gone {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(CheckpointError::io("remove", path)(e)),
        _ => Ok(()),
    }
}

fn entries(root: &Path) -> Result<Vec<(PathBuf, String)>, CheckpointError> {
    let listing = match std::fs::read_dir(root) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing.map_err(CheckpointError::io("list", root))?,
    };
    let mut found = Vec::new();
    for entry in listing {
        let entry = entry.map_err(CheckpointError::io("list", root))?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((entry.path(), name));
        }
    }
    Ok(found)
}
