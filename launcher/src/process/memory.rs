//! Memory that the workers of one attempt share.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::os::fd::{AsRawFd, OwnedFd};

/// A memory file: it takes memory only where it is written, and is gone with the last process that has it.
#[derive(Debug)]
pub struct Arena {
    file: OwnedFd,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Arena {
    /// Makes one of `bytes`, which can be neither cut nor extended.
    pub fn new(bytes: u64) -> std::io::Result<Arena> {
        let file = memfd_create("foxlaunch-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Arena { file, bytes })
    }

    /// A path by which processes of this user open it while this process lives. So no descriptor is inherited,
    /// and none leaks to what a worker starts.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}
