//! `foxlaunch train ALGORITHM`: our own trainers, one worker per device.

use super::launch::{HANG_TIMEOUT, hang_timeouts, launch, logs};
use super::{Done, Refusal};
use crate::cli::LaunchOptions;
use crate::plan::devices::{self, Chosen};
use crate::plan::outputs::Outputs;
use crate::plan::placement::Placement;
use crate::plan::worker_binary::WorkerBinary;
use crate::plan::{LaunchPlan, Settings, run_folder, transport};
use crate::process::print;
use crate::report;
use crate::screen::summary::summary;
use crate::secrets::{HIDDEN, Secrets};
use clap::{Args, ValueEnum};
use foxlaunch_shared::answers::WorkerPlan;
use foxlaunch_shared::config::{AlgorithmConfig, Config, ConfigError, DEFAULT, Layer, Layers, Work, hyperopt_layer};
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::{Attempt, DeviceId, Rank, RunId};
use foxlaunch_shared::protocol::Transport;
use foxlaunch_shared::run_dir::RunDir;
use std::path::{Path, PathBuf};

/// What can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// Deep Q-network: Rainbow, IQN, CQL and what lies between
    Dqn,
    /// Proximal policy optimisation
    Ppo,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Algorithm::Dqn => AlgorithmConfig::Dqn.name(),
            Algorithm::Ppo => AlgorithmConfig::Ppo.name(),
        }
    }
}

/// What workers can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Parallel {
    /// The rows of each batch: all workers train one model
    Data,
    /// Whole folds: each worker trains some by itself, with the same numbers as one after the other
    Folds,
    /// Seeds: each worker trains whole models by itself
    Seeds,
}

/// What `--help` shows below the options.
fn settings_help() -> String {
    format!("Settings for --config and --set, with their defaults:\n\n{DEFAULT}")
}

/// Train an agent or a model.
#[derive(Args, Debug)]
#[command(after_long_help = settings_help())]
pub struct TrainArgs {
    /// What to train
    pub algorithm: Algorithm,
    /// Bars to train on: a file, a folder or a pattern; may stand more than once [default: a sample of daily bars]
    #[arg(long, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// What the agent acts in: market, cartpole, acrobot, mountaincar, mountaincar-continuous, pendulum, or what an own worker has [default: market]
    #[arg(long, value_name = "NAME")]
    pub env: Option<String>,
    /// Settings, as TOML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// One setting, as dqn.gamma=0.95; may stand more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The result of a hyper-parameter search, as JSON
    #[arg(long, value_name = "FILE")]
    pub hyperopt: Option<PathBuf>,
    /// Every random stream is derived from it
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Several seeds, as 0..9 (both ends) or 1,5,7: each is trained by itself, and one report pools them
    #[arg(long, value_name = "LIST", conflicts_with = "seed", value_parser = seeds)]
    pub seeds: Option<Seeds>,
    /// What the workers share [default: data]
    #[arg(long, value_name = "WHAT")]
    pub parallel: Option<Parallel>,
    /// Environment steps for each fold
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// The run's folder, which must be empty or not there [default: runs/train-<ALGORITHM>-<UTC>-<4 hex>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with an interrupted run, from its last checkpoint, with its settings
    #[arg(long, value_name = "RUN", conflicts_with = "out")]
    pub resume: Option<PathBuf>,
    /// A run of seconds, to see that everything works
    #[arg(long)]
    pub smoke: bool,
}

/// Seeds in the order in which they are trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(Vec<i64>);

/// No list of seeds is longer.
const MOST_SEEDS: i64 = 10_000;

/// Reads `0..9` and `1,5,7`.
fn seeds(text: &str) -> Result<Seeds, String> {
    let number = |text: &str| {
        let seed = text.trim().parse::<i64>().ok().filter(|seed| *seed >= 0);
        seed.ok_or_else(|| format!("{text:?} is no seed: a whole number of 0 or more"))
    };
    let Some((from, to)) = text.split_once("..") else {
        return text.split(',').map(number).collect::<Result<_, _>>().map(Seeds);
    };
    let (from, to) = (number(from)?, number(to.trim_start_matches('='))?);
    match to.checked_sub(from) {
        Some(more) if (0..MOST_SEEDS).contains(&more) => Ok(Seeds((from..=to).collect())),
        _ => Err(format!("{text}: give at least one and at most {MOST_SEEDS} seeds")),
    }
}

