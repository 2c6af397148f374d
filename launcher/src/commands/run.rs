//! `foxlaunch run -- CMD...`: any program, one process per device, under torchrun's environment contract.

use super::launch::{HANG_TIMEOUT, hang_timeouts, launch, logs};
use super::{Done, Refusal};
use crate::cli::{LaunchOptions, Visible};
use crate::plan::outputs::Outputs;
use crate::plan::placement::Placement;
use crate::plan::{LaunchPlan, devices, run_folder, transport};
use crate::secrets::Secrets;
use clap::Args;
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::{Attempt, Rank, RunId};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Run any program, one process per device.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The run's folder, which must be empty or not there [default: runs/run-<UTC>-<4 hex>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// CMD is a Python module, as torchrun's -m has it: run it under python3 -u -m
    #[arg(short, long)]
    pub module: bool,
    /// Run CMD itself, also if it is a .py file that is not executable
    #[arg(long, conflicts_with = "module")]
    pub no_python: bool,
    /// The program and its arguments; a .py file that is not executable runs under python3
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Does it.
pub fn run(args: RunArgs, options: &LaunchOptions, scratch: &Path) -> Done {
    let interpreter = match (args.module, args.no_python) {
        (true, _) => Interpreter::Module,
        (_, true) => Interpreter::None,
        _ => Interpreter::IfNeeded,
    };
    let (program, args_of_program) = program_of(args.command, interpreter)?;
    let chosen = devices::choose(options, 1)?;
    let run = run_folder::choose(args.out.as_deref(), "run")?;
    let watched = options.hang_on.map(|_| HANG_TIMEOUT);
    let [hang_timeout, checkpoint_timeout, evaluation_timeout] = hang_timeouts(options, watched);
    let plan = LaunchPlan {
        verb: "run".into(),
        run_id: RunId(run.path().file_name().unwrap_or_default().to_string_lossy().into_owned()),
        logs: logs(options, &run),
        attempt: Attempt::FIRST,
        program,
        args: args_of_program,
        own_worker: false,
        sees_own_only: options.visible == Visible::Own,
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
        secrets: Secrets::of_this_process(),
        // The program says what it needs; that there is no GPU is news only if one was expected.
        notes: Vec::new(),
        settings: None,
        preview: None,
        run,
    };
    launch(&plan, options, scratch, None)
}

/// Whether what is to be executed goes to Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interpreter {
    /// A .py file that cannot be executed itself does.
    IfNeeded,
    /// It is a module.
    Module,
    /// No.
    None,
}

/// What to execute: what goes to the interpreter does so unbuffered, so that its output comes when it is printed.
fn program_of(mut command: Vec<OsString>, how: Interpreter) -> Result<(PathBuf, Vec<OsString>), Refusal> {
    if command.is_empty() {
        return Err(Refusal::new(exit::USAGE, "run needs a program"));
    }
    let first = command.remove(0);
    if first.as_encoded_bytes().starts_with(b"-") {
        let words = format!(
            "{} is no program; launch options stand before the verb, as foxlaunch --nproc 2 run CMD",
            first.display()
        );
        return Err(Refusal::new(exit::USAGE, words));
    }
    let path = Path::new(&first);
    let is_python = path.extension().is_some_and(|extension| extension == "py");
    let executable = || std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o111 != 0);
    let before: &[&str] = match how {
        Interpreter::Module => &["-u", "-m"],
        Interpreter::IfNeeded if is_python && !executable() => &["-u"],
        _ => return Ok((first.into(), command)),
    };
    command.splice(0..0, before.iter().map(OsString::from).chain([first]));
    Ok(("python3".into(), command))
}
