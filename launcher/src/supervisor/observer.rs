//! Who sees all that happens, and decides nothing: the events' file, and the numbers for `--metrics-addr`.

use super::event::{Event, Record};
use super::journal::Journal;
use super::pace::Pace;
use crate::metrics::Gauges;
use foxlaunch_shared::protocol::FromWorker;
use std::time::Duration;

/// The observer. What its methods return is a warning for the person.
#[derive(Debug)]
pub struct Observer {
    journal: Journal,
    pace: Pace,
    gauges: Gauges,
}

impl Observer {
    /// An observer that has seen nothing.
    pub fn new(journal: Journal, gauges: Gauges) -> Observer {
        Observer { journal, pace: Pace::default(), gauges }
    }

    /// `event` happened at `now`, and has not been acted on yet.
    pub fn saw(&mut self, now: Duration, event: &Event) -> Option<String> {
        match event {
            Event::Spawned { attempt, rank, .. } => self.gauges.spawned(*attempt, *rank),
            Event::Said { attempt, rank, message: FromWorker::Progress { step, collectives, .. } } => {
                self.gauges.progress(*attempt, *rank, *step, *collectives);
            }
            Event::Exited { attempt, rank, how } => self.gauges.exited(*attempt, *rank, how.exit_code()),
            _ => {}
        }
        let progress = self.pace.on(now, event)?;
        self.record(now, &progress)
    }

    /// Writes `record` down.
    pub fn record(&mut self, now: Duration, record: &Record) -> Option<String> {
        if let Record::Restart { .. } = record {
            self.gauges.restarted();
        }
        self.journal.write(now, record)
    }

    /// Waits, for a bounded time, until all is written. Gives the number of lines that found no reader.
    pub fn finish(&mut self) -> u64 {
        self.journal.finish()
    }
}