/// Settings of a `--smoke` run.
const SMOKE: &str = r#"
[train]
steps = 3200
log_every = 20
evaluate_every = 50
checkpoint_every = 50
[folds]
count = 2
[network]
hidden = [32, 16]
[dqn]
batch_size = 64
buffer_size = 5000
learning_starts = 256
target_every = 50
[ppo]
rollout_steps = 20
batch_size = 64
epochs = 4
policy_hidden = [32, 16]
value_hidden = [32, 16]
"#;

/// Does it.
pub fn train(args: &TrainArgs, options: &LaunchOptions, scratch: &Path) -> Done {
    let name = args.algorithm.name();
    let verb = format!("train {name}");
    let run = match &args.resume {
        Some(path) => run_folder::existing(path)?,
        None => run_folder::choose(args.out.as_deref(), &format!("train-{name}"))?,
    };
    let mut layers = layers(args, &run)?;
    let mut chosen = devices::choose(options, 2)?;
    let worker = find_worker(&mut chosen)?;
    let workers = chosen.devices.len();
    settle_shards(&mut layers, workers)?;
    let (config, origins) = layers.resolve().map_err(of_config)?;
    let secrets = Secrets::of_this_process();
    nothing_hidden(&config)?;

    if args.resume.is_some() {
        goes_on(&run, &config, &secrets)?;
    }
    // The worker reads the settings from a file, and the run's folder is made only once nothing can refuse them.
    let trial = scratch.join("config.toml");
    std::fs::write(&trial, config.to_toml())
        .map_err(|error| Refusal::new(exit::CANT_CREATE, format!("{}: {error}", trial.display())))?;
    let preview = worker.plan(&trial).map_err(|(code, words)| Refusal::new(code, words))?;

    // A secret is not kept with the run: the worker finds it where the preview did, as long as the job runs.
    let has_secrets = secrets.hide(&config.to_toml()) != config.to_toml();
    let settings_file = if has_secrets { trial } else { run.config() };
    let mut worker_args = vec!["train".into(), "--config".into(), settings_file.into()];
    worker_args.extend(["--run".into(), run.path().into()]);
    worker_args.extend(args.resume.is_some().then(|| "--resume".into()));
    let logs = logs(options, &run);
    let mut notes = std::mem::take(&mut chosen.notes);
    notes.extend(preview.warnings.iter().cloned());
    let [hang_timeout, checkpoint_timeout, evaluation_timeout] = hang_timeouts(options, Some(HANG_TIMEOUT));
    let plan = LaunchPlan {
        verb,
        run_id: RunId(run.path().file_name().unwrap_or_default().to_string_lossy().into_owned()),
        attempt: if args.resume.is_some() { run_folder::next_attempt(&logs) } else { Attempt::FIRST },
        logs,
        program: worker.path,
        args: worker_args,
        own_worker: true,
        sees_own_only: true,
        transport: transport(&chosen.devices),
        bind: options.bind,
        placement: Placement::choose(options.bind, &chosen.gpus),
        devices: chosen.devices,
        gpus: chosen.gpus,
        grace: options.grace,
        peer_grace: options.peer_grace,
        init_timeout: options.init_timeout,
        hang_timeout,
        checkpoint_timeout,
        evaluation_timeout,
        hang_on: options.hang_on,
        max_restarts: options.max_restarts,
        restart_window: options.restart_window,
        min_procs: options.min_procs,
        checkpoint_signal: options.checkpoint_signal,
        time_limit: options.time_limit,
        stdin_rank: options.stdin_rank.map(Rank),
        show_ranks: options.show_ranks.clone(),
        outputs: Outputs::of(options),
        secrets,
        notes,
        settings: Some(Settings { values: config, origins }),
        preview: Some(preview),
        run,
    };
    let headline = plan.preview.as_ref().map(|preview| headline(&plan, preview, args.resume.is_some()));
    let code = launch(&plan, options, scratch, headline)?;
    if code == exit::OK && !options.dry_run {
        // a trial is entered before it is counted
        let report = report::collect::collect(&plan.run, 0)?;
        if let Some(Err(error)) = report.trial().map(|trial| report::ledger::enter(&plan.run, &trial)) {
            print::err(format_args!("foxlaunch: {error:#}"));
        }
        let report = report::write(&plan.run, 0)?;
        if !options.quiet {
            let summary = summary(&report);
            // Standard output holds events then, and nothing else.
            let show = if options.json { print::err } else { print::out };
            show(summary.trim_end());
        }
    }
    Ok(code)
}

