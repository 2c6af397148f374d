//! What will be started: arguments, settings and devices become one [`LaunchPlan`]. Past this point no code looks
//! at what was typed.

pub mod devices;
pub mod duration;
pub mod environment;
pub mod outputs;
pub mod placement;
pub mod ranks;
pub mod run_folder;
pub mod worker_binary;

use crate::devices::Gpu;
use crate::devices::numa::show_cores;
use crate::secrets::Secrets;
use clap::ValueEnum;
use foxlaunch_shared::answers::WorkerPlan;
use foxlaunch_shared::ids::{Attempt, DeviceId, Rank, RunId, WorldSize};
use foxlaunch_shared::protocol::Transport;
use foxlaunch_shared::run_dir::RunDir;
use placement::{Bind, Placement};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What makes our own worker go on from a checkpoint.
pub const RESUME: &str = "--resume";

/// A job, decided to the last variable.
#[derive(Clone, Debug)]
pub struct LaunchPlan {
    /// What was asked for, as `train dqn`.
    pub verb: String,
    /// The run's name.
    pub run_id: RunId,
    /// The run's folder.
    pub run: RunDir,
    /// Where logs go: in the run's folder, or where `--log-dir` says.
    pub logs: PathBuf,
    /// The number of the first attempt.
    pub attempt: Attempt,
    /// The program that every worker runs.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Whether it is our own worker, or any program under `run`.
    pub own_worker: bool,
    /// One device for each worker, in the order of the ranks.
    pub devices: Vec<DeviceId>,
    /// What the driver says of each device, where it can be asked.
    pub gpus: Vec<Option<Gpu>>,
    /// Where workers are meant to run.
    pub bind: Bind,
    /// Where each runs, and with how many threads.
    pub placement: Placement,
    /// Whether a program sees only its own device, or all selected ones.
    pub sees_own_only: bool,
    /// What gradients travel over, if our own worker averages any.
    pub transport: Transport,
    /// Time to stop in order when asked from outside.
    pub grace: Duration,
    /// Time to stop in order when another worker has failed.
    pub peer_grace: Duration,
    /// Time from a worker's hello to its first step.
    pub init_timeout: Duration,
    /// Time without any progress after which the job counts as hanging.
    pub hang_timeout: Option<Duration>,
    /// As long in a checkpoint.
    pub checkpoint_timeout: Option<Duration>,
    /// As long in an evaluation.
    pub evaluation_timeout: Option<Duration>,
    /// By what a rank that reports nothing is judged.
    pub hang_on: Option<HangOn>,
    /// How often the job may be started again after a failure.
    pub max_restarts: u32,
    /// Restarts longer ago than this do not count.
    pub restart_window: Option<Duration>,
    /// Fewest workers to go on with, once a device is lost; all if not said.
    pub min_procs: Option<u32>,
    /// The signal that asks for a checkpoint and an end, to go on later.
    pub checkpoint_signal: Option<i32>,
    /// The job's time.
    pub time_limit: Option<Duration>,
    /// The worker that inherits our standard input; the others have none.
    pub stdin_rank: Option<Rank>,
    /// The workers whose output is shown; all if not said. The logs have it all.
    pub show_ranks: Option<BTreeSet<Rank>>,
    /// What is done with output and events.
    pub outputs: outputs::Outputs,
    /// What is not to be written down.
    pub secrets: Secrets,
    /// What a person should know about these choices.
    pub notes: Vec<String>,
    /// The settings of training, where there are any.
    pub settings: Option<Settings>,
    /// What needed data or networks to know, where there are any.
    pub preview: Option<WorkerPlan>,
}

/// By what a rank that reports nothing is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum HangOn {
    /// It prints nothing, from its first output on
    Silence,
    /// It and what it started use no processor time
    Cpu,
}

/// The settings of training with their origins.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// What holds.
    pub values: foxlaunch_shared::config::Config,
    /// Which layer each value came from.
    pub origins: BTreeMap<String, String>,
}

impl LaunchPlan {
    /// How many workers there are.
    pub fn world(&self) -> WorldSize {
        WorldSize(self.devices.len() as u32)
    }

    /// Whether any worker uses a GPU.
    pub fn uses_gpus(&self) -> bool {
        self.devices.iter().any(|device| *device != DeviceId::Cpu)
    }

