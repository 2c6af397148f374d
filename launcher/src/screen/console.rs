//! The one way to the terminal while a job runs, so that the live line, the workers' lines and our own never tear
//! each other.

use super::progress::{Mode, Progress};
use crate::logs::mux::Stream;
use crate::logs::prefix::printable;
use crate::process::print;
use crate::secrets::Secrets;
use foxlaunch_shared::protocol::{Display, Phase};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `text` as a line of ours: what came from elsewhere in it cannot touch the terminal.
fn ours(text: &str) -> String {
    format!("foxlaunch: {}", text.lines().map(printable).collect::<Vec<_>>().join("\n"))
}

/// Says why nothing, or nothing more, is done, where there is no screen.
pub fn complain(text: &str) {
    print::err(ours(text));
}

/// Shared by all threads that show something.
#[derive(Debug)]
pub struct Screen {
    progress: Mutex<Progress>,
    quiet: bool,
    secrets: Secrets,
}

impl Screen {
    /// A screen that shows progress unless `quiet`, and none of `secrets` in our own lines.
    pub fn new(quiet: bool, secrets: Secrets) -> Screen {
        Screen { progress: Mutex::new(Progress::new(Mode::detect(quiet))), quiet, secrets }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // A thread that panicked while drawing leaves at worst a torn line.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows how far the job is.
    pub fn show(&self, display: &Display) {
        self.progress().update(display);
    }

    /// Shows what the job is busy with.
    pub fn show_phase(&self, phase: Phase) {
        self.progress().phase(phase);
    }

    /// Says something of ours, on standard error.
    pub fn tell(&self, text: &str) {
        self.progress().println(&ours(&self.secrets.hide(text)));
    }

    /// Says something of ours that a quiet run does without.
    pub fn mention(&self, text: &str) {
        if !self.quiet {
            self.tell(text);
        }
    }

    /// Writes whole lines that workers printed, where they printed them.
    pub fn write(&self, stream: Stream, lines: &[u8]) {
        // A console that is gone is no reason to stop the job; the logs have the lines.
        self.progress().suspend(|| match stream {
            Stream::Out => drop(std::io::stdout().write_all(lines)),
            Stream::Err => drop(std::io::stderr().write_all(lines)),
        });
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        self.progress().finish();
    }
}