/// Refuses to go on with a run under settings that compute something else: its checkpoints would not fit.
fn goes_on(run: &RunDir, config: &Config, secrets: &Secrets) -> Result<(), Refusal> {
    let path = run.config();
    let began = Config::from_toml(&read(&path)?, &path.display().to_string()).map_err(of_config)?;
    // As it would be kept: without secrets.
    let config = Config::from_toml(&secrets.hide(&config.to_toml()), "settings").map_err(of_config)?;
    match began.differences(&config) {
        other if other.is_empty() => Ok(()),
        other => {
            let folder = run.path().display();
            let words =
                format!("{folder} began with other settings and can only go on with its own: {}", other.join(", "));
            Err(Refusal::new(exit::CONFIG, words))
        }
    }
}

/// Refuses settings of a run that were not kept, since they look like secrets, and are not given again.
fn nothing_hidden(config: &Config) -> Result<(), Refusal> {
    let text = config.to_toml();
    let hidden: Vec<&str> = text.lines().filter(|line| line.contains(HIDDEN)).collect();
    if hidden.is_empty() {
        return Ok(());
    }
    let words = "what looks like a secret was not kept with the run: give it again with --set";
    Err(Refusal::new(exit::CONFIG, format!("{}: {words}", hidden.join(", "))))
}

/// The settings' layers, from the weakest to the strongest, without what depends on the devices.
fn layers(args: &TrainArgs, run: &RunDir) -> Result<Layers, Refusal> {
    let mut layers = Layers::new();
    let mut push = |layer: Layer| layers.push(layer).map_err(of_config);
    push(Layer::from_env(
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    ))?;
    if let Some(path) = &args.hyperopt {
        push(hyperopt_layer(&path.display().to_string(), &read(path)?).map_err(of_config)?)?;
    }
    if args.resume.is_some() {
        let path = run.config();
        push(Layer::from_toml(&path.display().to_string(), &read(&path)?).map_err(of_config)?)?;
    }
    if let Some(path) = &args.config {
        push(Layer::from_toml(&path.display().to_string(), &read(path)?).map_err(of_config)?)?;
    }
    if args.smoke {
        push(Layer::from_toml("--smoke", SMOKE).map_err(of_config)?)?;
    }
    push(Layer::from_pairs("--set", args.set.iter().map(String::as_str)).map_err(of_config)?)?;
    let mut flags = Layer::new("the command line");
    flags.set("train.algorithm", args.algorithm.name());
    if let Some(Seeds(seeds)) = &args.seeds {
        flags.set("train.seeds", seeds.clone());
    }
    if let Some(parallel) = args.parallel {
        flags.set(
            "parallel.work",
            match parallel {
                Parallel::Data => "data",
                Parallel::Folds => "folds",
                Parallel::Seeds => "seeds",
            },
        );
    }
    if !args.data.is_empty() {
        // A run can be resumed from anywhere, so the path must not depend on where we are.
        let absolute = |path: &PathBuf| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            absolute.into_os_string().into_string().map_err(|path| {
                let path = path.display();
                Refusal::new(exit::NO_INPUT, format!("{path}: its name is not UTF-8, so no settings file can hold it"))
            })
        };
        let paths = args.data.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
        flags.set("data.path", paths.join(","));
    }
    if let Some(name) = &args.env {
        flags.set("environment.name", name.clone());
    }
    for (key, value) in [("train.seed", args.seed), ("train.steps", args.steps)] {
        if let Some(value) = value {
            let value = i64::try_from(value)
                .map_err(|_| Refusal::new(exit::CONFIG, format!("{key} = {value}: must be below 2^63")))?;
            flags.set(key, value);
        }
    }
    push(flags)?;
    Ok(layers)
}