    /// The plan for a world in which only some of the workers are left: for each rank, the one that it had in this plan.
    /// A device's number may be another's once one is lost, so that devices are called by their own names then.
    pub fn for_places(&self, places: &[Rank]) -> LaunchPlan {
        let own_name = |place: &Rank| match (&self.devices[place.index()], &self.gpus[place.index()]) {
            (DeviceId::Cuda(_), Some(gpu)) => DeviceId::Cuda(gpu.uuid.clone()),
            (device, _) => device.clone(),
        };
        let devices: Vec<DeviceId> = places.iter().map(own_name).collect();
        let cores = places.iter().map(|place| self.placement.cores[place.index()].clone()).collect();
        LaunchPlan {
            transport: transport(&devices),
            devices,
            gpus: places.iter().map(|place| self.gpus[place.index()].clone()).collect(),
            placement: Placement { cores, ..self.placement },
            ..self.clone()
        }
    }

    /// What is wrong with the options that concern restarts, and what to do.
    pub fn restart_fault(&self) -> Option<String> {
        let (least, workers) = (self.min_procs?, self.world().0);
        match () {
            () if least > workers => {
                Some(format!("--min-procs {least} is more than the {workers} workers that there are"))
            }
            () if least < workers && self.max_restarts == 0 => {
                Some("--min-procs needs restarts to go on after: give --max-restarts too".to_owned())
            }
            () => None,
        }
    }

    /// The first rank that an option names and that does not exist, with that option's name.
    pub fn absent_rank(&self) -> Option<(&'static str, Rank)> {
        let is_absent = |rank: &Rank| rank.0 >= self.world().0;
        let stdin = self.stdin_rank.filter(is_absent).map(|rank| ("--stdin-rank", rank));
        let shown = self.show_ranks.iter().flatten().copied().find(is_absent).map(|rank| ("--show-ranks", rank));
        stdin.or(shown)
    }

    /// The arguments in `attempt`: our own worker goes on from the last checkpoint after a restart.
    pub fn args_of(&self, attempt: Attempt) -> Vec<OsString> {
        let mut args = self.args.clone();
        if self.own_worker && attempt > self.attempt && !args.iter().any(|arg| arg == RESUME) {
            args.push(RESUME.into());
        }
        args
    }

    /// The plan as `--dry-run` prints it and `plan.json` keeps it, without secrets.
    pub fn to_json(&self) -> serde_json::Value {
        let worker = |rank: Rank| {
            serde_json::json!({
                "rank": rank,
                "device": self.devices[rank.index()].to_string(),
                "cores": self.placement.cores[rank.index()].as_ref().map(show_cores),
                "environment": environment::of_worker(self, rank, self.attempt, None).into_iter()
                    .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
                    .collect::<BTreeMap<_, _>>(),
            })
        };
        let mut plan = serde_json::json!({
            "verb": self.verb,
            "run_folder": self.run.path().to_string_lossy(),
            "logs": self.logs.to_string_lossy(),
            "attempt": self.attempt,
            "program": self.program.to_string_lossy(),
            "arguments": self.secrets.hide_arguments(&self.args),
            "world_size": self.world(),
            "transport": self.transport,
            "bind": self.bind,
            "threads_per_worker": self.placement.threads,
            "grace_s": self.grace.as_secs_f64(),
            "peer_grace_s": self.peer_grace.as_secs_f64(),
            "max_restarts": self.max_restarts,
            "restart_window_s": self.restart_window.map(|window| window.as_secs_f64()),
            "min_procs": self.min_procs,
            "init_timeout_s": self.init_timeout.as_secs_f64(),
            "hang_timeout_s": self.hang_timeout.map(|step| step.as_secs_f64()),
            "checkpoint_timeout_s": self.checkpoint_timeout.map(|limit| limit.as_secs_f64()),
            "evaluation_timeout_s": self.evaluation_timeout.map(|limit| limit.as_secs_f64()),
            "hang_on": self.hang_on,
            "time_limit_s": self.time_limit.map(|limit| limit.as_secs_f64()),
            "checkpoint_signal": self.checkpoint_signal,
            "stdin_rank": self.stdin_rank,
            "show_ranks": self.show_ranks,
            "log_max_bytes": self.outputs.log_limit,
            "strict_logs": self.outputs.strict_logs,
            "notes": self.notes,
            "workers": self.world().ranks().map(worker).collect::<Vec<_>>(),
            "settings": self.settings,
            "data": self.preview,
        });
        self.secrets.hide_in(&mut plan);
        plan
    }
}

/// What all of `devices` can average over.
pub fn transport(devices: &[DeviceId]) -> Transport {
    match devices {
        [_] => Transport::Solo,
        [DeviceId::Cpu, ..] => Transport::Shm,
        _ => Transport::Nccl,
    }
}
