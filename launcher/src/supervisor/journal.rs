//! `events.jsonl`: what happened, a line each, with the time since the beginning and the time of day.

use super::event::Record;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The open file. Its first error closes it: the job goes on.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Option<File>,
}

#[derive(Serialize)]
struct Entry<'a> {
    /// Seconds since the beginning, from a clock that no one sets back.
    t: f64,
    /// Seconds since 1970, UTC.
    time: f64,
    #[serde(flatten)]
    record: &'a Record,
}

impl Journal {
    /// Opens the file at `path` to append.
    pub fn open(path: &Path) -> std::io::Result<Journal> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Journal { path: path.to_owned(), file: Some(file) })
    }

    /// Writes one line; the first failure is returned as a warning, later calls do nothing.
    pub fn write(&mut self, now: Duration, record: &Record) -> Option<String> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut line = serde_json::to_vec(&Entry { t: now.as_secs_f64(), time, record }).ok()?;
        line.push(b'\n');
        // One write for each line, so that a kill leaves whole lines.
        let error = self.file.as_mut()?.write_all(&line).err()?;
        self.file = None;
        Some(format!("{}: {error}; events end here, the job goes on", self.path.display()))
    }
}