fn read(path: &Path) -> Result<String, Refusal> {
    std::fs::read_to_string(path).map_err(|error| Refusal::new(exit::NO_INPUT, format!("{}: {error}", path.display())))
}

fn of_config(error: ConfigError) -> Refusal {
    Refusal::new(exit::CONFIG, error)
}

/// The worker for the chosen devices. If none can use the GPUs that are there, and nobody asked for them by name, it
/// falls back to the processor and says so.
fn find_worker(chosen: &mut Chosen) -> Result<WorkerBinary, Refusal> {
    let cuda = matches!(chosen.devices.first(), Some(DeviceId::Cuda(_)));
    match WorkerBinary::find(cuda, chosen.devices.len() > 1) {
        Ok(worker) => Ok(worker),
        Err(error) if cuda && !chosen.insisted => {
            let reason = error.to_string().replace("\n  ", " ");
            *chosen = Chosen::cpu(2, vec![format!("the GPUs here are not used: {reason}; using the processor")]);
            Ok(WorkerBinary::find(false, true)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Fixes the number of parts into which a batch is split, so that the run can go on with another number of workers
/// and give the same bits.
fn settle_shards(layers: &mut Layers, workers: usize) -> Result<(), Refusal> {
    let (config, _) = layers.resolve().map_err(of_config)?;
    // a worker that trains by itself shares no batch
    let (workers, why) = match config.parallel.work {
        Work::Folds | Work::Seeds => (1, "parallel.work"),
        Work::Data => (workers, "the number of workers"),
    };
    match config.parallel.virtual_shards {
        0 => {
            let mut layer = Layer::new(why);
            layer.set("parallel.virtual_shards", workers as i64);
            layers.push(layer).map_err(of_config)
        }
        shards if shards < workers => Err(Refusal::new(
            exit::CONFIG,
            format!(
                "{workers} workers cannot share {shards} parts of a batch: use at most {shards} workers (--nproc), or \
                 begin the run with parallel.virtual_shards of at least {workers}"
            ),
        )),
        _ => Ok(()),
    }
}

fn headline(plan: &LaunchPlan, preview: &WorkerPlan, resumed: bool) -> String {
    let workers = plan.devices.len();
    let on = match plan.devices.first() {
        Some(DeviceId::Cuda(_)) => {
            let list: Vec<String> = plan.devices.iter().map(DeviceId::to_string).collect();
            list.join(", ")
        }
        _ => format!("the processor ({} threads each)", plan.placement.threads),
    };
    let over = match plan.transport {
        Transport::Solo => "alone".to_owned(),
        Transport::Shm => "gradients over shared memory".to_owned(),
        Transport::Nccl => "gradients over NCCL".to_owned(),
    };
    let bars: usize = preview.instruments.iter().map(|instrument| instrument.bars).sum();
    let on_what = match preview.folds.len() {
        // a control task
        0 => preview.source.clone(),
        folds => format!("{} ({bars} bars), {folds} folds", preview.source),
    };
    let config = plan.settings.as_ref().map(|settings| &settings.values);
    let over = match config.map_or(Work::Data, |config| config.parallel.work) {
        Work::Folds => "whole folds on each".to_owned(),
        Work::Seeds => "each by itself".to_owned(),
        Work::Data => over,
    };
    let seeds = match config.map_or(0, |config| config.train.seeds.len()) {
        0 => String::new(),
        seeds => format!(", {seeds} seeds"),
    };
    let plural = if workers == 1 { "" } else { "s" };
    format!(
        "{}{}: {workers} worker{plural} on {on}, {over}; {on_what}{seeds}; network of {} parameters; {}",
        plan.verb,
        if resumed { " (resumed)" } else { "" },
        preview.parameters,
        plan.run.path().display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_with_both_ends_or_a_list() {
        assert_eq!(seeds("0..9").unwrap().0, (0..10).collect::<Vec<_>>());
        assert_eq!(seeds("3..3").unwrap().0, [3]);
        assert_eq!(seeds("7, 1,5").unwrap().0, [7, 1, 5]);
        for bad in
            ["", "9..0", "a", "1..b", "-1", "0..99999999", "1,,2", "..", "-9223372036854775808..9223372036854775807"]
        {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }
}
