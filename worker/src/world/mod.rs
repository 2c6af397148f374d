//! Which process of the world this is, its device, its collective, and its line to the launcher.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut world = foxlaunch_worker::world::World::join()?;
//! println!("rank {} of {} on {:?}", world.rank(), world.world_size(), world.device());
//! world.collective().barrier()?;
//! world.leave();
//! # Ok(())
//! # }
//! ```

mod channel;
mod contract;
mod device;
mod pulse;
#[cfg(test)]
mod tests;

use crate::collectives::{AbortFlag, Collective, CollectiveError, Shm, Solo};
use candle_core::Device;
use channel::Line;
use contract::Contract;
use foxlaunch_shared::ids::{Attempt, Rank, WorldSize};
use foxlaunch_shared::protocol::{CommId, Display, Fault, FromWorker, Hello, Phase, Transport};
use foxlaunch_shared::run_dir::RunDir;
use pulse::{Counted, Pulse};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long the other workers may take to say hello. The launcher has a limit of its own, usually shorter.
const WELCOME_WITHIN: Duration = Duration::from_secs(120);
/// How long one collective call may last, unless [`WorldBuilder::collective_timeout`] says otherwise.
const COLLECTIVE_WITHIN: Duration = Duration::from_secs(30 * 60);
/// Between two progress reports of one phase.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// How long last words may take.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(1);

/// Why a process could not join its world.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WorldError {
    /// A variable of the worker contract is malformed.
    #[error("{name}={value:?} in the environment: {why}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it should hold.
        why: String,
    },
    /// A variable of the worker contract is not set, though there is a channel to a launcher.
    #[error(
        "{name} is not set in the environment, but FOXLAUNCH_CHANNEL is: start this program through foxlaunch, or unset both"
    )]
    Missing {
        /// Its name.
        name: &'static str,
    },
    /// The launcher's channel does not answer.
    #[error("cannot connect to the launcher's channel {name:?}: {why}")]
    Connect {
        /// The channel.
        name: String,
        /// What the operating system said.
        why: String,
    },
    /// The launcher ended.
    #[error("the launcher is gone")]
    LauncherGone,
    /// The other workers did not come.
    #[error("not all workers said hello within {0} s")]
    NoWelcome(u64),
    /// The launcher said something that it should not.
    #[error("the launcher's answer makes no sense: {0}")]
    Unwelcome(String),
    /// Another worker ended before the world stood.
    #[error("rank {rank} ended before the world stood: {how}")]
    PeerLost {
        /// Who.
        rank: Rank,
        /// How, in words.
        how: String,
    },
    /// The device cannot be used.
    #[error("{0}")]
    Device(String),
    /// The collective could not be formed.
    #[error("the collective could not be formed: {0}")]
    Collective(#[from] CollectiveError),
}

impl WorldError {
    fn variable(name: &'static str, value: &str, why: &str) -> WorldError {
        WorldError::Variable { name, value: value.to_owned(), why: why.to_owned() }
    }
}

/// What a program may choose before it joins.
#[derive(Clone, Debug)]
pub struct WorldBuilder {
    arena_bytes: u64,
    shared_len: usize,
    stops_when_told: bool,
    collective_within: Duration,
}

impl WorldBuilder {
    /// Asks for `bytes` of shared memory; the largest wish of all ranks is granted. It is taken only where it is
    /// written. Default: what [`Shm::arena_bytes`] says for the world's size.
    pub fn arena_bytes(mut self, bytes: u64) -> WorldBuilder {
        self.arena_bytes = bytes;
        self
    }

    /// Asks for room for `len` f32 numbers of each rank in shared memory: gradients of more than 16 million parameters
    /// are summed without copies only if all of them fit. Default: 64 MiB, which is that many.
    pub fn shared_len(mut self, len: usize) -> WorldBuilder {
        self.shared_len = len;
        self
    }

    /// Says that this program looks at [`World::stop_requested`] and stops in order. Default: no, so that it is
    /// sent SIGTERM instead.
    pub fn stops_when_told(mut self, yes: bool) -> WorldBuilder {
        self.stops_when_told = yes;
        self
    }

    /// Limits how long one collective call may wait for the others. Default: half an hour.
    pub fn collective_timeout(mut self, within: Duration) -> WorldBuilder {
        self.collective_within = within;
        self
    }

    /// Joins: alone if no launcher started this process, else when all ranks are there.
    pub fn join(self) -> Result<World, WorldError> {
        self.join_as(Contract::from_environment()?)
    }

