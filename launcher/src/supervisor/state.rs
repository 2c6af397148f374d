//! The heart: what is done when something happens. Pure: it holds no handle and reads no clock.
//!
//! ```text
//! Running --all ended well------------------------------> Sweeping --nothing lives--> Done
//!    |----a worker failed or hangs: stop the others----> Stopping --all ended----^ `--failed--> Checking --> Waiting --> Running
//!    `----asked to end: ask all to stop----------------> Stopping --deadline: kill
//! ```
//!
//! The world ends as one: a rank that is gone leaves the others inside a collective, so any loss stops all. What
//! ended first, by itself, is the cause; what ended because of it is not.

mod ending;
mod going_on;
mod hearing;
mod stopping;
mod watching;

use super::event::{Action, Cause, Event, Record, Stopped};
use super::health::{self, Health};
use super::restart::{self, Restarts};
use super::verdict::Exit;
use crate::rendezvous::roll_call::RollCall;
use foxlaunch_shared::ids::{Attempt, Rank, WorldSize};
use foxlaunch_shared::protocol::{self, Fault};
use nix::libc::SIGTERM;
use std::time::Duration;

/// What does not change during a job.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many workers there are, at first.
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
    /// Whether the driver can be asked about the workers' devices before a restart.
    pub asks_driver: bool,
    /// The signal that asks for a checkpoint and an end, to go on later.
    pub checkpoint_signal: Option<i32>,
    /// The job's time; it is asked to end one grace before.
    pub time_limit: Option<Duration>,
}

/// How long a killed process may take to be gone before we stop waiting for it.
const KILL_WAIT: Duration = Duration::from_secs(3);
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
    /// The same, while it is not known yet whether the devices are there and free.
    Checking {
        until: Duration,
        give_up: Duration,
        next_look: Duration,
        told: bool,
    },
    Done,
}

/// One job.
#[derive(Debug)]
pub struct Supervisor {
    settings: Settings,
    attempt: Attempt,
    world: WorldSize,
    /// For each rank, the rank that it had in the first attempt: another one once a place is lost.
    places: Vec<Rank>,
    phase: Phase,
    workers: Vec<Worker>,
    roll: RollCall,
    exits: Vec<Exit>,
    health: Health,
    restarts: Restarts,
    /// The step of the newest checkpoint.
    checkpoint: Option<u64>,
    got_ready: bool,
    /// What the screen shows the world to be busy with.
    shown: protocol::Phase,
    /// What asked for the end, and when.
    stopped: Option<(Stopped, Duration)>,
    /// Someone has asked by a signal that means "now" when it comes again.
    asked: bool,
    /// Why the attempt before failed, while the next has not begun.
    failed: Option<Cause>,
}

impl Supervisor {
    /// A job that has not begun.
    pub fn new(settings: Settings) -> Supervisor {
        Supervisor {
            attempt: settings.attempt,
            world: settings.world,
            places: settings.world.ranks().collect(),
            phase: Phase::Running,
            workers: vec![Worker::default(); settings.world.index()],
            roll: RollCall::new(settings.world),
            exits: Vec::new(),
            health: Health::new(settings.health, settings.world, Duration::ZERO),
            shown: protocol::Phase::Init,
            restarts: Restarts::new(settings.restarts),
            checkpoint: None,
            got_ready: false,
            stopped: None,
            asked: false,
            failed: None,
            settings,
        }
    }

    /// Starts all workers, of the first attempt or of another.
    fn begin(&mut self, now: Duration, todo: &mut Vec<Action>) {
        let (attempt, world) = (self.attempt, self.world);
        self.phase = Phase::Running;
        self.failed = None;
        self.workers = vec![Worker::default(); world.index()];
        self.roll = RollCall::new(world);
        self.exits.clear();
        self.health = Health::new(self.settings.health, world, now);
        self.shown = protocol::Phase::Init;
        self.got_ready = false;
        todo.push(Action::Record(Record::Begin { attempt, world_size: world.0 }));
        if world != self.settings.world {
            todo.push(Action::Form { attempt, places: self.places.clone() });
        }
        todo.extend(world.ranks().map(|rank| Action::Spawn { attempt, rank }));
    }

    /// When [`Event::Tick`] is due, if nothing happens before.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running => self.health.deadline().into_iter().chain(self.time_is_near()).min(),
            Phase::Stopping { deadline, .. } => Some(deadline),
            Phase::Sweeping { next_survey, .. } => Some(next_survey),
            Phase::Waiting { until } => Some(until).into_iter().chain(self.time_is_near()).min(),
            Phase::Checking { next_look, .. } => Some(next_look).into_iter().chain(self.time_is_near()).min(),
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
            Event::Begin => self.begin(now, &mut todo),
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
            Event::Signs { attempt, of } if attempt == self.attempt && self.phase == Phase::Running => {
                self.signs(now, of, &mut todo);
            }
            Event::Devices { attempt, lost, held } if attempt == self.attempt => {
                self.devices(now, lost, held, &mut todo);
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
            | Event::Signs { .. }
            | Event::Devices { .. }
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
        self.world.ranks().filter(is_running).collect()
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

    fn tick(&mut self, now: Duration, todo: &mut Vec<Action>) {
        match self.phase {
            Phase::Running | Phase::Waiting { .. } | Phase::Checking { .. }
                if self.time_is_near().is_some_and(|at| now >= at) =>
            {
                self.ask_all_to_stop(now, Stopped::Preempted, todo);
            }
            Phase::Running => self.look(now, todo),
            Phase::Waiting { until } if now >= until => self.next_attempt(now, todo),
            Phase::Checking { next_look, .. } if now >= next_look => self.look_at_devices(now, todo),
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
