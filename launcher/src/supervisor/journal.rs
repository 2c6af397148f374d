//! `events.jsonl`: what happened, a line each, with the time since the beginning and the time of day; under `--json`
//! on standard output too.

use super::event::Record;
use crate::logs::console::Console;
use crate::logs::mux::Stream;
use crate::logs::queue::Batch;
use crate::secrets::Secrets;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The open file, and standard output if it is to have the same. The file's first error closes it: the job goes on.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Option<File>,
    secrets: Secrets,
    printer: Option<Console>,
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
    /// Opens the file at `path` to append. What is written has none of `secrets`. If it `prints`, each line goes to
    /// standard output too, which is not waited for if no one reads it.
    pub fn open(path: &Path, secrets: Secrets, prints: bool) -> std::io::Result<Journal> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let print = |_, lines: &[u8]| drop(std::io::stdout().write_all(lines));
        let printer = if prints { Some(Console::start("events", print)?) } else { None };
        Ok(Journal { path: path.to_owned(), file: Some(file), secrets, printer })
    }

    /// Writes one line; the first failure is returned as a warning, later calls only print.
    pub fn write(&mut self, now: Duration, record: &Record) -> Option<String> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let line = serde_json::to_string(&Entry { t: now.as_secs_f64(), time, record }).ok()?;
        let line = self.without_secrets(line) + "\n";
        if let Some(printer) = &self.printer {
            printer.queue().push(Batch { stream: Stream::Out, bytes: line.clone().into_bytes(), lines: 1 });
        }
        // One write for each line, so that a kill leaves whole lines.
        let error = self.file.as_mut()?.write_all(line.as_bytes()).err()?;
        self.file = None;
        Some(format!("{}: {error}; events end here, the job goes on", self.path.display()))
    }

    /// A line with what must not be written hidden in its texts. Most lines hold none and stay as they are.
    fn without_secrets(&self, line: String) -> String {
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(&line) else { return line };
        let before = value.clone();
        self.secrets.hide_in(&mut value);
        if value == before { line } else { value.to_string() }
    }

    /// Waits, for a bounded time, until all is printed. Gives the number of lines that found no reader.
    pub fn finish(&mut self) -> u64 {
        self.printer.take().map_or(0, Console::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foxlaunch_shared::ids::{Attempt, Rank};

    #[test]
    fn lines_are_kept_without_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let secrets = Secrets::find([("DB_PASSWORD".into(), "correct-horse".into())], []);
        let mut journal = Journal::open(&path, secrets, false).unwrap();
        let (attempt, rank) = (Attempt(1), Rank(0));
        let note = |text: &str| Record::Note { attempt, rank, text: text.into() };
        assert_eq!(journal.write(Duration::from_millis(1500), &note("no \"correct-horse\" here")), None);
        assert_eq!(journal.write(Duration::from_millis(1500), &note("--password=x y")), None);
        assert_eq!(journal.write(Duration::from_secs(2), &note("plain")), None);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["text"], "no \"[secret]\" here");
        assert_eq!(lines[1]["text"], "--password=[secret] y");
        assert_eq!((lines[2]["text"].as_str(), lines[2]["t"].as_f64()), (Some("plain"), Some(2.0)));
        assert!(text.lines().all(|line| line.contains("\"event\":\"note\"")), "{text}");
    }

    #[test]
    fn a_full_disk_warns_once() {
        let mut journal = Journal::open(Path::new("/dev/full"), Secrets::default(), false).unwrap();
        let record = Record::End { attempt: Attempt(1), code: 0 };
        assert!(journal.write(Duration::ZERO, &record).unwrap().contains("events end here"));
        assert_eq!(journal.write(Duration::ZERO, &record), None);
    }
}
