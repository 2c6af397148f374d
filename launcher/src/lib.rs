//! foxlaunch: starts one training process per GPU, keeps watch over them, and reports.
//!
//! Three levels of processes. The one that a person starts is the [`guardian`]; it starts the [`supervisor`] (this
//! same binary), which starts the workers. Whichever of the first two dies, the other ends everything below. Where the
//! job can have a cgroup, a third one only waits for the ends of both.
//!
//! From what is typed to what is done:
//!
//! | module | its part |
//! |---|---|
//! | [`cli`], [`commands`] | the words of the command line; each verb with its arguments in one file |
//! | [`plan`] | arguments, settings and [`devices`] become one plan; past it no code looks at what was typed |
//! | [`supervisor`] | what happens becomes events, `state` decides purely, `act` does |
//! | [`rendezvous`], [`logs`], [`process`] | the workers' channels, their output, the operating system |
//! | [`registry`] | which jobs run, so that any terminal can find and stop one |
//! | [`screen`], [`report`] | what a person sees meanwhile and after |
//! | [`metrics`] | a job's numbers for Prometheus, on request |
//! | [`secrets`] | what is never written down |

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod cli;
pub mod commands;
pub mod devices;
pub mod guardian;
pub mod logs;
pub mod metrics;
pub mod plan;
pub mod process;
pub mod registry;
pub mod rendezvous;
pub mod report;
pub mod screen;
pub mod secrets;
pub mod supervisor;

use clap::Parser;
use cli::{Cli, Command};
use commands::{Done, Refusal};
use foxlaunch_shared::{env, exit};
use process::{cgroup, command, descendants, lifeline, scratch, signals};
use std::ffi::OsString;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long processes are waited for that do not even end when killed, where no one waited for them before.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// The same after an orderly end, in which they were waited for.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// The launcher: reads the command line and does what it says.
pub fn main() -> ExitCode {
    signals::ignore_broken_pipes();
    signals::hear_of_children();
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match args.split_first() {
        Some((verb, rest)) if verb == guardian::SUPERVISE => supervise_to_the_end(rest),
        Some((verb, rest)) if verb == guardian::OUTLIVE => outlive(rest),
        _ => guard(cli::with_verb(args, |word| Path::new(word).is_file())),
    };
    let code = done.unwrap_or_else(|refusal| {
        screen::complain(&secrets::Secrets::of_this_process().hide(&refusal.message));
        refusal.code
    });
    // A code is one byte to whoever waits for us; a failure must not become 0 by that.
    ExitCode::from(u8::try_from(code).unwrap_or(exit::FAILURE as u8))
}

/// The outer process. What starts workers goes to a supervisor; the rest is done here.
fn guard(args: Vec<OsString>) -> Done {
    let mut cli = Cli::parse_from(named(&args));
    cli.json_for_the_verb();
    match &cli.command {
        Command::Devices(devices) => commands::devices::devices(devices, &cli.launch),
        Command::Report(report) => commands::report::report(report),
        Command::Data(data) => commands::data::data(data),
        Command::Evaluate(evaluate) => commands::evaluate::evaluate(evaluate),
        Command::Predict(predict) => commands::predict::predict(predict),
        Command::Doctor(doctor) => commands::doctor::doctor(doctor),
        Command::Ls(ls) => commands::ls::ls(ls),
        Command::Stop(stop) => commands::stop::stop(stop),
        Command::Train(_) | Command::Run(_) => {
            guardian::guard(args).map_err(|error| Refusal::new(exit::CANT_CREATE, format!("cannot start: {error}")))
        }
    }
}

/// `args` behind the name that help and errors show.
fn named(args: &[OsString]) -> impl Iterator<Item = OsString> {
    std::iter::once(OsString::from("foxlaunch")).chain(args.iter().cloned())
}

/// The supervisor, which ends nothing before all below it: its end kills the workers, but not what they started.
fn supervise_to_the_end(args: &[OsString]) -> Done {
    let done = catch_unwind(|| supervise(args));
    command::close_gate();
    let limit = if done.is_ok() { LAST_LOOK } else { LAST_WAIT };
    descendants::kill_all(limit, |_, _| {});
    done.unwrap_or_else(|_| Err(Refusal::new(exit::SOFTWARE, "a fault of foxlaunch itself ended this job; see above")))
}

/// The supervisor: the same command line, below a guardian.
fn supervise(args: &[OsString]) -> Done {
    let scratch = below_guardian().ok_or_else(|| {
        Refusal::new(exit::USAGE, format!("{} is for foxlaunch itself; see foxlaunch --help", guardian::SUPERVISE))
    })?;
    let cli = Cli::parse_from(named(args));
    match cli.command {
        Command::Train(train) => commands::train::train(&train, &cli.launch, &scratch),
        Command::Run(run) => commands::run::run(run, &cli.launch, &scratch),
        Command::Data(_)
        | Command::Devices(_)
        | Command::Doctor(_)
        | Command::Evaluate(_)
        | Command::Predict(_)
        | Command::Report(_)
        | Command::Ls(_)
        | Command::Stop(_) => Err(Refusal::new(exit::SOFTWARE, "nothing to supervise")),
    }
}

/// The process that waits for guardian and supervisor to be gone, and ends what neither of them could.
fn outlive(args: &[OsString]) -> Done {
    let wrong =
        || Refusal::new(exit::USAGE, format!("{} is for foxlaunch itself; see foxlaunch --help", guardian::OUTLIVE));
    let [guardian, supervisor, scratch] = args else { return Err(wrong()) };
    let identity = |text: &OsString| serde_json::from_str(text.to_str()?).ok();
    let (guardian, supervisor) = identity(guardian).zip(identity(supervisor)).ok_or_else(wrong)?;
    cgroup::outlive(&guardian, &supervisor, Path::new(scratch)).map_err(|error| Refusal::new(exit::SOFTWARE, error))?;
    Ok(exit::OK)
}

/// Takes up the line to the guardian: when it dies, everything below this process is killed, and this process ends.
/// Gives the folder for sockets.
fn below_guardian() -> Option<PathBuf> {
    let number: i32 = std::env::var(env::FOXLAUNCH_LIFELINE).ok()?.parse().ok()?;
    let scratch = PathBuf::from(std::env::var_os(env::FOXLAUNCH_SCRATCH)?);
    let _ = tempfile::env::override_temp_dir(&scratch);
    cgroup::JobCgroup::noted_in(&scratch).into_iter().for_each(cgroup::JobCgroup::adopt);
    signals::keep_running_in_the_background().ok()?;
    descendants::become_subreaper().ok()?;
    let folder = scratch.clone();
    lifeline::watch(number, move || after_the_guardian(&folder)).ok()?;
    Some(scratch)
}

/// On the lifeline's own thread, so that it works whatever the others do.
fn after_the_guardian(scratch: &Path) {
    command::close_gate();
    descendants::kill_all(LAST_WAIT, |_, _| {});
    cgroup::of_job().into_iter().for_each(cgroup::JobCgroup::end);
    scratch::remove(scratch);
    // Not an orderly end: other threads may hold locks, and no one is left to see a code.
    std::process::exit(exit::SUPERVISOR_LOST);
}
