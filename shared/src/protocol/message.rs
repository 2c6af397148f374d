//! Every message between launcher and worker. Each variant says who sends it and when.

use crate::ids::{Rank, WorldSize};
use serde::{Deserialize, Serialize};

/// The 128 bytes from which NCCL forms one communicator. Made by rank 0, used once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommId(pub Vec<u8>);

impl std::fmt::Debug for CommId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CommId({} bytes)", self.0.len())
    }
}

/// What gradients travel over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Nothing: a world of one.
    Solo,
    /// Shared memory between processes of one host.
    Shm,
    /// NCCL between NVIDIA devices.
    Nccl,
}

/// Where the shared memory of this attempt is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArenaPlace {
    /// A path to open for reading and writing; valid while the supervisor lives.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A worker's first words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The worker's process.
    pub pid: u32,
    /// How many workers it was told there are.
    pub world_size: WorldSize,
    /// What it wants to average over.
    pub transport: Transport,
    /// How much shared memory it wants; the largest wish is granted to all.
    pub arena_bytes: u64,
    /// From rank 0 under NCCL: the id that all ranks form their communicator from.
    pub comm_id: Option<CommId>,
    /// Whether it stops in order when sent [`FromLauncher::Stop`]; others are sent SIGTERM.
    pub stops_when_told: bool,
}

/// What a worker is busy with. Each phase has a time limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the first step.
    Init,
    /// Training.
    Step,
    /// Writing a checkpoint.
    Checkpoint,
    /// Evaluating.
    Evaluate,
}

/// What the progress line shows of a worker's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Display {
    /// Which part of the work this is, as `fold 1/3`; may be empty.
    pub part: String,
    /// Steps done, over all parts.
    pub done: u64,
    /// Steps to do, over all parts; 0 where unknown.
    pub total: u64,
    /// Named values to show, in order, as `loss` and `return`.
    pub values: Vec<(String, f64)>,
}

/// A worker's error in a form that can be sorted and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What went wrong, with where and what to do.
    pub message: String,
    /// The code with which the worker is about to exit.
    pub code: i32,
    /// The rank that this worker blames, if it failed because another one did.
    pub blames: Option<Rank>,
}

/// Sent by a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// Once, first.
    Hello(Hello),
    /// Once, when its collective stands.
    Ready,
    /// As often as it likes, with counters that only grow.
    Progress {
        /// Optimiser steps done.
        step: u64,
        /// Collective calls entered.
        collectives: u64,
        /// What it is busy with.
        phase: Phase,
        /// What to show; usually from rank 0 only.
        display: Option<Display>,
    },
    /// After a checkpoint became the latest.
    Checkpointed {
        /// The optimiser step it holds.
        step: u64,
        /// Its folder.
        path: String,
    },
    /// A line that a person should read.
    Note(String),
    /// Just before it exits with a failure.
    Fault(Fault),
    /// Just before it exits well.
    Bye,
}

/// Sent by the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromLauncher {
    /// Once, when every worker has said hello.
    Welcome {
        /// Rank 0's id, under NCCL.
        comm_id: Option<CommId>,
        /// The shared memory, where any worker asked for some.
        arena: Option<ArenaPlace>,
    },
    /// Another worker is gone: leave collectives and exit.
    PeerLost {
        /// Who is gone.
        rank: Rank,
        /// How it ended, in words.
        how: String,
    },
    /// Write a checkpoint and exit within this many milliseconds.
    Stop {
        /// Time left until the kill.
        within_ms: u64,
    },
}
