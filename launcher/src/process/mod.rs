//! The launcher's only calls to the operating system: start a process so that it cannot outlive us, see it end,
//! signal it, and find everything that it left behind.

pub mod affinity;
pub mod cgroup;
pub mod child;
pub mod command;
pub mod descendants;
pub mod identity;
pub mod inspect;
pub mod lifeline;
pub mod lock;
pub mod memory;
pub mod pipes;
pub mod port;
pub mod print;
pub mod scratch;
pub mod signals;
pub mod surroundings;
pub mod usage;

/// The time since some fixed point of this machine, which no one sets back.
pub fn monotonic() -> std::time::Duration {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("Linux has a monotonic clock");
    std::time::Duration::from(now)
}

/// The text of a file whose bytes others choose, such as a program's name in `/proc`: one that is no UTF-8 must not hide a
/// process from us. What is no text becomes U+FFFD.
pub fn read_text(path: impl AsRef<std::path::Path>) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// What stands in a file that a worker writes, up to `limit` bytes. It may have made anything of it: a pipe, at which one
/// waits for ever, is no file.
pub fn read_regular(path: &std::path::Path, limit: u64) -> std::io::Result<Vec<u8>> {
    use std::io::{Error, ErrorKind, Read};
    use std::os::unix::fs::OpenOptionsExt;
    let nonblocking = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let file = std::fs::File::options().read(true).custom_flags(nonblocking).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    if about.len() > limit {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("more than {limit} bytes")));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file that only this user may read.
pub fn write_private(path: &std::path::Path, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes.as_ref())
}

/// How many files this process may have open.
pub fn open_file_limit() -> u64 {
    nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft)
}

/// How many cores this process may run on.
pub fn allowed_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
