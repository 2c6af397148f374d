//! What the verbs that start workers share: show or keep the plan, run it, explain a failure.

use super::failure::failure;
use super::hints::out_of_memory_kills;
use super::{Done, Refusal};
use crate::cli::LaunchOptions;
use crate::plan::devices::DeviceError;
use crate::plan::run_folder::FolderError;
use crate::plan::worker_binary::WorkerError;
use crate::plan::{LaunchPlan, run_folder};
use crate::process::identity::Identity;
use crate::process::lock::FolderLock;
use crate::process::{self, print, scratch};
use crate::registry::{self, Job};
use crate::screen::Screen;
use crate::supervisor::act;
use foxlaunch_shared::exit;
use foxlaunch_shared::run_dir::RunDir;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a rank may stand still, where it is watched and nothing else was said.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(600);

/// In checkpoints and evaluations a rank may stand still for this many times as long.
const LONG_PHASES: u32 = 10;

/// How long a rank may stand still in a step, in a checkpoint, and in an evaluation. `default` is for a step.
pub fn hang_timeouts(options: &LaunchOptions, default: Option<Duration>) -> [Option<Duration>; 3] {
    let step = options.hang_timeout.or(default);
    let long = step.map(|step| step * LONG_PHASES);
    [step, options.checkpoint_timeout.or(long), options.evaluation_timeout.or(long)]
}

/// Starts what `plan` says, in its run folder, to the end. With `--dry-run` only the plan is printed.
/// `scratch` is the guardian's folder; `headline` is the one line that tells a person what is started.
pub fn launch(plan: &LaunchPlan, options: &LaunchOptions, scratch: &Path, headline: Option<String>) -> Done {
    if let Some((option, rank)) = plan.absent_rank() {
        let words = format!("{option} names rank {rank}, but there are {} workers, from 0", plan.world());
        return Err(Refusal::new(exit::USAGE, words));
    }
    if let Some(words) = plan.restart_fault() {
        return Err(Refusal::new(exit::USAGE, words));
    }
    if options.dry_run {
        print::out(format_args!("{:#}", plan.to_json()));
        return Ok(exit::OK);
    }
    let screen = Arc::new(Screen::new(options.quiet, plan.secrets.clone()));
    enough_files(plan.devices.len())?;
    let scraped = options.metrics_addr.map(listen).transpose()?;
    let _ours_alone = keep(plan)?;
    scratch::sweep_beside(scratch);
    let entered = scratch::owner(scratch).and_then(|guardian| registry::enter(&job(plan, guardian)));
    if let Err(error) = &entered {
        screen.mention(&format!("foxlaunch ls will not show this job: {error}"));
    }
    plan.notes.iter().for_each(|note| screen.mention(note));
    headline.iter().for_each(|line| screen.mention(line));
    plan.placement.words().iter().for_each(|line| screen.mention(line));
    if options.tee.is_some() || options.redirects.is_some() {
        let logs = plan.logs.display();
        screen.mention(&format!("--tee and --redirects change nothing: all output is shown, and kept in {logs}"));
    }
    let before = out_of_memory_kills();
    if let Some(listener) = &scraped {
        announce(listener, &screen);
    }
    let finished = act::supervise(plan, screen.clone(), scraped)?;
    failure(plan, &finished, out_of_memory_kills() > before).iter().for_each(|line| screen.tell(line));
    if finished.logs_lost && plan.outputs.strict_logs && finished.outcome.code == exit::OK {
        screen.tell("all workers ended well, but a log could not be written (--strict-logs)");
        return Ok(exit::CANT_CREATE);
    }
    Ok(finished.outcome.code)
}

/// Opens the port for `--metrics-addr`.
fn listen(address: SocketAddr) -> Result<TcpListener, Refusal> {
    TcpListener::bind(address).map_err(|error| {
        Refusal::new(exit::UNAVAILABLE, format!("--metrics-addr {address} cannot be listened on: {error}"))
    })
}

/// Says where the numbers are, and who can read them.
fn announce(listener: &TcpListener, screen: &Screen) {
    let Ok(address) = listener.local_addr() else { return };
    let others = if address.ip().is_loopback() { "" } else { ", readable by anyone who reaches this address" };
    screen.mention(&format!("numbers at http://{address}/metrics{others}"));
}

/// Refuses a job that would run out of descriptors half-way: each worker takes two pipes, a log, and three sockets.
fn enough_files(workers: usize) -> Result<(), Refusal> {
    let (limit, needed) = (process::open_file_limit(), 32 + 8 * workers as u64);
    if limit >= needed {
        return Ok(());
    }
    let words = format!(
        "{workers} workers need {needed} open files, but the limit is {limit}: raise it with ulimit -n {needed}"
    );
    Err(Refusal::new(exit::UNAVAILABLE, words))
}

/// How the job is written down for `ls` and `stop`.
fn job(plan: &LaunchPlan, guardian: Identity) -> Job {
    Job {
        guardian,
        name: plan.run_id.to_string(),
        verb: plan.verb.clone(),
        workers: plan.world().0,
        started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        folder: plan.run.path().to_owned(),
    }
}

/// Makes the run's folder, with the plan and the settings in it, and holds it for this job alone.
fn keep(plan: &LaunchPlan) -> Result<FolderLock, Refusal> {
    run_folder::make(&plan.run)?;
    let lock = FolderLock::take(&plan.run.lock()).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            let words = format!("{} is in use by another foxlaunch", plan.run.path().display());
            Refusal::new(exit::CANT_CREATE, words)
        }
        _ => Refusal::new(exit::CANT_CREATE, format!("{}: {error}", plan.run.lock().display())),
    })?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&plan.logs);
    made.map_err(|error| {
        let words = format!("the logs' folder {} cannot be made: {error}", plan.logs.display());
        Refusal::new(exit::CANT_CREATE, words)
    })?;
    let write = |path: PathBuf, text: String| {
        process::write_private(&path, text)
            .map_err(|error| Refusal::new(exit::CANT_CREATE, format!("{}: {error}", path.display())))
    };
    write(plan.run.plan(), format!("{:#}\n", plan.to_json()))?;
    if let Some(settings) = &plan.settings {
        write(plan.run.config(), plan.secrets.hide(&settings.values.to_toml()))?;
    }
    Ok(lock)
}

/// The logs' folder: what `--log-dir` says, or the run's own.
pub fn logs(options: &LaunchOptions, run: &RunDir) -> PathBuf {
    match &options.log_dir {
        Some(folder) => std::path::absolute(folder).unwrap_or_else(|_| folder.clone()),
        None => run.logs(),
    }
}

impl From<DeviceError> for Refusal {
    fn from(error: DeviceError) -> Refusal {
        let code = match error {
            DeviceError::Contradiction(_) => exit::USAGE,
            DeviceError::Visible(_) | DeviceError::NoGpus(_) | DeviceError::TooFew { .. } => exit::UNAVAILABLE,
        };
        Refusal::new(code, error)
    }
}

impl From<WorkerError> for Refusal {
    fn from(error: WorkerError) -> Refusal {
        let code = match error {
            WorkerError::Library { .. } => exit::NOT_FOUND,
            _ => exit::UNAVAILABLE,
        };
        Refusal::new(code, error)
    }
}

impl From<FolderError> for Refusal {
    fn from(error: FolderError) -> Refusal {
        let code = match error {
            FolderError::NotEmpty(_) | FolderError::Io(..) => exit::CANT_CREATE,
            FolderError::NotARun(_) => exit::NO_INPUT,
        };
        Refusal::new(code, error)
    }
}
