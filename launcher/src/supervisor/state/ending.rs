//! The end of an attempt, and of the job: what it comes to, and whether there is another.

use super::{Phase, Supervisor};
use crate::process::child::Ended;
use crate::supervisor::event::{Action, Cause, Outcome, Record, Stopped};
use crate::supervisor::restart::{Attempted, Verdict};
use crate::supervisor::verdict::{Exit, first_cause};
use foxlaunch_shared::exit;
use foxlaunch_shared::protocol::Fault;
use nix::libc::{SIGKILL, SIGTERM};
use std::time::Duration;

impl Supervisor {
    /// Nothing of this attempt is left, or nothing that can be ended.
    pub(super) fn attempt_over(&mut self, now: Duration, unkillable: Vec<String>, todo: &mut Vec<Action>) {
        // What fails after it was asked to stop has stopped; what had failed before is the reason.
        let cause = first_cause(&self.exits).filter(|cause| self.stopped.is_none_or(|(_, at)| cause.at < at));
        let Some(cause) = cause else {
            // Who was to save its state and failed at that cannot be said to go on later.
            let cause = self.failed_to_stop().filter(|_| self.stopped.is_some_and(|(by, _)| by == Stopped::Preempted));
            return self.finish(cause, unkillable, todo);
        };
        // A process that does not end may hold its device: the next attempt would fail there.
        if self.stopped.is_some() || !unkillable.is_empty() {
            return self.finish(Some(cause), unkillable, todo);
        }
        let speaks = self.world.ranks().any(|rank| self.roll.greeted(rank).is_some());
        let place = self.places[cause.rank.index()];
        let (got_ready, checkpoint, workers) = (self.got_ready, self.checkpoint, self.world.0);
        let attempt = Attempted { got_ready, speaks, checkpoint, workers, place };
        match self.restarts.judge(now, &cause, attempt) {
            Verdict::End => self.finish(Some(cause), unkillable, todo),
            Verdict::GiveUp(code, words) => {
                let message = format!("{}; {words}", cause.describe());
                let fault = Some(Fault { message, code, blames: None });
                self.finish(Some(Cause { how: None, fault, ..cause }), unkillable, todo);
            }
            Verdict::Restart { wait, without } => {
                let (used, most) = self.restarts.count();
                let (rank, how) = (cause.rank, cause.describe());
                let shown = crate::plan::duration::show(wait);
                todo.push(Action::Tell(format!("rank {rank} {how}; restart {used} of {most} in {shown}")));
                let (attempt, wait_s) = (self.attempt, wait.as_secs_f64());
                todo.push(Action::Record(Record::Restart { attempt, used, most, wait_s }));
                if let Some(why) = without {
                    self.lose(place, why, todo);
                }
                self.failed = Some(cause);
                self.go_on(now, now + wait, todo);
            }
        }
    }

    /// The first that ended otherwise than one does who was asked to stop: well, by the signal that it was sent, or with
    /// the code that says so.
    fn failed_to_stop(&self) -> Option<Cause> {
        let in_order = |exit: &Exit| {
            let sent = &self.workers[exit.rank.index()].sent;
            let says_so = |code: i32| {
                code == exit::TRY_AGAIN || sent.iter().chain([&SIGTERM]).any(|signal| code == exit::of_signal(*signal))
            };
            exit.clean || exit.by_us || matches!(exit.how, Some(Ended::Code(code)) if says_so(code))
        };
        let failed: Vec<Exit> = self.exits.iter().filter(|exit| !in_order(exit)).cloned().collect();
        first_cause(&failed)
    }

    pub(super) fn finish(&mut self, cause: Option<Cause>, unkillable: Vec<String>, todo: &mut Vec<Action>) {
        self.phase = Phase::Done;
        let stopped_by = self.stopped.map(|(by, _)| by);
        let was_killed = self.workers.iter().any(|worker| worker.sent.contains(&SIGKILL));
        let code = match (&cause, stopped_by) {
            (Some(cause), _) => cause.code(),
            (None, Some(Stopped::Signal(signal))) => exit::of_signal(signal),
            // Killed before it had a checkpoint to go on from, or after: that it is to go on cannot be promised.
            (None, Some(Stopped::Preempted)) if was_killed => exit::of_signal(SIGTERM),
            (None, Some(Stopped::Preempted)) => exit::TRY_AGAIN,
            (None, None) if !unkillable.is_empty() => exit::FAILURE,
            (None, None) => exit::OK,
        };
        let blamed = cause.as_ref().map(|cause| cause.rank);
        let others = self.exits.iter().filter(|exit| !exit.clean && Some(exit.rank) != blamed);
        let others = others.map(|exit| (exit.rank, exit.describe())).collect();
        let attempt = self.attempt;
        todo.push(Action::Record(Record::End { attempt, code }));
        todo.push(Action::Finish(Outcome { attempt, code, cause, stopped_by, others, unkillable }));
    }
}