    fn join_as(self, contract: Contract) -> Result<World, WorldError> {
        let abort = Arc::new(AbortFlag::new());
        let device = device::open(contract.device)?;
        let Some(name) = &contract.channel else {
            return Ok(World::new(contract, device, Box::new(Solo::new()), None, abort, Arc::default()));
        };
        let pulse = Arc::default();
        let line = Line::connect(name, contract.attempt, contract.rank, &abort, &pulse)?;
        let transport = transport(contract.world, &device);
        let arena_bytes = match transport {
            Transport::Shm => self.arena_bytes.max(Shm::arena_bytes_for(contract.world, self.shared_len)),
            Transport::Solo | Transport::Nccl => 0,
        };
        line.say(FromWorker::Hello(Hello {
            pid: std::process::id(),
            world_size: contract.world,
            transport,
            arena_bytes,
            comm_id: nccl_id(transport, contract.rank)?,
            stops_when_told: self.stops_when_told,
        }));
        let welcome = line.await_welcome(WELCOME_WITHIN)?;
        let collective: Box<dyn Collective> = match transport {
            Transport::Solo => Box::new(Solo::new()),
            Transport::Shm => {
                let place = welcome
                    .arena
                    .ok_or_else(|| WorldError::Unwelcome("shared memory was asked for, but none given".into()))?;
                let (rank, world) = (contract.rank, contract.world);
                Box::new(Shm::form(&place, rank, world, self.collective_within, Arc::clone(&abort))?)
            }
            Transport::Nccl => form_nccl(&device, &contract, welcome.comm_id, self.collective_within, &abort)?,
        };
        line.say(FromWorker::Ready);
        Ok(World::new(contract, device, collective, Some(line), abort, pulse))
    }
}

/// What `world` ranks on devices like `device` talk over.
fn transport(world: WorldSize, device: &Device) -> Transport {
    if world == WorldSize(1) {
        Transport::Solo
    } else if cfg!(feature = "nccl") && device.is_cuda() {
        Transport::Nccl
    } else {
        Transport::Shm
    }
}

/// The id that rank 0 gives to all, under NCCL.
fn nccl_id(transport: Transport, rank: Rank) -> Result<Option<CommId>, CollectiveError> {
    #[cfg(feature = "nccl")]
    if transport == Transport::Nccl && rank == Rank(0) {
        return crate::collectives::nccl::make_id().map(Some);
    }
    let _ = (transport, rank);
    Ok(None)
}

#[cfg(feature = "nccl")]
fn form_nccl(
    device: &Device,
    contract: &Contract,
    id: Option<CommId>,
    within: Duration,
    abort: &Arc<AbortFlag>,
) -> Result<Box<dyn Collective>, WorldError> {
    let id = id.ok_or_else(|| WorldError::Unwelcome("an NCCL id was expected, but none given".into()))?;
    let (rank, world) = (contract.rank, contract.world);
    let mut nccl = crate::collectives::Nccl::form(device, rank, world, &id, WELCOME_WITHIN, Arc::clone(abort))?;
    nccl.set_call_limit(within);
    Ok(Box::new(nccl))
}

#[cfg(not(feature = "nccl"))]
fn form_nccl(
    _: &Device,
    _: &Contract,
    _: Option<CommId>,
    _: Duration,
    _: &Arc<AbortFlag>,
) -> Result<Box<dyn Collective>, WorldError> {
    Err(CollectiveError::Unsupported("this worker was built without NCCL".into()).into())
}

/// This process's place among those that train together.
pub struct World {
    contract: Contract,
    device: Device,
    collective: Box<dyn Collective>,
    line: Option<Line>,
    abort: Arc<AbortFlag>,
    reported: Option<(Instant, Phase)>,
    held_back: Option<FromWorker>,
    pulse: Arc<Pulse>,
    /// Added to every step that is reported.
    before: u64,
    releases: Vec<Box<dyn FnOnce() + Send>>,
}

impl World {
    /// Joins the world that the launcher made; without a launcher, a world of one.
    pub fn join() -> Result<World, WorldError> {
        World::builder().join()
    }

    /// The choices to make before joining.
    pub fn builder() -> WorldBuilder {
        WorldBuilder { arena_bytes: 0, shared_len: 0, stops_when_told: false, collective_within: COLLECTIVE_WITHIN }
    }

    /// A world over a collective that the caller brings, on the host and without a launcher: ranks that are threads
    /// of one process.
    pub fn with_collective(collective: Box<dyn Collective>) -> World {
        World::on_device(collective, Device::Cpu)
    }

    /// As [`World::with_collective`], on a device.
    pub fn on_device(collective: Box<dyn Collective>, device: Device) -> World {
        let contract = Contract {
            channel: None,
            rank: collective.rank(),
            world: collective.world_size(),
            attempt: Attempt::FIRST,
            device: contract::DeviceKind::Cpu,
            run_dir: None,
        };
        World::new(contract, device, collective, None, Arc::new(AbortFlag::new()), Arc::default())
    }

    fn new(
        contract: Contract,
        device: Device,
        collective: Box<dyn Collective>,
        line: Option<Line>,
        abort: Arc<AbortFlag>,
        pulse: Arc<Pulse>,
    ) -> World {
        let collective = Box::new(Counted::new(collective, Arc::clone(&pulse)));
        let releases = Vec::new();
        World { pulse, contract, device, collective, line, abort, reported: None, held_back: None, before: 0, releases }
    }

