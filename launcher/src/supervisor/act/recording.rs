//! What is written down, and what is told when that fails.

use super::Actor;
use crate::logs::file::Trouble;
use crate::supervisor::event::Record;
use foxlaunch_shared::ids::{Attempt, Rank};
use std::time::Duration;

impl Actor<'_> {
    /// Writes `record` into the run's events.
    pub(super) fn record(&mut self, now: Duration, record: &Record) {
        let warning = self.observer.record(now, record);
        self.warn(warning);
    }

    /// Tells of an events' file that cannot be written.
    pub(super) fn warn(&mut self, warning: Option<String>) {
        self.logs_lost |= warning.is_some();
        warning.iter().for_each(|warning| self.screen.tell(warning));
    }

    /// Tells what became of a worker's log, and writes it down.
    pub(super) fn log_trouble(&mut self, now: Duration, attempt: Attempt, rank: Rank, trouble: &Trouble) {
        let (Trouble::Lost(text) | Trouble::Full(text)) = trouble;
        self.logs_lost |= matches!(trouble, Trouble::Lost(_));
        self.screen.tell(text);
        self.record(now, &Record::Log { attempt, rank, text: text.clone() });
    }
}
