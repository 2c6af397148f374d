//! The heart: what is done when something happens. Pure: it holds no handle and reads no clock.
//!
//! ```text
//! Running --all ended well------------------------------> Sweeping --nothing lives--> Done
//!    |----a worker failed or hangs: stop the others----> Stopping --all ended----^ `--failed--> Waiting --> Running
//!    `----asked to end: ask all to stop----------------> Stopping --deadline: kill
//! ```
//!
//! The world ends as one: a rank that is gone leaves the others inside a collective, so any loss stops all. What
//! ended first, by itself, is the cause; what ended because of it is not.

mod ending;

use super::event::{Action, Event, Record, Stopped};
use super::health::{self, Health};
use super::restart::{self, Restarts};
use super::verdict::Exit;
use crate::process::child::Ended;
use crate::rendezvous::roll_call::RollCall;
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::{Attempt, Rank, WorldSize};
use foxlaunch_shared::protocol::{Fault, FromLauncher, FromWorker};
use nix::libc::{SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
use std::time::Duration;

/// What does not change during a job.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many workers there are.
    pub world: WorldSize,
    /// The number of the first attempt.
    pub attempt: Attempt,
    /// Time to stop in order when asked from outside.
    pub grace: Duration,
    /// Time to stop in order when another worker has failed.
    pub peer_grace: Duration,
    /// How long ranks may take.
    pub health: health::Policy,
    /// Whether a world that failed is started again.
    pub restarts: restart::Policy,
    /// The signal that asks for a checkpoint and an end, to go on later.
    pub checkpoint_signal: Option<i32>,
    /// The job's time; it is asked to end one grace before.
    pub time_limit: Option<Duration>,
}

/// How long a killed process may take to be gone before we stop waiting for it.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// Time for what a worker left behind to end when asked, after a job that ended well.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
/// How often we look whether what was left behind is gone.
const SURVEY_EVERY: Duration = Duration::from_millis(10);
/// How much earlier than the kill a worker is told its time is up: it has to notice.
const MARGIN: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Default, PartialEq)]
enum Life {
    /// Not started yet.
    #[default]
    Waiting,
    /// Running, as far as we know.
    Running,
    /// Ended, or never begun.
    Gone,
}

#[derive(Clone, Debug, Default)]
struct Worker {
    life: Life,
    said_bye: bool,
    stepped: bool,
    fault: Option<Fault>,
    /// Signals that we sent it: a death by one of them is no one's fault.
    sent: Vec<i32>,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Running,
    /// Waiting for the workers to end. `killed` once they were killed.
    Stopping {
        deadline: Duration,
        killed: bool,
    },
    /// The workers are gone; what they started may not be.
    Sweeping {
        deadline: Duration,
        asked: bool,
        next_survey: Duration,
    },
    /// Between two attempts.
    Waiting {
        until: Duration,
    },
    Done,
}

/// One job.
#[derive(Debug)]
pub struct Supervisor {
    settings: Settings,
    attempt: Attempt,
    phase: Phase,
    workers: Vec<Worker>,
    roll: RollCall,
    exits: Vec<Exit>,
    health: Health,
    restarts: Restarts,
    /// The step of the newest checkpoint.
    checkpoint: Option<u64>,
    got_ready: bool,
    /// What asked for the end, and when.
    stopped: Option<(Stopped, Duration)>,
}

impl Supervisor {
    /// A job that has not begun.
    pub fn new(settings: Settings) -> Supervisor {
        Supervisor {
            attempt: settings.attempt,
            phase: Phase::Running,
            workers: vec![Worker::default(); settings.world.index()],
            roll: RollCall::new(settings.world),
            exits: Vec::new(),
            health: Health::new(settings.health, settings.world),
            restarts: Restarts::new(settings.restarts),
            checkpoint: None,
            got_ready: false,
            stopped: None,
            settings,
        }
    }

