//! The worker binary: what it is asked to do, from arguments to exit code.

mod apply;
mod registry;
mod seeds;
mod warnings;

pub use registry::Registry;

use crate::data::{self, DataError, Scaler, walk_forward};
use crate::environments::Environment;
use crate::environments::market::Market;
use crate::trainers::start::parameters;
use crate::trainers::{Ending, TrainError, train_on_market};
use crate::world::{World, WorldError};
use clap::{Parser, Subcommand};
use foxlaunch_shared::answers::{About, WorkerPlan};
use foxlaunch_shared::config::{Config, ConfigError};
use foxlaunch_shared::exit;
use foxlaunch_shared::protocol::Fault;
use foxlaunch_shared::run_dir::RunDir;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use thiserror::Error;

/// The stack of the training thread: backward and drop of a graph recurse.
const STACK: usize = 256 << 20;
/// What the launcher's request to stop ends with: SIGTERM's code.
const STOPPED_BY: i32 = 15;

/// Trains as one process of a world that `foxlaunch` makes; alone, as a world of one.
#[derive(Debug, Parser)]
#[command(name = "foxlaunch-worker", version, arg_required_else_help = true)]
struct Arguments {
    /// Says as JSON what this binary was built with.
    #[arg(long)]
    about: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Says as JSON what a training would be, without starting it.
    Plan {
        /// Resolved settings, as a run folder's config.toml.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Says of each file what it holds and what is wrong with it: a line of JSON each, `Ok` with a report, or `Err` with
    /// an exit code and a reason.
    Data {
        /// Resolved settings, as a run folder's config.toml.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Files, folders or patterns.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
    },
    /// Says as JSON what a finished run's policy is worth on the data that the settings name.
    Evaluate {
        /// The run's settings, with the data to evaluate on.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// The run's folder.
        #[arg(long, value_name = "DIR")]
        run: PathBuf,
        /// Which fold's policy, from 0; without it the last one's.
        #[arg(long, value_name = "N")]
        fold: Option<usize>,
    },
    /// Says as a table which position the policies of finished runs hold after each bar.
    Predict {
        /// A run's settings, with the data to predict on; as often as there are runs.
        #[arg(long, value_name = "FILE")]
        config: Vec<PathBuf>,
        /// Run folders.
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<PathBuf>,
    },
    /// Trains.
    Train {
        /// Resolved settings, as a run folder's config.toml.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// The run's folder.
        #[arg(long, value_name = "DIR")]
        run: PathBuf,
        /// Goes on from the newest checkpoint, if there is one.
        #[arg(long)]
        resume: bool,
    },
}

/// Why a job failed.
#[derive(Debug, Error)]
enum JobError {
    #[error("cannot read {}: {source}", path.display())]
    NoConfig { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Unknown(String),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    World(#[from] WorldError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error("the training thread ended without a word: {0}")]
    Thread(String),
}

impl JobError {
    fn exit_code(&self) -> i32 {
        match self {
            JobError::NoConfig { .. } => exit::NO_INPUT,
            JobError::Config(_) | JobError::Unknown(_) => exit::CONFIG,
            JobError::Data(e) => e.exit_code(),
            JobError::World(WorldError::PeerLost { .. } | WorldError::LauncherGone | WorldError::NoWelcome(_)) => {
                exit::COLLATERAL
            }
            JobError::World(WorldError::Device(_)) => exit::UNAVAILABLE,
            JobError::World(_) => exit::SOFTWARE,
            JobError::Train(e) => e.exit_code(),
            JobError::Thread(_) => exit::SOFTWARE,
        }
    }
}

/// The whole program, with what is built in.
pub fn main() -> ExitCode {
    main_with(Registry::built_in())
}

/// The whole program, for a worker that has what `registry` has: a third party's own, which `FOXLAUNCH_WORKER` names.
pub fn main_with(registry: Registry) -> ExitCode {
    // What goes wrong beside the work, as a message that could not be sent; RUST_LOG=debug shows more.
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().try_init();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(e) => {
            // help and version go to the standard output, and are no failure
            let _ = e.print();
            return code(if e.use_stderr() { exit::USAGE } else { exit::OK });
        }
    };
    let done = match arguments.verb {
        _ if arguments.about => print_json(&about()),
        None => Ok(exit::OK),
        Some(Verb::Plan { config }) => {
            read_config(&config).and_then(|config| plan(&registry, &config)).and_then(|plan| print_json(&plan))
        }
        Some(Verb::Data { config, paths }) => read_config(&config).and_then(|config| {
            for answer in paths.iter().flat_map(|path| data::survey(path, &config)) {
                print_json(&answer.map_err(|e| (e.exit_code(), e.to_string())))?;
            }
            Ok(exit::OK)
        }),
        Some(Verb::Evaluate { config, run, fold }) => {
            apply::evaluate(&config, run, fold).and_then(|result| print_json(&result))
        }
        Some(Verb::Predict { config, runs }) => apply::predict(&config, &runs).map(|table| {
            print!("{table}");
            exit::OK
        }),
        Some(Verb::Train { config, run, resume }) => read_config(&config).and_then(|config| {
            let training = std::thread::Builder::new()
                .name("training".to_owned())
                .stack_size(STACK)
                .spawn(move || train(&registry, &config, &RunDir::new(run), resume));
            match training.map(std::thread::JoinHandle::join) {
                Ok(Ok(ended)) => ended,
                Ok(Err(_)) => Err(JobError::Thread("it panicked; see above".to_owned())),
                Err(e) => Err(JobError::Thread(e.to_string())),
            }
        }),
    };
    done.map_or_else(
        |e| {
            eprintln!("foxlaunch-worker: {e}");
            code(e.exit_code())
        },
        code,
    )
}

fn code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn about() -> About {
    About {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cuda: cfg!(feature = "cuda"),
        nccl: cfg!(feature = "nccl"),
    }
}

fn print_json<T: serde::Serialize>(value: &T) -> Result<i32, JobError> {
    println!("{}", serde_json::to_string(value).expect("answers are plain names and numbers"));
    Ok(exit::OK)
}

fn read_config(path: &Path) -> Result<Config, JobError> {
    let text = std::fs::read_to_string(path).map_err(|source| JobError::NoConfig { path: path.to_owned(), source })?;
    Ok(Config::from_toml(&text, &path.display().to_string())?)
}

/// What training under `config` would be.
fn plan(registry: &Registry, config: &Config) -> Result<WorkerPlan, JobError> {
    if let Some(task) = registry.task(config)? {
        return task.plan(config);
    }
    registry.market_reward(config)?;
    let dataset = data::load(config)?;
    let folds = walk_forward(&dataset, &config.folds)?;
    let mut warnings = warnings::leaps(&dataset);
    let (mut observation, mut actions) = (0, 0);
    for fold in &folds {
        let scaler = Scaler::fit(&dataset, &fold.train);
        // all parts are built as training would, so that what does not serve is said before anything starts
        for part in [&fold.train, &fold.validation, &fold.test] {
            let market = Market::new(&dataset, part, &scaler, &config.environment)?;
            (observation, actions) = (market.observation_len(), market.actions());
        }
        let longest = fold.train.ranges.iter().map(std::ops::Range::len).max().unwrap_or(0);
        if longest < config.environment.episode_bars {
            warnings.push(format!(
                "fold {}: the longest train part of an instrument has {longest} bars, so episodes are shorter than \
                 environment.episode_bars = {}",
                fold.index + 1,
                config.environment.episode_bars
            ));
        }
    }
    warnings.extend(warnings::unlearned(config));
    Ok(WorkerPlan {
        source: dataset.source.clone(),
        instruments: dataset.summary(),
        interval_ns: dataset.interval_ns(),
        folds: folds.iter().map(data::Fold::summary).collect(),
        observation,
        actions,
        parameters: parameters(config, observation, actions, false),
        replay_bytes: registry::memory_bytes::<Market>(config, observation),
        warnings,
        problems: dataset.problems().by_name(),
    })
}

/// Joins the world, trains, and leaves it in order or with a word about what went wrong.
fn train(registry: &Registry, config: &Config, run: &RunDir, resume: bool) -> Result<i32, JobError> {
    let mut world = World::builder().stops_when_told(true).join()?;
    let trained = work(&mut world, registry, config, run, resume);
    match trained {
        Ok(ending) => {
            if !world.is_launched() {
                println!("{ending:?}: {}", run.path().display());
            }
            world.leave();
            Ok(match ending {
                Ending::Finished => exit::OK,
                Ending::Stopped => exit::of_signal(STOPPED_BY),
            })
        }
        Err(e) => {
            let blames = if let JobError::Train(e) = &e { e.blames() } else { None };
            world.fault(&Fault { message: e.to_string(), code: e.exit_code(), blames });
            Err(e)
        }
    }
}

/// Trains what `config` names, each of its seeds.
fn work(
    world: &mut World,
    registry: &Registry,
    config: &Config,
    run: &RunDir,
    resume: bool,
) -> Result<Ending, JobError> {
    let task = registry.task(config)?;
    let reward = registry.market_reward(config)?;
    let dataset = if task.is_none() { Some(data::load(config)?) } else { None };
    let one = |world: &mut World, config: &Config, run: &RunDir| match (task, &dataset) {
        (Some(task), _) => task.train(world, config, run, resume),
        (None, Some(dataset)) => Ok(train_on_market(world, config, dataset, run, resume, reward)?),
        (None, None) => Ok(Ending::Finished),
    };
    if config.train.seeds.is_empty() { one(world, config, run) } else { seeds::each_seed(world, config, run, one) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foxlaunch_shared::config::{Layer, Layers};

    /// The defaults with these settings over them.
    pub(super) fn config(pairs: &[&str]) -> Config {
        let mut layers = Layers::new();
        layers.push(Layer::from_pairs("test", pairs.iter().copied()).unwrap()).unwrap();
        layers.resolve().unwrap().0
    }

    #[test]
    fn the_plan_of_the_sample_knows_its_sizes_and_has_nothing_to_warn_of() {
        let plan = plan(&Registry::built_in(), &config(&[])).unwrap();
        let symbols: Vec<&str> = plan.instruments.iter().map(|i| i.symbol.as_str()).collect();
        assert_eq!(symbols, ["GOOG", "IBM"]);
        assert_eq!((plan.folds.len(), plan.actions), (3, 3));
        // 128 wide, then value and advantage each 64 wide with 51 atoms, weights with deviations
        let layer = |inputs: usize, outputs: usize| (inputs + 1) * outputs;
        let streams = layer(128, 64) + layer(64, 51) + layer(128, 64) + layer(64, 153);
        assert_eq!(plan.parameters, layer(plan.observation, 128) + 2 * streams);
        assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
    }

    #[test]
    fn the_plan_warns_of_settings_that_teach_nothing() {
        let plan =
            plan(&Registry::built_in(), &config(&["train.steps=1000", "environment.episode_bars=3000"])).unwrap();
        assert!(plan.warnings.iter().any(|w| w.contains("nothing is learned")), "{:?}", plan.warnings);
        assert!(plan.warnings.iter().any(|w| w.contains("episodes are shorter")), "{:?}", plan.warnings);
    }

    #[test]
    fn what_cannot_be_done_has_its_code() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        assert_eq!(read_config(&file).unwrap_err().exit_code(), exit::NO_INPUT);
        std::fs::write(&file, "[dqn]\ngama = 1").unwrap();
        assert_eq!(read_config(&file).unwrap_err().exit_code(), exit::CONFIG);
        let missing = format!("data.path={}", folder.path().join("none.csv").display());
        assert_eq!(plan(&Registry::built_in(), &config(&[&missing])).unwrap_err().exit_code(), exit::NO_INPUT);
        let one_fold_too_many = config(&["folds.count=1000"]);
        assert_eq!(plan(&Registry::built_in(), &one_fold_too_many).unwrap_err().exit_code(), exit::DATA);
    }
}
