//! Ending an attempt before its time: who is asked, who is told, who is killed, and by when.

use super::{KILL_WAIT, MARGIN, Phase, Supervisor};
use crate::supervisor::event::{Action, Record, Stopped};
use foxlaunch_shared::ids::Rank;
use foxlaunch_shared::protocol::FromLauncher;
use nix::libc::{SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
use std::time::Duration;

impl Supervisor {
    /// Stops all others, since `rank` is lost to them.
    pub(super) fn stop_peers(&mut self, now: Duration, rank: Rank, how: &str, todo: &mut Vec<Action>) {
        let deadline = now + self.settings.peer_grace;
        self.phase = Phase::Stopping { deadline, killed: false };
        let attempt = self.attempt;
        for other in self.running() {
            match self.roll.greeted(other) {
                Some(_) if other != rank => {
                    let message = FromLauncher::PeerLost { rank, how: how.to_owned() };
                    todo.push(Action::Send { attempt, rank: other, message });
                }
                _ => self.send_signal(other, SIGTERM, todo),
            }
        }
    }

    pub(super) fn send_signal(&mut self, rank: Rank, signal: i32, todo: &mut Vec<Action>) {
        let attempt = self.attempt;
        // A stopped process acts on nothing else until it is continued.
        todo.push(Action::Signal { attempt, rank, signal: SIGCONT });
        todo.push(Action::Signal { attempt, rank, signal });
        self.workers[rank.index()].sent.push(signal);
    }

    pub(super) fn ask_to_stop(&mut self, now: Duration, rank: Rank, deadline: Duration, todo: &mut Vec<Action>) {
        let attempt = self.attempt;
        if self.roll.greeted(rank) == Some(true) {
            let within_ms = deadline.saturating_sub(now).saturating_sub(MARGIN).as_millis() as u64;
            todo.push(Action::Send { attempt, rank, message: FromLauncher::Stop { within_ms } });
        } else {
            let signal = match self.stopped {
                Some((Stopped::Signal(signal), _)) => signal,
                _ => SIGTERM,
            };
            self.send_signal(rank, signal, todo);
        }
    }

    pub(super) fn kill(&mut self, rank: Rank, todo: &mut Vec<Action>) {
        let attempt = self.attempt;
        todo.push(Action::Record(Record::Kill { attempt, rank }));
        todo.push(Action::Signal { attempt, rank, signal: SIGKILL });
        self.workers[rank.index()].sent.push(SIGKILL);
    }

    pub(super) fn kill_running(&mut self, now: Duration, todo: &mut Vec<Action>) {
        self.phase = Phase::Stopping { deadline: now + KILL_WAIT, killed: true };
        for rank in self.running() {
            self.kill(rank, todo);
        }
    }

    pub(super) fn signal(&mut self, now: Duration, signal: i32, todo: &mut Vec<Action>) {
        todo.push(Action::Record(Record::Signal { attempt: self.attempt, signal }));
        if self.settings.checkpoint_signal == Some(signal) {
            self.ask_all_to_stop(now, Stopped::Preempted, todo);
        } else if signal == SIGHUP {
            // Of a terminal that is closed it comes twice, from the kernel and from the shell.
            self.ask_all_to_stop(now, Stopped::Signal(signal), todo);
        } else if [SIGINT, SIGTERM, SIGQUIT].contains(&signal) {
            let again = std::mem::replace(&mut self.asked, true);
            let is_ending = self.stopped.is_some();
            self.ask_all_to_stop(now, Stopped::Signal(signal), todo);
            match (is_ending, again) {
                (true, true) => self.end_now(now, todo),
                (true, false) => todo.push(Action::Tell(
                    "the workers have been asked to stop already; once more kills them now".to_owned(),
                )),
                (false, _) => {}
            }
        } else {
            // Our own trainers have no use for other signals, and would die of them.
            let attempt = self.attempt;
            let others = self.running().into_iter().filter(|rank| self.roll.greeted(*rank) != Some(true));
            todo.extend(others.map(|rank| Action::Signal { attempt, rank, signal }).collect::<Vec<_>>());
        }
    }

    pub(super) fn ask_all_to_stop(&mut self, now: Duration, by: Stopped, todo: &mut Vec<Action>) {
        let is_new = self.stopped.is_none();
        self.stopped = self.stopped.or(Some((by, now)));
        match self.phase {
            // While a failure is being cleaned up: now.
            Phase::Stopping { .. } | Phase::Sweeping { .. } if is_new => self.end_now(now, todo),
            Phase::Waiting { .. } | Phase::Checking { .. } => {
                // Time that is up between two attempts is a reason to go on later only where there is something to go on
                // from.
                let failed = self.failed.take();
                let cause = failed.filter(|_| by == Stopped::Preempted && self.checkpoint.is_none());
                self.finish(cause, Vec::new(), todo);
            }
            Phase::Running => {
                let deadline = now + self.settings.grace;
                self.phase = Phase::Stopping { deadline, killed: false };
                let within_ms = self.settings.grace.as_millis() as u64;
                todo.push(Action::Record(Record::Stop { attempt: self.attempt, within_ms }));
                let why = if by == Stopped::Preempted { "time is up: " } else { "" };
                let again = if self.asked { "once more" } else { "Ctrl-C twice" };
                todo.push(Action::Tell(format!(
                    "{why}stopping the workers, at most {}; {again} kills them now",
                    crate::plan::duration::show(self.settings.grace)
                )));
                for rank in self.running() {
                    self.ask_to_stop(now, rank, deadline, todo);
                }
            }
            Phase::Stopping { .. } | Phase::Sweeping { .. } | Phase::Done => {}
        }
    }

    /// No more waiting: what runs is killed.
    fn end_now(&mut self, now: Duration, todo: &mut Vec<Action>) {
        match self.phase {
            Phase::Stopping { killed: false, .. } => self.kill_running(now, todo),
            Phase::Sweeping { ref mut deadline, .. } => *deadline = now,
            _ => {}
        }
    }
}
