//! Starts a worker: its channel, its log, its pipes, and the process on its cores.

use super::{Actor, Input, Running, signs};
use crate::logs::file::LogFile;
use crate::logs::mux::{self, Sinks, Stream};
use crate::plan::environment::{self, AtStart};
use crate::process::command::Program;
use crate::process::{affinity, pipes};
use crate::rendezvous::listener::{Heard, Listener};
use crate::supervisor::event::Event;
use crate::supervisor::steps::{FromPipe, StepPipe};
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::run_dir::RunDir;
use foxlaunch_shared::{env, exit};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;

/// So many messages of one worker may wait for us; it is not read further before we have acted on one.
const MOST_WAITING: usize = 256;
/// Up to so many workers have pipes that hold more: all pipes of a user share one limit.
const FEW_WORKERS: usize = 32;

impl Actor<'_> {
    pub(super) fn spawn(&mut self, attempt: Attempt, rank: Rank) -> Event {
        match self.try_spawn(attempt, rank) {
            Ok(pid) => Event::Spawned { attempt, rank, pid },
            Err(SpawnError::Exec(error)) => {
                let program = self.plan.program.display();
                let (code, why) = match error.kind() {
                    std::io::ErrorKind::NotFound if self.plan.program.is_file() => {
                        let why = "what its first line names (#!), or the loader that it needs, is missing";
                        (exit::NOT_FOUND, format!("{program} cannot be executed: {why}"))
                    }
                    std::io::ErrorKind::NotFound => (exit::NOT_FOUND, format!("{program}: no such program")),
                    std::io::ErrorKind::PermissionDenied => (
                        exit::NOT_EXECUTABLE,
                        format!("{program} cannot be executed: {error}; is its executable bit set (chmod +x)?"),
                    ),
                    _ => (exit::NOT_EXECUTABLE, format!("{program} cannot be executed: {error}")),
                };
                Event::SpawnFailed { attempt, rank, code, why }
            }
            Err(SpawnError::Ours(error)) => {
                Event::SpawnFailed { attempt, rank, code: exit::CANT_CREATE, why: error.to_string() }
            }
        }
    }

    fn try_spawn(&mut self, attempt: Attempt, rank: Rank) -> Result<u32, SpawnError> {
        // Nothing of an earlier attempt is used again: its memory may be half written.
        if self.attempt != attempt {
            self.attempt = attempt;
            self.arena = None;
            self.tails.clear();
        }
        let input = self.input.clone();
        let (place, waiting) = sync_channel(MOST_WAITING);
        let listener = Listener::open(attempt, rank, move |heard| {
            let heard = match heard {
                Heard::Connected(line) => Input::Connected(attempt, rank, line),
                Heard::Closed => Input::Closed(attempt, rank),
                // Without a place the worker is gone, whoever else may still write there.
                Heard::Said(_) | Heard::Refused(_) if place.send(()).is_err() => return false,
                Heard::Said(message) => Input::Event(Event::Said { attempt, rank, message }),
                Heard::Refused(why) => Input::Event(Event::Refused { attempt, rank, why }),
            };
            input.send(heard).is_ok()
        })?;
        let path = RunDir::log(&self.plan.logs, attempt, rank);
        let named = |error| std::io::Error::other(format!("{}: {error}", path.display()));
        let log = Arc::new(LogFile::open(&path, self.plan.outputs.log_limit, self.gauges.logged(rank)).map_err(named)?);
        let steps = if self.plan.own_worker { None } else { Some(self.open_steps(attempt, rank)?) };
        let start = AtStart {
            channel: listener.name.clone(),
            master_port: self.port.as_ref().map(|port| port.number),
            progress: steps.as_ref().map(|pipe| pipe.path.clone()),
        };
        let program = Program {
            program: self.plan.program.clone(),
            args: self.plan.args_of(attempt),
            set: environment::of_worker(&self.plan, rank, attempt, Some(&start)),
            unset: env::inherited_contract().map(str::to_owned).collect(),
        };
        let start = || program.spawn_worker(self.plan.stdin_rank == Some(rank));
        let cores = self.plan.placement.cores[rank.index()].as_ref();
        let mut child: Child = affinity::on_cores(cores, start).map_err(SpawnError::Exec)?;
        let tail = self.tails.entry(rank).or_default().clone();
        let prefix = self.plan.prefix(attempt, rank);
        let is_shown = self.plan.show_ranks.as_ref().is_none_or(|ranks| ranks.contains(&rank));
        let prefix = is_shown.then_some(prefix);
        let sinks = Sinks { log, tail, prefix };
        if self.plan.devices.len() <= FEW_WORKERS {
            pipes::widen_outputs(&child, mux::BLOCK);
        }
        let output = Arc::new(AtomicU64::new(0));
        let outputs: [(Stream, Option<Box<dyn std::io::Read + Send>>); 2] = [
            (Stream::Out, child.stdout.take().map(|pipe| signs::counted(pipe, &output))),
            (Stream::Err, child.stderr.take().map(|pipe| signs::counted(pipe, &output))),
        ];
        for (stream, pipe) in outputs {
            let input = self.input.clone();
            let warn = move |trouble| drop(input.send(Input::Log(attempt, rank, trouble)));
            if let Some(pipe) = pipe {
                self.mux.read(rank, stream, pipe, sinks.clone(), warn)?;
            }
        }
        let (pid, listener) = (child.id(), Some(listener));
        let place = Running { attempt, pid, line: None, listener, steps, waiting, closed: false, output };
        self.running.insert(rank, place);
        Ok(pid)
    }

    /// The pipe for what a program without a channel says of its progress.
    fn open_steps(&self, attempt: Attempt, rank: Rank) -> std::io::Result<StepPipe> {
        let input = self.input.clone();
        StepPipe::open(&tempfile::env::temp_dir(), attempt, rank, move |heard| {
            let _ = input.send(Input::Event(match heard {
                FromPipe::Said(message) => Event::Said { attempt, rank, message },
                FromPipe::Refused(why) => Event::Refused { attempt, rank, why },
            }));
        })
    }
}

enum SpawnError {
    /// The program cannot be executed.
    Exec(std::io::Error),
    /// What we need for it cannot be had.
    Ours(std::io::Error),
}

impl From<std::io::Error> for SpawnError {
    fn from(error: std::io::Error) -> SpawnError {
        SpawnError::Ours(error)
    }
}
