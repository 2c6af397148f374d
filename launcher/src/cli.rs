//! The command line. Launch options stand before the verb and serve every verb.

use crate::commands::{
    data::DataArgs, devices::DevicesArgs, doctor::DoctorArgs, evaluate::EvaluateArgs, ls::LsArgs, predict::PredictArgs,
    report::ReportArgs, run::RunArgs, stop::StopArgs, train::TrainArgs,
};
use crate::devices::visible::Gpus;
use crate::logs::template::Template;
use crate::plan::HangOn;
use crate::plan::placement::Bind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use foxlaunch_shared::ids::Rank;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
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

impl Cli {
    /// `--json` before a verb that starts nothing means the same as after it.
    pub fn json_for_the_verb(&mut self) {
        let asked = self.launch.json;
        match &mut self.command {
            Command::Data(args) => args.json |= asked,
            Command::Devices(args) => args.json |= asked,
            Command::Doctor(args) => args.json |= asked,
            Command::Ls(args) => args.json |= asked,
            _ => {}
        }
    }
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
    /// Show what a finished run's policy is worth on other data
    Evaluate(EvaluateArgs),
    /// Show which positions the policies of finished runs hold
    Predict(PredictArgs),
    /// Show what data files hold and what is wrong with them
    Data(DataArgs),
    /// Show the devices of this machine and which of them a launch would use
    Devices(DevicesArgs),
    /// Show what would hinder a job here, and what to do about it
    Doctor(DoctorArgs),
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
    /// How many workers; also `gpu` (one per device), `cpu` (one per core, on the processor) or `auto` (one per
    /// device, else per core) [default: one per device; on the processor 2 for training, 1 for `run`]
    #[arg(long, visible_alias = "nproc-per-node", alias = "nproc_per_node", value_name = "N", value_parser = Nproc::parse)]
    pub nproc: Option<Nproc>,
    /// Which cores the workers run on
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub bind: Bind,
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
    #[arg(long, alias = "max_restarts", value_name = "N", default_value_t = 0)]
    pub max_restarts: u32,
    /// Restarts longer ago than this no longer count [default: all count]
    #[arg(long, value_name = "D", value_parser = crate::plan::duration::limit)]
    pub restart_window: Option<Duration>,
    /// Fewest workers to go on with when a device is lost, or one worker fails first again and again; the batch stays
    /// the same, and so do the results [default: as many as there were]
    #[arg(long, alias = "min_procs", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub min_procs: Option<u32>,
    /// Time from a worker's hello to its first step
    #[arg(long, value_name = "D", default_value = "10m", value_parser = crate::plan::duration::limit)]
    pub init_timeout: Duration,
    /// Time without any progress after which a job counts as hanging
    /// [default: 10m for our own trainers and with `--hang-on`, else never for programs under `run`]
    #[arg(long, value_name = "D", value_parser = crate::plan::duration::limit)]
    pub hang_timeout: Option<Duration>,
    /// The same in a checkpoint [default: ten times `--hang-timeout`]
    #[arg(long, value_name = "D", value_parser = crate::plan::duration::limit)]
    pub checkpoint_timeout: Option<Duration>,
    /// The same in an evaluation [default: ten times `--hang-timeout`]
    #[arg(long, value_name = "D", value_parser = crate::plan::duration::limit)]
    pub evaluation_timeout: Option<Duration>,
    /// What counts as a hang of a program that reports no progress: it prints nothing, or it uses no processor time, for
    /// the time of `--hang-timeout` [default: nothing does]
    #[arg(long, value_name = "SIGN")]
    pub hang_on: Option<HangOn>,
    /// Time after which the job must be gone: it is asked for a checkpoint one grace before, and ends with code 75
    #[arg(long, value_name = "D", value_parser = crate::plan::duration::limit)]
    pub time_limit: Option<Duration>,
    /// A signal (USR1, USR2 or TERM) that asks for a checkpoint and an end with code 75
    #[arg(long, value_name = "SIG", value_parser = crate::process::signals::parse)]
    pub checkpoint_signal: Option<i32>,
    /// Where the workers' logs go [default: the run folder's logs/]
    #[arg(long, alias = "log_dir", value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// Show the output of these workers only, as 0,2-3; the logs keep all
    #[arg(long, value_name = "LIST", value_parser = crate::plan::ranks::parse)]
    pub show_ranks: Option<BTreeSet<Rank>>,
    /// What stands before each line on the console [default: `[{rank}] ` if there are several]; fields: {rank}, {local_rank}, {world_size}, {attempt}, {host}, {run}, {time}
    #[arg(long, value_name = "TEMPLATE", value_parser = |text: &str| text.parse::<Template>())]
    pub log_prefix: Option<Template>,
    /// The most that one worker's log holds in one attempt, as 100M: its first half and its newest output; a line in it says what is left out [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = crate::plan::outputs::parse_size)]
    pub log_max_size: Option<u64>,
    /// End with code 73 if a log could not be written, though all else went well
    #[arg(long)]
    pub strict_logs: bool,
    /// Print the run's events on standard output, a line of JSON each; what the workers print goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Give the job's numbers to Prometheus at this address while it runs; a bare port is one of 127.0.0.1
    #[arg(long, value_name = "ADDRESS", value_parser = crate::metrics::address::parse)]
    pub metrics_addr: Option<std::net::SocketAddr>,
    /// The worker that reads foxlaunch's standard input; without it no one does
    #[arg(long, value_name = "N")]
    pub stdin_rank: Option<u32>,
    /// Understood as torchrun's, and true of every launch: one host, and no meeting place
    #[arg(long)]
    pub standalone: bool,
    /// Understood as torchrun's: there is one host, so it must be 1
    #[arg(long, value_name = "N", value_parser = one_host)]
    pub nnodes: Option<()>,
    /// Understood as torchrun's, without effect: what the workers print is always shown and kept
    #[arg(short = 't', long, value_name = "STREAMS")]
    pub tee: Option<String>,
    /// As `--tee`
    #[arg(short = 'r', long, value_name = "STREAMS")]
    pub redirects: Option<String>,
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

/// How many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nproc {
    /// So many, at most [`MOST_WORKERS`].
    Count(u32),
    /// One for each device; there must be one.
    Gpu,
    /// One for each core, on the processor.
    Cpu,
    /// One for each device, or where there is none, for each core.
    Auto,
}

