//! Choosing and making the run's folder.

use foxlaunch_shared::date::Date;
use foxlaunch_shared::ids::Attempt;
use foxlaunch_shared::run_dir::RunDir;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Why a folder cannot be the run's.
#[derive(Debug, Error)]
pub enum FolderError {
    /// There is something in it.
    #[error("{0} is not empty; choose another folder, or go on in it with --resume {0}")]
    NotEmpty(PathBuf),
    /// There is nothing to go on with.
    #[error("{0} holds no run to go on with: it has no config.toml")]
    NotARun(PathBuf),
    /// It cannot be made or read.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
}

/// The folder for a new run: `out`, which must be empty or not there, or a new one below `runs/`. Nothing is made.
pub fn choose(out: Option<&Path>, verb: &str) -> Result<RunDir, FolderError> {
    let path = match out {
        Some(path) => absolute(path)?,
        None => absolute(&Path::new("runs").join(new_name(verb)))?,
    };
    match std::fs::read_dir(&path).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(FolderError::NotEmpty(path)),
        Ok(false) => Ok(RunDir::new(path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(RunDir::new(path)),
        Err(error) => Err(FolderError::Io(path, error)),
    }
}

/// The folder of a run to go on with.
pub fn existing(path: &Path) -> Result<RunDir, FolderError> {
    let run = RunDir::new(absolute(path)?);
    if run.config().is_file() { Ok(run) } else { Err(FolderError::NotARun(path.to_owned())) }
}

fn absolute(path: &Path) -> Result<PathBuf, FolderError> {
    std::path::absolute(path).map_err(|error| FolderError::Io(path.to_owned(), error))
}

/// Makes the folder, readable by its user only.
pub fn make(run: &RunDir) -> Result<(), FolderError> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(run.path());
    made.map_err(|error| FolderError::Io(run.path().to_owned(), error))
}

/// The first attempt that has left no logs in `logs` yet.
pub fn next_attempt(logs: &Path) -> Attempt {
    let number = |entry: std::io::Result<std::fs::DirEntry>| -> Option<u32> {
        entry.ok()?.file_name().to_str()?.strip_prefix("attempt-")?.parse().ok()
    };
    let last = std::fs::read_dir(logs).into_iter().flatten().filter_map(number).max();
    last.map_or(Attempt::FIRST, |n| Attempt(n).next())
}

/// `<verb>-<UTC>-<4 hex>`.
fn new_name(verb: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unique = (now.subsec_nanos() ^ std::process::id().rotate_left(16)) & 0xffff;
    format!("{verb}-{}-{unique:04x}", utc(now.as_secs()))
}

/// Seconds since 1970 as `YYYYMMDDTHHMMSSZ`.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let Date { year, month, day } = Date::from_days(days as i64);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_796_056_746, "20261130T163906Z"),
            (4_102_444_799, "20991231T235959Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn a_folder_with_something_in_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(choose(Some(folder.path()), "train-dqn").is_ok());
        std::fs::write(folder.path().join("x"), "").unwrap();
        let error = choose(Some(folder.path()), "train-dqn").unwrap_err().to_string();
        assert!(error.contains("is not empty"), "{error}");
        assert!(existing(folder.path()).unwrap_err().to_string().contains("no config.toml"));
    }

    #[test]
    fn attempts_count_on() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(next_attempt(folder.path()), Attempt(1));
        for name in ["attempt-1", "attempt-10", "attempt-x", "other"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert_eq!(next_attempt(folder.path()), Attempt(11));
    }
}
