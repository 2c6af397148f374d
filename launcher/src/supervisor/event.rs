//! What happens to a job, and what is done about it: the words between the pure [`super::state`] and the
//! handles in [`super::act`].

use super::health::Signs;
pub use super::record::Record;
use crate::process::child::Ended;
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::{CommId, Display, Fault, FromLauncher, FromWorker, Phase};
use std::time::Duration;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The beginning.
    Begin,
    /// A worker was started.
    Spawned {
        /// In which attempt.
        attempt: Attempt,
        /// Which worker.
        rank: Rank,
        /// Its process.
        pid: u32,
    },
    /// A worker could not be started.
    SpawnFailed {
        /// In which attempt.
        attempt: Attempt,
        /// Which worker.
        rank: Rank,
        /// The exit code that says why.
        code: i32,
        /// Why, in words.
        why: String,
    },
    /// A worker was not started, since the job is ending already.
    NotStarted {
        /// In which attempt.
        attempt: Attempt,
        /// Which worker.
        rank: Rank,
    },
    /// A worker said something.
    Said {
        /// In which attempt.
        attempt: Attempt,
        /// Which worker.
        rank: Rank,
        /// What.
        message: FromWorker,
    },
    /// A frame on a worker's channel was refused.
    Refused {
        /// In which attempt.
        attempt: Attempt,
        /// On whose channel.
        rank: Rank,
        /// Why.
        why: String,
    },
    /// A worker's process ended.
    Exited {
        /// In which attempt.
        attempt: Attempt,
        /// Which worker.
        rank: Rank,
        /// How.
        how: Ended,
    },
    /// A signal reached us.
    Signal(i32),
    /// The answer to [`Action::LookForSigns`]: every worker's signs of life.
    Signs {
        /// In which attempt.
        attempt: Attempt,
        /// Of each worker that runs.
        of: Vec<(Rank, Signs)>,
    },
    /// The answer to [`Action::Survey`] and [`Action::KillAll`]: processes that descend from us and live.
    Left(Vec<String>),
    /// The answer to [`Action::LookAtDevices`].
    Devices {
        /// After which attempt.
        attempt: Attempt,
        /// Places whose device is not there any more, and what the driver says of it.
        lost: Vec<(Rank, String)>,
        /// Devices whose memory is not yet as free as it was before the job, in words.
        held: Vec<(Rank, String)>,
    },
    /// A deadline has come.
    Tick,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The world of `attempt` has fewer workers than the plan: those that had these ranks in the first attempt.
    Form {
        /// In which attempt, and all that follow.
        attempt: Attempt,
        /// For each rank, the rank that it had in the first attempt.
        places: Vec<Rank>,
    },
    /// Ask the driver whether all devices are there and free; [`Event::Devices`] follows.
    LookAtDevices {
        /// After which attempt.
        attempt: Attempt,
    },
    /// Start a worker; [`Event::Spawned`], [`Event::SpawnFailed`] or [`Event::NotStarted`] follows.
    Spawn {
        /// In which attempt.
        attempt: Attempt,
        /// Which worker.
        rank: Rank,
    },
    /// Make the shared memory and welcome all workers.
    Welcome {
        /// In which attempt.
        attempt: Attempt,
        /// Rank 0's id, under NCCL.
        comm_id: Option<CommId>,
        /// How much shared memory; 0 for none.
        arena_bytes: u64,
    },
    /// Tell a worker something.
    Send {
        /// In which attempt.
        attempt: Attempt,
        /// Which worker.
        rank: Rank,
        /// What.
        message: FromLauncher,
    },
    /// Signal a worker's own process.
    Signal {
        /// In which attempt.
        attempt: Attempt,
        /// Which worker.
        rank: Rank,
        /// The signal.
        signal: i32,
    },
    /// Signal everything else that descends from us.
    SignalLeft(i32),
    /// Look for what still lives; [`Event::Left`] follows.
    Survey,
    /// Kill everything that descends from us, for a bounded time; [`Event::Left`] follows.
    KillAll,
    /// Look at what a worker that hangs is doing, for the person and the events.
    Inspect {
        /// In which attempt.
        attempt: Attempt,
        /// Which worker.
        rank: Rank,
    },
    /// Look for signs of life of all workers; [`Event::Signs`] follows.
    LookForSigns {
        /// In which attempt.
        attempt: Attempt,
    },
    /// Show progress.
    Show(Display),
    /// Show what the world is busy with: what rank 0 is.
    ShowPhase(Phase),
    /// Tell the person something.
    Tell(String),
    /// Write a line into the run's events.
    Record(Record),
    /// The job is over.
    Finish(Outcome),
}

/// What made an attempt fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The worker.
    pub rank: Rank,
    /// How it ended; `None` if it never began.
    pub how: Option<Ended>,
    /// What it said about it, or why it could not begin.
    pub fault: Option<Fault>,
    /// When, since the beginning.
    pub at: Duration,
}

/// What asked a job to end, from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A signal: the person's, or the scheduler's last word.
    Signal(i32),
    /// The time limit, or the signal that a scheduler sends ahead of its own: the job is to go on later.
    Preempted,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The number of the last attempt.
    pub attempt: Attempt,
    /// The job's exit code.
    pub code: i32,
    /// What failed first, if anything did.
    pub cause: Option<Cause>,
    /// What asked for the end, if anything did.
    pub stopped_by: Option<Stopped>,
    /// How the other workers ended, where not well.
    pub others: Vec<(Rank, String)>,
    /// Processes that do not end, even when killed.
    pub unkillable: Vec<String>,
}
