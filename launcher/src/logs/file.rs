//! A worker's log: everything it printed, byte for byte.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A log that gives up on the first error instead of stopping the job: a full disk must not freeze a worker that
/// writes into a pipe nobody reads.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl LogFile {
    /// Opens the log at `path` to append, with its folder.
    pub fn open(path: &Path) -> std::io::Result<LogFile> {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(LogFile { path: path.to_owned(), file: Mutex::new(Some(file)) })
    }

    /// Writes `bytes`. The first error closes the log and is returned as a warning; later calls do nothing.
    pub fn write(&self, bytes: &[u8]) -> Option<String> {
        let mut file = self.file.lock().ok()?;
        let error = file.as_mut()?.write_all(bytes).err()?;
        *file = None;
        Some(format!("{}: {error}; this log ends here, the job goes on", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_warns_once_and_is_then_silent() {
        let log = LogFile::open(Path::new("/dev/full")).unwrap();
        let warning = log.write(b"hello").unwrap();
        assert!(warning.starts_with("/dev/full: No space left on device"), "{warning}");
        assert_eq!(log.write(b"hello"), None);
    }
}
