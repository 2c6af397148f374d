//! The command line. Launch options stand before the verb and serve every verb.

use crate::commands::{
    devices::DevicesArgs, ls::LsArgs, report::ReportArgs, run::RunArgs, stop::StopArgs, train::TrainArgs,
};
use crate::devices::visible::Gpus;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Starts one training process per GPU, keeps watch over them, and trains.
#[derive(Debug, Parser)]
#[command(name = "foxlaunch", version, arg_required_else_help = true)]
pub struct Cli {
    /// How to launch.
    #[command(flatten)]
    pub launch: LaunchOptions,
    /// What to launch.
    #[command(subcommand)]
    pub command: Command,
}

/// What to launch.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train an agent or a model
    Train(TrainArgs),
    /// Run any program, one process per device
    Run(RunArgs),
    /// Write the report of finished runs anew and show it
    Report(ReportArgs),
    /// Show the devices of this machine and which of them a launch would use
    Devices(DevicesArgs),
    /// Show the jobs of this user on this machine
    Ls(LsArgs),
    /// End a job in order, from any terminal
    Stop(StopArgs),
}

/// How to launch.
#[derive(Args, Clone, Debug)]
pub struct LaunchOptions {
    /// NVIDIA devices to use, one worker each: numbers within CUDA_VISIBLE_DEVICES, GPU-… or MIG-…, `all`, `none`
    #[arg(long, visible_alias = "gpu-ids", value_name = "LIST", value_parser = |text: &str| text.parse::<Gpus>())]
    pub gpus: Option<Gpus>,
    /// Use the processor, also where there are NVIDIA devices
    #[arg(long)]
    pub cpu: bool,
    /// How many workers [default: one per device; on the processor 2 for training, 1 for `run`]
    #[arg(long, value_name = "N")]
    pub nproc: Option<NonZeroU32>,
    /// Which devices a program under `run` sees
    #[arg(long, value_name = "WHICH", default_value = "all")]
    pub visible: Visible,
    /// Time for workers to stop in order when the job is asked to end (as 30s, 2m)
    #[arg(long, value_name = "D", default_value = "30s", value_parser = crate::plan::duration::parse)]
    pub grace: Duration,
    /// Time for workers to stop in order when another worker has failed
    #[arg(long, value_name = "D", default_value = "5s", value_parser = crate::plan::duration::parse)]
    pub peer_grace: Duration,
    /// How often a job that failed is started again, from its last checkpoint
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_restarts: u32,
    /// Time from a worker's hello to its first step
    #[arg(long, value_name = "D", default_value = "10m", value_parser = crate::plan::duration::parse)]
    pub init_timeout: Duration,
    /// Time without any progress after which a job counts as hanging; ten times that in checkpoints and evaluations
    /// [default: 10m for our own trainers, never for programs under `run`]
    #[arg(long, value_name = "D", value_parser = crate::plan::duration::parse)]
    pub hang_timeout: Option<Duration>,
    /// Time after which the job must be gone: it is asked for a checkpoint one grace before, and ends with code 75
    #[arg(long, value_name = "D", value_parser = crate::plan::duration::parse)]
    pub time_limit: Option<Duration>,
    /// A signal (USR1, USR2 or TERM) that asks for a checkpoint and an end with code 75
    #[arg(long, value_name = "SIG", value_parser = crate::process::signals::parse)]
    pub checkpoint_signal: Option<i32>,
    /// Where the workers' logs go [default: the run folder's logs/]
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// Print the plan as JSON, with the origin of every value, and start no worker
    #[arg(long)]
    pub dry_run: bool,
    /// Show only what the workers print, and failures
    #[arg(short, long)]
    pub quiet: bool,
}

/// Which devices a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Visible {
    /// Its own alone, with LOCAL_RANK 0.
    Own,
    /// All selected ones, with LOCAL_RANK as its index into them.
    All,
}
