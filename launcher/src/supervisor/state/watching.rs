//! Looking at ranks that stand still: who is told of, and when it is the end.

use super::{Exit, Supervisor};
use crate::supervisor::event::{Action, Record};
use crate::supervisor::health::{Finding, Signs};
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::Rank;
use foxlaunch_shared::protocol::Fault;
use std::time::Duration;

impl Supervisor {
    /// Looks at all ranks, or first for signs of life where these count.
    pub(super) fn look(&mut self, now: Duration, todo: &mut Vec<Action>) {
        if self.health.look_at().is_some_and(|at| now >= at) {
            self.health.looked(now);
            todo.push(Action::LookForSigns { attempt: self.attempt });
        } else {
            self.judge(now, todo);
        }
    }

    /// What was seen of the workers that run.
    pub(super) fn signs(&mut self, now: Duration, of: Vec<(Rank, Signs)>, todo: &mut Vec<Action>) {
        for (rank, signs) in of {
            if self.is_running(self.attempt, rank) {
                let stood = self.health.sample(now, rank, signs);
                self.goes_on(rank, stood, todo);
            }
        }
        self.judge(now, todo);
    }

    fn judge(&mut self, now: Duration, todo: &mut Vec<Action>) {
        let attempt = self.attempt;
        if let Some(Finding { behind: rank, rule, since, words }) = self.health.still(now) {
            todo.push(Action::Tell(format!("rank {rank} stands still: {words}")));
            todo.push(Action::Record(Record::Still { attempt, rank, rule, since_s: since.as_secs_f64(), words }));
        }
        if let Some(finding) = self.health.overdue(now) {
            self.hangs(now, finding, todo);
        }
    }

    /// A rank goes on that had been said to stand still for as long as `stood`.
    pub(super) fn goes_on(&mut self, rank: Rank, stood: Option<Duration>, todo: &mut Vec<Action>) {
        if let Some(stood) = stood {
            let (attempt, stood_s) = (self.attempt, stood.as_secs_f64());
            todo.push(Action::Tell(format!("rank {rank} goes on, after {stood_s:.1} s")));
            todo.push(Action::Record(Record::GoesOn { attempt, rank, stood_s }));
        }
    }

    /// A rank stands still for too long: it is the cause, whatever ends next.
    fn hangs(&mut self, now: Duration, finding: Finding, todo: &mut Vec<Action>) {
        let Finding { behind: rank, rule, since, words } = finding;
        let (attempt, since_s) = (self.attempt, since.as_secs_f64());
        todo.push(Action::Record(Record::Hang { attempt, rank, rule, since_s, words: words.clone() }));
        todo.push(Action::Tell(format!("rank {rank} hangs: {words}")));
        todo.push(Action::Inspect { attempt, rank });
        let fault = Some(Fault { message: format!("hangs: {words}"), code: exit::HANG, blames: None });
        self.exits.push(Exit { rank, how: None, fault, at: now, by_us: false, clean: false });
        self.stop_peers(now, rank, &words, todo);
    }
}