    /// Starts all workers, of the first attempt or of another.
    fn begin(&mut self, todo: &mut Vec<Action>) {
        let (attempt, world) = (self.attempt, self.settings.world);
        self.phase = Phase::Running;
        self.workers = vec![Worker::default(); world.index()];
        self.roll = RollCall::new(world);
        self.exits.clear();
        self.health = Health::new(self.settings.health, world);
        self.got_ready = false;
        todo.push(Action::Record(Record::Begin { attempt, world_size: world.0 }));
        todo.extend(world.ranks().map(|rank| Action::Spawn { attempt, rank }));
    }

    /// When [`Event::Tick`] is due, if nothing happens before.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running => self.health.deadline().into_iter().chain(self.time_is_near()).min(),
            Phase::Stopping { deadline, .. } => Some(deadline),
            Phase::Sweeping { next_survey, .. } => Some(next_survey),
            Phase::Waiting { until } => Some(until),
            Phase::Done => None,
        }
    }

    /// When the job must be asked to end, to be gone before its time is.
    fn time_is_near(&self) -> Option<Duration> {
        self.settings.time_limit.map(|limit| limit.saturating_sub(self.settings.grace))
    }

    /// Whether this attempt is being ended, so that no more of it is to be started.
    pub fn is_ending(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Whether the job is over and nothing more will be done.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// What to do about `event`, which happened at `now` since the beginning.
    pub fn on(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut todo = Vec::new();
        if self.is_done() {
            return todo;
        }
        match event {
            Event::Begin => self.begin(&mut todo),
            Event::Spawned { attempt, rank, pid } if self.knows(attempt, rank) => {
                todo.push(Action::Record(Record::Spawn { attempt, rank, pid }));
                self.workers[rank.index()].life = Life::Running;
                if let Phase::Stopping { deadline, killed } = self.phase {
                    // The end was decided while it was being started.
                    if killed {
                        self.kill(rank, &mut todo);
                    } else {
                        self.ask_to_stop(now, rank, deadline, &mut todo);
                    }
                }
            }
            Event::SpawnFailed { attempt, rank, code, why } if self.knows(attempt, rank) => {
                todo.push(Action::Record(Record::SpawnFailed { attempt, rank, code, why: why.clone() }));
                let fault = Some(Fault { message: format!("could not be started: {why}"), code, blames: None });
                self.gone(now, Exit { rank, how: None, fault, at: now, by_us: false, clean: false }, &mut todo);
            }
            Event::NotStarted { attempt, rank } if self.knows(attempt, rank) => {
                self.workers[rank.index()].life = Life::Gone;
                self.sweep_if_all_gone(now, &mut todo);
            }
            Event::Said { attempt, rank, message } if self.is_running(attempt, rank) => {
                self.said(now, rank, message, &mut todo);
            }
            Event::Refused { attempt, rank, why } if self.knows(attempt, rank) => {
                todo.push(Action::Tell(format!("a message on the channel of rank {rank} was refused: {why}")));
                todo.push(Action::Record(Record::Refused { attempt, rank, why }));
            }
            Event::Exited { attempt, rank, how } if self.is_running(attempt, rank) => {
                let (text, code) = (how.to_string(), how.exit_code());
                todo.push(Action::Record(Record::Exit { attempt, rank, how: text, code }));
                let exit = self.exit_of(now, rank, how);
                self.gone(now, exit, &mut todo);
            }
            Event::Signal(signal) => self.signal(now, signal, &mut todo),
            Event::Left(processes) => self.left(now, processes, &mut todo),
            Event::Tick => self.tick(now, &mut todo),
            // of an attempt that is over, or of a worker that is gone
            Event::Spawned { .. }
            | Event::SpawnFailed { .. }
            | Event::NotStarted { .. }
            | Event::Said { .. }
            | Event::Refused { .. }
            | Event::Exited { .. } => {}
        }
        todo
    }

    fn knows(&self, attempt: Attempt, rank: Rank) -> bool {
        attempt == self.attempt && self.workers.get(rank.index()).is_some_and(|worker| worker.life != Life::Gone)
    }

    fn is_running(&self, attempt: Attempt, rank: Rank) -> bool {
        self.knows(attempt, rank) && self.workers[rank.index()].life == Life::Running
    }

    fn running(&self) -> Vec<Rank> {
        let is_running = |rank: &Rank| self.workers[rank.index()].life == Life::Running;
        self.settings.world.ranks().filter(is_running).collect()
    }

    fn said(&mut self, now: Duration, rank: Rank, message: FromWorker, todo: &mut Vec<Action>) {
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
                self.health.beat(now, rank, step, collectives, phase);
                if step > 0 && !worker.stepped {
                    worker.stepped = true;
                    todo.push(Action::Record(Record::FirstStep { attempt, rank }));
                }
                todo.extend(display.map(Action::Show));
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

    fn exit_of(&self, now: Duration, rank: Rank, how: Ended) -> Exit {
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

    /// A worker is no more.
    fn gone(&mut self, now: Duration, exit: Exit, todo: &mut Vec<Action>) {
        let (rank, clean) = (exit.rank, exit.clean);
        let how = match (&exit.fault, exit.how) {
            (_, Some(how)) => how.to_string(),
            (Some(fault), None) => fault.message.clone(),
            (None, None) => "could not be started".to_owned(),
        };
        self.workers[rank.index()].life = Life::Gone;
        self.health.gone(rank);
        self.exits.push(exit);
        if self.phase == Phase::Running && !clean {
            self.stop_peers(now, rank, &how, todo);
        }
        self.sweep_if_all_gone(now, todo);
    }

    fn sweep_if_all_gone(&mut self, now: Duration, todo: &mut Vec<Action>) {
        if self.workers.iter().all(|worker| worker.life == Life::Gone) {
            // What is left of the grace belongs to what the workers started, if someone asked for an orderly end.
            let grace = match self.phase {
                Phase::Stopping { deadline, killed: false } if self.stopped.is_some() => deadline.saturating_sub(now),
                Phase::Stopping { killed: true, .. } => Duration::ZERO,
                _ => LEFTOVER_GRACE,
            };
            self.phase = Phase::Sweeping { deadline: now + grace, asked: false, next_survey: now + SURVEY_EVERY };
            todo.push(Action::Survey);
        }
    }

    /// Stops all others, since `rank` is lost to them.
    fn stop_peers(&mut self, now: Duration, rank: Rank, how: &str, todo: &mut Vec<Action>) {
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

    /// A rank stands still: it is the cause, whatever ends next.
    fn hangs(&mut self, now: Duration, finding: health::Finding, todo: &mut Vec<Action>) {
        let (attempt, rank, words) = (self.attempt, finding.behind, finding.words);
        todo.push(Action::Record(Record::Hang { attempt, rank, words: words.clone() }));
        todo.push(Action::Tell(format!("rank {rank} hangs: {words}")));
        todo.push(Action::Inspect { attempt, rank });
        let fault = Some(Fault { message: format!("hangs: {words}"), code: exit::HANG, blames: None });
        self.exits.push(Exit { rank, how: None, fault, at: now, by_us: false, clean: false });
        self.stop_peers(now, rank, &words, todo);
    }

    fn send_signal(&mut self, rank: Rank, signal: i32, todo: &mut Vec<Action>) {
        let attempt = self.attempt;
        // A stopped process acts on nothing else until it is continued.
        todo.push(Action::Signal { attempt, rank, signal: SIGCONT });
        todo.push(Action::Signal { attempt, rank, signal });
        self.workers[rank.index()].sent.push(signal);
    }

    fn ask_to_stop(&mut self, now: Duration, rank: Rank, deadline: Duration, todo: &mut Vec<Action>) {
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

    fn kill(&mut self, rank: Rank, todo: &mut Vec<Action>) {
        let attempt = self.attempt;
        todo.push(Action::Record(Record::Kill { attempt, rank }));
        todo.push(Action::Signal { attempt, rank, signal: SIGKILL });
        self.workers[rank.index()].sent.push(SIGKILL);
    }

    fn kill_running(&mut self, now: Duration, todo: &mut Vec<Action>) {
        self.phase = Phase::Stopping { deadline: now + KILL_WAIT, killed: true };
        for rank in self.running() {
            self.kill(rank, todo);
        }
    }

    fn signal(&mut self, now: Duration, signal: i32, todo: &mut Vec<Action>) {
        todo.push(Action::Record(Record::Signal { attempt: self.attempt, signal }));
        if self.settings.checkpoint_signal == Some(signal) {
            self.ask_all_to_stop(now, Stopped::Preempted, todo);
        } else if [SIGINT, SIGTERM, SIGQUIT, SIGHUP].contains(&signal) {
            self.ask_all_to_stop(now, Stopped::Signal(signal), todo);
        } else {
            // Our own trainers have no use for other signals, and would die of them.
            let attempt = self.attempt;
            let others = self.running().into_iter().filter(|rank| self.roll.greeted(*rank) != Some(true));
            todo.extend(others.map(|rank| Action::Signal { attempt, rank, signal }).collect::<Vec<_>>());
        }
    }

    fn ask_all_to_stop(&mut self, now: Duration, by: Stopped, todo: &mut Vec<Action>) {
        self.stopped = self.stopped.or(Some((by, now)));
        match self.phase {
            // Asked twice, or while a failure is being cleaned up: now.
            Phase::Stopping { killed: false, .. } => self.kill_running(now, todo),
            Phase::Sweeping { ref mut deadline, .. } => *deadline = now,
            Phase::Waiting { .. } => self.finish(None, Vec::new(), todo),
            Phase::Running => {
                let deadline = now + self.settings.grace;
                self.phase = Phase::Stopping { deadline, killed: false };
                let within_ms = self.settings.grace.as_millis() as u64;
                todo.push(Action::Record(Record::Stop { attempt: self.attempt, within_ms }));
                let why = if by == Stopped::Preempted { "time is up: " } else { "" };
                todo.push(Action::Tell(format!(
                    "{why}stopping the workers, at most {}; once more kills them now",
                    crate::plan::duration::show(self.settings.grace)
                )));
                for rank in self.running() {
                    self.ask_to_stop(now, rank, deadline, todo);
                }
            }
            Phase::Stopping { .. } | Phase::Done => {}
        }
    }

    fn tick(&mut self, now: Duration, todo: &mut Vec<Action>) {
        match self.phase {
            Phase::Running if self.time_is_near().is_some_and(|at| now >= at) => {
                self.ask_all_to_stop(now, Stopped::Preempted, todo);
            }
            Phase::Running => {
                if let Some(finding) = self.health.overdue(now) {
                    self.hangs(now, finding, todo);
                }
            }
            Phase::Waiting { until } if now >= until => {
                self.attempt = self.attempt.next();
                self.begin(todo);
            }
            Phase::Stopping { deadline, killed: false } if now >= deadline => {
                for rank in self.running() {
                    todo.push(Action::Tell(format!("rank {rank} did not stop in time and is killed")));
                }
                self.kill_running(now, todo);
            }
            // Killed, and still there: stuck in the kernel. We do not wait for ever.
            Phase::Stopping { deadline, killed: true } if now >= deadline => todo.push(Action::KillAll),
            Phase::Sweeping { deadline, ref mut next_survey, .. } => {
                *next_survey = now + SURVEY_EVERY;
                todo.push(if now >= deadline { Action::KillAll } else { Action::Survey });
            }
            _ => {}
        }
    }

    fn left(&mut self, now: Duration, processes: Vec<String>, todo: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Sweeping { deadline, asked, .. } if !processes.is_empty() => {
                if !*asked {
                    *asked = true;
                    let list = processes.join(", ");
                    todo.push(Action::Record(Record::Leftovers {
                        attempt: self.attempt,
                        processes: processes.clone(),
                    }));
                    todo.push(Action::Tell(format!("the workers left processes behind, which are ended: {list}")));
                    todo.push(Action::SignalLeft(SIGTERM));
                } else if now >= *deadline + KILL_WAIT {
                    self.attempt_over(now, processes, todo);
                }
            }
            Phase::Sweeping { .. } => self.attempt_over(now, processes, todo),
            Phase::Stopping { deadline, killed: true } if now >= *deadline => self.attempt_over(now, processes, todo),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
