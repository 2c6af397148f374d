//! A folder that is one job's alone while its supervisor lives.

use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A lock that the kernel takes away with its holder, however that one dies.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes the lock at `path`; `WouldBlock` if another process holds it.
    pub fn take(path: &Path) -> std::io::Result<FolderLock> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(FolderLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = FolderLock::take(&path).unwrap();
        assert_eq!(FolderLock::take(&path).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        drop(first);
        FolderLock::take(&path).unwrap();
    }
}
