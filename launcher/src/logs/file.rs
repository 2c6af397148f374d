//! A worker's log: everything it printed, byte for byte, up to a size where one is set.
//!
//! A log with a limit keeps its beginning and its end: the first half of the limit stays in `rank-0.log`, the newest
//! output is in `rank-0.log.1` and, after it, `rank-0.log.2`, each up to a quarter. What lies between is dropped, and a
//! line at the end of `rank-0.log` says how much.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A log that gives up on the first error instead of stopping the job: a full disk must not freeze a worker that
/// writes into a pipe nobody reads.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    limit: Option<u64>,
    /// Counts what was printed, also what is not kept.
    printed: Arc<AtomicU64>,
    open: Mutex<Option<Open>>,
}

/// What is written to.
#[derive(Debug)]
struct Open {
    /// The beginning; also where what happened to the rest is noted.
    head: File,
    /// In the beginning.
    head_bytes: u64,
    /// The part that is written now, and its size, once the beginning is full.
    part: Option<(File, u64)>,
    /// The size of the whole part before it.
    part_before: u64,
    dropped: u64,
}

/// What became of a log, for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It cannot be written; what comes now is lost.
    Lost(String),
    /// It has reached its limit.
    Full(String),
}

impl LogFile {
    /// Opens the log at `path` to append, with its folder. With a `limit` it and its parts hold about so many bytes.
    pub fn open(path: &Path, limit: Option<u64>, printed: Arc<AtomicU64>) -> std::io::Result<LogFile> {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let head = append_to(path)?;
        let head_bytes = head.metadata()?.len();
        let open = Open { head, head_bytes, part: None, part_before: 0, dropped: 0 };
        Ok(LogFile { path: path.to_owned(), limit, printed, open: Mutex::new(Some(open)) })
    }

    /// Writes `bytes`. The first error closes the log and is returned; later calls do nothing.
    pub fn write(&self, bytes: &[u8]) -> Option<Trouble> {
        self.printed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut place = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = place.as_mut()?;
        let written = match self.limit {
            None => open.head.write_all(bytes).map(|()| None),
            Some(limit) => self.write_within(limit, open, bytes),
        };
        match written {
            Ok(full) => full.map(Trouble::Full),
            Err(error) => {
                *place = None;
                let words = format!("{}: {error}; this log ends here, the job goes on", self.path.display());
                Some(Trouble::Lost(words))
            }
        }
    }

    fn write_within(&self, limit: u64, open: &mut Open, mut bytes: &[u8]) -> std::io::Result<Option<String>> {
        let (most_head, most_part) = (limit / 2, (limit / 4).max(1));
        let mut full = None;
        while !bytes.is_empty() {
            let room = match &open.part {
                None => most_head.saturating_sub(open.head_bytes),
                Some((_, size)) => most_part - size,
            };
            if room == 0 {
                if open.part.is_none() {
                    let words =
                        format!("this log has reached its first half of {limit} bytes; the newest output is in");
                    let (name, next) = (self.name(), self.part(1));
                    writeln!(open.head, "\n[foxlaunch: {words} {name}.1 and {name}.2]")?;
                    full = Some(format!("{}: {words} {} and .2", self.path.display(), next.display()));
                } else if self.part(2).exists() {
                    // The older of the two parts goes.
                    if open.dropped == 0 {
                        writeln!(
                            open.head,
                            "[foxlaunch: the limit is reached; the oldest of what follows is dropped]"
                        )?;
                    }
                    std::fs::rename(self.part(2), self.part(1))?;
                    open.dropped += open.part_before;
                }
                open.part_before = open.part.as_ref().map_or(0, |(_, size)| *size);
                let place = if self.part(1).exists() { self.part(2) } else { self.part(1) };
                open.part = Some((append_to(&place)?, 0));
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            match &mut open.part {
                None => {
                    open.head.write_all(now)?;
                    open.head_bytes += now.len() as u64;
                }
                Some((file, size)) => {
                    file.write_all(now)?;
                    *size += now.len() as u64;
                }
            }
            bytes = later;
        }
        Ok(full)
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn part(&self, number: u32) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{number}"));
        path.into()
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let name = self.name();
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.as_mut().filter(|open| open.dropped > 0) {
            let _ = writeln!(open.head, "[foxlaunch: {} bytes between here and {}.1 were dropped]", open.dropped, name);
        }
    }
}

fn append_to(path: &Path) -> std::io::Result<File> {
    // A pipe that no one reads is refused, not waited for.
    let nonblocking = nix::fcntl::OFlag::O_NONBLOCK.bits();
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(nonblocking).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn open(path: &Path, limit: Option<u64>) -> LogFile {
        LogFile::open(path, limit, Arc::default()).unwrap()
    }

    #[test]
    fn a_full_disk_warns_once_and_is_then_silent() {
        let log = open(Path::new("/dev/full"), None);
        let Some(Trouble::Lost(warning)) = log.write(b"hello") else { panic!("no warning") };
        assert!(warning.starts_with("/dev/full: No space left on device"), "{warning}");
        assert_eq!(log.write(b"hello"), None);
        assert_eq!(log.printed.load(Ordering::Relaxed), 10);
    }

    proptest! {
        #[test]
        fn a_limited_log_keeps_its_beginning_and_its_end(sizes in proptest::collection::vec(0usize..90, 1..60), limit in 8u64..400) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("rank-0.log");
            let log = open(&path, Some(limit));
            let all: Vec<u8> = (0..sizes.iter().sum()).map(|i: usize| b'a' + (i * 7 % 23) as u8).collect();
            let (mut at, mut troubles) = (0, 0);
            for size in sizes {
                troubles += usize::from(log.write(&all[at..at + size]).is_some());
                at += size;
            }
            drop(log);
            let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap_or_default();
            let head = read("rank-0.log");
            let end = [read("rank-0.log.1"), read("rank-0.log.2")].concat();
            let kept = all.len().min((limit / 2) as usize);
            prop_assert_eq!(&head[..kept], &all[..kept]);
            prop_assert!(all.ends_with(&end) && end.len() as u64 <= (limit / 2).max(2));
            let notes = String::from_utf8_lossy(&head[kept..]).into_owned();
            let dropped = all.len() - kept - end.len();
            let said = format!("[foxlaunch: {dropped} bytes between here and rank-0.log.1 were dropped]");
            prop_assert_eq!(notes.contains(&said), dropped > 0, "{} {}", dropped, notes);
            prop_assert_eq!(notes.is_empty(), all.len() as u64 <= limit / 2);
            prop_assert_eq!(troubles, usize::from(!notes.is_empty()));
        }
    }
}
