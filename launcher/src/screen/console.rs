//! The one way to the terminal while a job runs, so that the live line, the workers' lines and our own never tear
//! each other.

use super::progress::{Mode, Progress};
use crate::logs::mux::{Line, Stream};
use crate::logs::prefix::printable;
use foxlaunch_shared::protocol::Display;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared by all threads that show something.
#[derive(Debug)]
pub struct Screen {
    progress: Mutex<Progress>,
    quiet: bool,
}

impl Screen {
    /// A screen that shows progress unless `quiet`.
    pub fn new(quiet: bool) -> Screen {
        Screen { progress: Mutex::new(Progress::new(Mode::detect(quiet))), quiet }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // A thread that panicked while drawing leaves at worst a torn line.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows how far the job is.
    pub fn show(&self, display: &Display) {
        self.progress().update(display);
    }

    /// Says something of ours, on standard error.
    pub fn tell(&self, text: &str) {
        self.progress().println(&format!("foxlaunch: {}", text.lines().map(printable).collect::<Vec<_>>().join("\n")));
    }

    /// Says something of ours that a quiet run does without.
    pub fn mention(&self, text: &str) {
        if !self.quiet {
            self.tell(text);
        }
    }

    /// Shows a line that a worker printed, where it printed it; behind its rank, if there are `several` workers.
    pub fn worker_line(&self, line: &Line, several: bool) {
        let text = printable(&String::from_utf8_lossy(&line.bytes));
        let text = if several { format!("[{}] {text}\n", line.rank) } else { format!("{text}\n") };
        // A console that is gone is no reason to stop the job; its log has the line.
        self.progress().suspend(|| match line.stream {
            Stream::Out => drop(std::io::stdout().write_all(text.as_bytes())),
            Stream::Err => drop(std::io::stderr().write_all(text.as_bytes())),
        });
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        self.progress().finish();
    }
}
