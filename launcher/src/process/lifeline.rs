//! The pipe between guardian and supervisor: neither writes to it, so that its end-of-file means a death.

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Makes the pipe: the end that the guardian keeps, and the one that the supervisor inherits.
pub fn make() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    // Only the supervisor's exec may inherit its end; workers must not, or a pipe would never end.
    fcntl(&read, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok((write, read))
}

/// Takes over the inherited end and calls `on_death` on a thread of its own when the guardian is gone.
pub fn watch(fd: RawFd, on_death: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    // SAFETY: the number comes from the guardian that made the pipe for this process, and is taken over once.
    let end = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl(&end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    let mut pipe = std::fs::File::from(end);
    super::signals::spawn_deaf("lifeline", move || {
        let mut byte = [0];
        while matches!(pipe.read(&mut byte), Err(e) if e.kind() == std::io::ErrorKind::Interrupted) {}
        on_death();
    })?;
    Ok(())
}
