//! What workers say of themselves, and what their ends mean in the light of it.

use super::{Exit, Supervisor};
use crate::process::child::Ended;
use crate::supervisor::event::{Action, Record};
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::Rank;
use foxlaunch_shared::protocol::{Fault, FromWorker};
use nix::libc::SIGKILL;
use std::time::Duration;

impl Supervisor {
    pub(super) fn said(&mut self, now: Duration, rank: Rank, message: FromWorker, todo: &mut Vec<Action>) {
        let attempt = self.attempt;
        let worker = &mut self.workers[rank.index()];
        match message {
            FromWorker::Hello(hello) => match self.roll.hello(rank, hello) {
                Ok(welcome) => {
                    self.health.hello(now, rank);
                    todo.push(Action::Record(Record::Hello { attempt, rank }));
                    if let Some(welcome) = welcome {
                        let (comm_id, arena_bytes) = (welcome.comm_id, welcome.arena_bytes);
                        todo.push(Action::Record(Record::Welcome { attempt, arena_bytes }));
                        todo.push(Action::Welcome { attempt, comm_id, arena_bytes });
                    }
                }
                Err(why) => {
                    // It would wait for a welcome that never comes.
                    todo.push(Action::Record(Record::Refused { attempt, rank, why: why.clone() }));
                    worker.fault = Some(Fault { message: why, code: exit::SOFTWARE, blames: None });
                    todo.push(Action::Signal { attempt, rank, signal: SIGKILL });
                }
            },
            FromWorker::Ready => {
                self.got_ready = true;
                todo.push(Action::Record(Record::Ready { attempt, rank }));
            }
            FromWorker::Progress { step, collectives, phase, display } => {
                let stood = self.health.beat(now, rank, step, collectives, phase);
                if step > 0 && !worker.stepped {
                    worker.stepped = true;
                    todo.push(Action::Record(Record::FirstStep { attempt, rank }));
                }
                todo.extend(display.map(Action::Show));
                if rank == Rank(0) && phase != self.shown {
                    self.shown = phase;
                    todo.push(Action::ShowPhase(phase));
                }
                self.goes_on(rank, stood, todo);
            }
            FromWorker::Checkpointed { step, path } => {
                self.checkpoint = self.checkpoint.max(Some(step));
                todo.push(Action::Record(Record::Checkpoint { attempt, rank, step, path }));
            }
            FromWorker::Note(text) => {
                todo.push(Action::Tell(format!("rank {rank}: {text}")));
                todo.push(Action::Record(Record::Note { attempt, rank, text }));
            }
            FromWorker::Fault(fault) => {
                let (message, code) = (fault.message.clone(), fault.code);
                todo.push(Action::Record(Record::Fault { attempt, rank, message, code }));
                worker.fault = Some(fault);
            }
            FromWorker::Bye => worker.said_bye = true,
        }
    }

    pub(super) fn exit_of(&self, now: Duration, rank: Rank, how: Ended) -> Exit {
        let worker = &self.workers[rank.index()];
        let mut fault = worker.fault.clone();
        // A worker of a world that ends without goodbye has left the others waiting, whatever code it gives.
        let left_early = how.is_success() && self.roll.greeted(rank).is_some() && !worker.said_bye;
        if left_early && fault.is_none() && self.stopped.is_none() {
            let message = "left without saying goodbye, while the others may wait for it".to_owned();
            fault = Some(Fault { message, code: exit::FAILURE, blames: None });
        }
        let clean = how.is_success() && fault.is_none();
        let by_us = matches!(how, Ended::Signal(signal) if worker.sent.contains(&signal));
        Exit { rank, how: Some(how), fault, at: now, by_us, clean }
    }
}