/// More workers than any host has devices or cores for; a slip of the finger must not start a hundred thousand.
pub const MOST_WORKERS: u32 = 1024;

impl Nproc {
    fn parse(text: &str) -> Result<Nproc, String> {
        match text {
            "gpu" => Ok(Nproc::Gpu),
            "cpu" => Ok(Nproc::Cpu),
            "auto" => Ok(Nproc::Auto),
            _ => match text.parse() {
                Ok(count) if (1..=MOST_WORKERS).contains(&count) => Ok(Nproc::Count(count)),
                _ => Err(format!("{text:?} is no number of workers: use 1 to {MOST_WORKERS}, gpu, cpu or auto")),
            },
        }
    }
}

fn one_host(text: &str) -> Result<(), String> {
    match text {
        "1" | "1:1" => Ok(()),
        _ => Err("several hosts are not supported".to_owned()),
    }
}

/// `args` with the verb `run` where a person left it out: before a file, or before what only `run` understands.
/// `is_file` says whether a word is a file's path.
pub fn with_verb(mut args: Vec<OsString>, is_file: impl Fn(&OsStr) -> bool) -> Vec<OsString> {
    let cli = Cli::command();
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let text = word.to_string_lossy();
        if let "-m" | "--module" | "--no-python" = text.as_ref() {
            args.insert(at, RUN.into());
            return args;
        }
        match takes_next(&cli, &text) {
            Some(true) => at += 2,
            Some(false) => at += 1,
            None => {
                let is_verb = text == "help" || cli.find_subcommand(text.as_ref()).is_some();
                if !text.starts_with('-') && !is_verb && is_file(word) {
                    args.insert(at, RUN.into());
                }
                return args;
            }
        }
    }
    args
}

const RUN: &str = "run";

/// Whether the launch option `word` takes the next word as its value; `None` if it is no launch option.
fn takes_next(cli: &clap::Command, word: &str) -> Option<bool> {
    let takes = |arg: &clap::Arg| arg.get_action().takes_values();
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let is_meant = |arg: &&clap::Arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
        };
        return cli.get_arguments().find(is_meant).map(|arg| takes(arg) && value.is_none());
    }
    // `-qt3` is `-q -t 3`: the first that takes a value takes the rest, or the next word if there is none.
    let short = word.strip_prefix('-').filter(|letters| !letters.is_empty())?;
    for (place, letter) in short.char_indices() {
        let arg = cli.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
        if takes(arg) {
            return Some(place + letter.len_utf8() == short.len());
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_verb_is_run() {
        let given = |line: &str| {
            let args = line.split(' ').map(OsString::from).collect();
            let words = with_verb(args, |word| word == "train.py" || word == "run" || word == "3");
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        for (typed, meant) in [
            ("train.py --lr 3", "run train.py --lr 3"),
            ("--nproc 2 train.py", "--nproc 2 run train.py"),
            ("--nproc_per_node=2 --standalone train.py x", "--nproc_per_node=2 --standalone run train.py x"),
            ("-qt 3 train.py", "-qt 3 run train.py"),
            ("-t3 train.py", "-t3 run train.py"),
            ("--nproc-per-node auto -m pkg.train --lr 3", "--nproc-per-node auto run -m pkg.train --lr 3"),
            ("--no-python train.py", "run --no-python train.py"),
            ("run train.py", "run train.py"),
            ("--cpu run train.py", "--cpu run train.py"),
            ("train dqn", "train dqn"),
            ("missing.py", "missing.py"),
            ("--unknown train.py", "--unknown train.py"),
            ("-x train.py", "-x train.py"),
            ("-- train.py", "-- train.py"),
            ("--version", "--version"),
            ("help run", "help run"),
        ] {
            assert_eq!(given(typed), meant);
        }
        assert!(with_verb(Vec::new(), |_| true).is_empty());
    }

    #[test]
    fn torchruns_words_are_understood() {
        let cli = |line: &str| Cli::try_parse_from(line.split(' '));
        let launch = cli("foxlaunch --nproc_per_node gpu --nnodes 1:1 -t 3 -r 1:3 --standalone run x").unwrap().launch;
        assert_eq!((launch.nproc, launch.tee.as_deref()), (Some(Nproc::Gpu), Some("3")));
        for wrong in ["--nproc 0", "--nproc -1", "--nproc many", "--nnodes 2"] {
            assert!(cli(&format!("foxlaunch {wrong} run x")).is_err(), "{wrong}");
        }
    }
}
