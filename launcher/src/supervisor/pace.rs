//! How often a rank's progress is written down: a worker may tell of each step, and a file must not grow by it.

use super::event::{Event, Record};
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::FromWorker;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two records of one rank.
const PACE: Duration = Duration::from_secs(1);

/// A rank's newest progress.
#[derive(Debug)]
struct Newest {
    written: Duration,
    held_back: Option<Record>,
}

/// All ranks' progress.
#[derive(Debug, Default)]
pub struct Pace {
    attempt: Option<Attempt>,
    ranks: BTreeMap<Rank, Newest>,
}

impl Pace {
    /// What is to be written when `event` happened at `now`: progress that is due, and before a rank's end what was
    /// held back of it.
    pub fn on(&mut self, now: Duration, event: &Event) -> Option<Record> {
        match event {
            Event::Spawned { attempt, .. } if self.attempt != Some(*attempt) => {
                self.attempt = Some(*attempt);
                self.ranks.clear();
                None
            }
            Event::Said { attempt, rank, message } if self.attempt == Some(*attempt) => {
                let record = progress(*attempt, *rank, message)?;
                let newest = self.ranks.get_mut(rank).filter(|newest| now < newest.written + PACE);
                if let Some(newest) = newest {
                    newest.held_back = Some(record);
                    return None;
                }
                self.ranks.insert(*rank, Newest { written: now, held_back: None });
                Some(record)
            }
            Event::Exited { attempt, rank, .. } if self.attempt == Some(*attempt) => self.ranks.remove(rank)?.held_back,
            _ => None,
        }
    }
}

fn progress(attempt: Attempt, rank: Rank, message: &FromWorker) -> Option<Record> {
    let FromWorker::Progress { step, collectives, phase, display } = message else { return None };
    let total = display.as_ref().map_or(0, |display| display.total);
    let values = display.iter().flat_map(|display| display.values.iter().cloned()).collect();
    Some(Record::Progress { attempt, rank, step: *step, total, collectives: *collectives, phase: *phase, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::child::Ended;
    use foxlaunch_shared::protocol::Phase;
    use proptest::prelude::*;

    const AT: Attempt = Attempt(1);

    fn said(rank: u32, step: u64) -> Event {
        let message = FromWorker::Progress { step, collectives: 0, phase: Phase::Step, display: None };
        Event::Said { attempt: AT, rank: Rank(rank), message }
    }

    fn steps(records: impl IntoIterator<Item = Record>) -> Vec<u64> {
        let step = |record| if let Record::Progress { step, .. } = record { Some(step) } else { None };
        records.into_iter().filter_map(step).collect()
    }

    #[test]
    fn the_first_and_the_last_are_written() {
        let mut pace = Pace::default();
        let exited = Event::Exited { attempt: AT, rank: Rank(0), how: Ended::Code(0) };
        let ms = Duration::from_millis;
        assert_eq!(pace.on(ms(0), &said(0, 9)), None, "of an attempt that is over");
        pace.on(ms(0), &Event::Spawned { attempt: AT, rank: Rank(0), pid: 1 });
        let events = [(0, said(0, 1)), (400, said(0, 2)), (900, said(1, 7)), (1000, said(0, 3)), (1001, said(0, 4))];
        let written = events.iter().filter_map(|(at, event)| pace.on(ms(*at), event)).collect::<Vec<_>>();
        assert_eq!(steps(written), [1, 7, 3]);
        assert_eq!(steps(pace.on(ms(1002), &exited)), [4]);
        assert_eq!(pace.on(ms(1003), &exited), None);
    }

    proptest! {
        #[test]
        fn a_rank_writes_at_most_once_a_second(gaps in proptest::collection::vec(0u64..700, 1..200)) {
            let mut pace = Pace::default();
            pace.on(Duration::ZERO, &Event::Spawned { attempt: AT, rank: Rank(0), pid: 1 });
            let (mut now, mut written) = (Duration::ZERO, Vec::new());
            for (step, gap) in gaps.into_iter().enumerate() {
                now += Duration::from_millis(gap);
                written.extend(pace.on(now, &said(0, step as u64)).map(|_| now));
            }
            prop_assert!(written.windows(2).all(|pair| pair[1] - pair[0] >= PACE));
        }
    }
}