    /// Calls `body` with this process as a world of its own, as if there were no others: for work that ranks do apart. What
    /// it reports still goes to the launcher, with `before` added to its steps.
    pub fn alone<R>(&mut self, before: u64, body: impl FnOnce(&mut World) -> R) -> R {
        let solo: Box<dyn Collective> = Box::new(Counted::new(Box::new(Solo::new()), Arc::clone(&self.pulse)));
        let joined = std::mem::replace(&mut self.collective, solo);
        let (rank, world) = (self.contract.rank, self.contract.world);
        (self.contract.rank, self.contract.world) = (Rank(0), WorldSize(1));
        let result = self.counting_from(before, body);
        (self.contract.rank, self.contract.world) = (rank, world);
        self.collective = joined;
        result
    }

    /// Calls `body` with `before` added to the steps that it reports: for work that begins to count anew.
    pub fn counting_from<R>(&mut self, before: u64, body: impl FnOnce(&mut World) -> R) -> R {
        let outside = self.before;
        self.before += before;
        let result = body(self);
        self.before = outside;
        result
    }

    /// This process's number.
    pub fn rank(&self) -> Rank {
        self.contract.rank
    }

    /// How many processes there are.
    pub fn world_size(&self) -> WorldSize {
        self.contract.world
    }

    /// Whether this is rank 0, the one that writes what is written once.
    pub fn is_first(&self) -> bool {
        self.rank() == Rank(0)
    }

    /// Which start of the world this is, from 1.
    pub fn attempt(&self) -> Attempt {
        self.contract.attempt
    }

    /// The device to compute on. Clone it; never open it a second time.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Sum, gather and broadcast with the other ranks.
    pub fn collective(&mut self) -> &mut dyn Collective {
        self.collective.as_mut()
    }

    /// The run's folder, if the launcher made one.
    pub fn run_dir(&self) -> Option<RunDir> {
        self.contract.run_dir.clone()
    }

    /// Whether a launcher started this process.
    pub fn is_launched(&self) -> bool {
        self.line.is_some()
    }

    /// When this process must have ended, if the launcher asked it to stop: write a checkpoint and leave. Ranks may
    /// hear of it at different steps, so they must agree on the step before they act.
    pub fn stop_requested(&self) -> Option<Instant> {
        self.line.as_ref().and_then(Line::stop)
    }

    /// Why there is no point in going on, if a peer or the launcher is gone. Collectives fail with the same.
    pub fn given_up(&self) -> Option<String> {
        self.abort.raised()
    }

    /// Tells the launcher how far training is. Call it as often as you like: about ten reports a second are sent,
    /// and every change of `phase`.
    pub fn progress(&mut self, step: u64, phase: Phase, display: Option<Display>) {
        let step = self.before + step;
        self.pulse.set(step, phase);
        let Some(line) = &self.line else { return };
        let report = FromWorker::Progress { step, collectives: self.pulse.collectives(), phase, display };
        let now = Instant::now();
        let due = self.reported.is_none_or(|(at, last)| last != phase || now - at >= PROGRESS_EVERY);
        if due {
            line.say(report);
            self.reported = Some((now, phase));
            self.held_back = None;
        } else {
            self.held_back = Some(report);
        }
    }

    /// Tells the launcher that the checkpoint in `path`, of optimiser step `step`, is now the latest.
    pub fn checkpointed(&mut self, step: u64, path: &Path) {
        self.say(FromWorker::Checkpointed { step: self.before + step, path: path.to_string_lossy().into_owned() });
    }

    /// Has the launcher show a line.
    pub fn note(&mut self, line: &str) {
        self.say(FromWorker::Note(line.to_owned()));
    }

    /// Tells the launcher why this process is about to fail. Returns when it is sent, or after a second.
    pub fn fault(&mut self, fault: &Fault) {
        self.say(FromWorker::Fault(fault.clone()));
        self.flush();
    }

    /// Has `release` called before the collective is closed, in [`World::leave`] or where the world is dropped. A
    /// captured graph that holds collectives must be given up then, or NCCL would wait for it.
    pub fn before_leaving(&mut self, release: impl FnOnce() + Send + 'static) {
        self.releases.push(Box::new(release));
    }

    /// Leaves in order, without waiting for the other ranks. Returns when the launcher's side has it, or after a
    /// second.
    pub fn leave(mut self) {
        self.say(FromWorker::Bye);
        self.flush();
    }

    fn say(&mut self, message: FromWorker) {
        let held_back = self.held_back.take();
        if let Some(line) = &self.line {
            held_back.into_iter().for_each(|report| line.say(report));
            line.say(message);
        }
    }

    fn flush(&self) {
        if let Some(line) = &self.line {
            line.flush(LAST_WORDS_WITHIN);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.releases.drain(..).for_each(|release| release());
    }
}
