//! Finding our own worker, and asking it what it can do.

use crate::process::child::Ended;
use crate::process::command::Program;
use foxlaunch_shared::answers::{About, DataReport, WorkerPlan};
use foxlaunch_shared::evaluation::FoldResult;
use foxlaunch_shared::{env, exit};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use thiserror::Error;

/// How long a worker may take to say what it is: it opens no device for that.
const DEADLINE: Duration = Duration::from_secs(20);

/// Why a worker cannot be used.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// There is no such binary.
    #[error(
        "there is no {name} beside foxlaunch, in PATH or in FOXLAUNCH_WORKER; build it with\n  {}",
        build_line(.name)
    )]
    Missing {
        /// The binary's name.
        name: &'static str,
    },
    /// The dynamic linker could not load it.
    #[error("{path} cannot start: {reason}; install that library, or add its folder to LD_LIBRARY_PATH")]
    Library {
        /// The binary.
        path: PathBuf,
        /// What the linker says.
        reason: String,
    },
    /// It does not answer as a worker does.
    #[error("{path} does not answer as a foxlaunch worker: {reason}")]
    NoAnswer {
        /// The binary.
        path: PathBuf,
        /// What came instead.
        reason: String,
    },
    /// It is of another version.
    #[error("{path} is of version {got}, this launcher of {}; build both from one source", env!("CARGO_PKG_VERSION"))]
    Version {
        /// The binary.
        path: PathBuf,
        /// Its version.
        got: String,
    },
    /// It was built without what is needed.
    #[error("{path} was built without {what}; build it with\n  {}", build_line("foxlaunch-worker-cuda"))]
    Without {
        /// The binary.
        path: PathBuf,
        /// The missing feature.
        what: &'static str,
    },
}

fn build_line(name: &str) -> &'static str {
    match name {
        "foxlaunch-worker-cuda" => {
            "cargo build --release -p foxlaunch-worker --features nccl --bin foxlaunch-worker-cuda"
        }
        _ => "cargo build --release -p foxlaunch-worker",
    }
}

/// What a worker says of a file: what it holds, or with which exit code and why it is refused.
pub type Surveyed = Result<DataReport, (i32, String)>;

/// Our own worker.
#[derive(Clone, Debug)]
pub struct WorkerBinary {
    /// Where it is.
    pub path: PathBuf,
}

impl WorkerBinary {
    /// Finds the worker for the processor (`cuda` false) or for NVIDIA devices; with `several`, one that can average
    /// over them.
    pub fn find(cuda: bool, several: bool) -> Result<WorkerBinary, WorkerError> {
        let name = if cuda { "foxlaunch-worker-cuda" } else { "foxlaunch-worker" };
        let path = look_up(name).ok_or(WorkerError::Missing { name })?;
        let worker = WorkerBinary { path };
        let about = worker.about()?;
        let path = worker.path.clone();
        if about.version != env!("CARGO_PKG_VERSION") {
            return Err(WorkerError::Version { path, got: about.version });
        }
        match () {
            () if cuda && !about.cuda => Err(WorkerError::Without { path, what: "CUDA" }),
            () if cuda && several && !about.nccl => {
                Err(WorkerError::Without { path, what: "NCCL, which several devices need" })
            }
            () => Ok(worker),
        }
    }

    /// Runs the binary with `args` and waits for its end.
    fn ask(&self, args: &[OsString]) -> Result<std::process::Output, WorkerError> {
        let unset = env::inherited_contract().map(str::to_owned).collect();
        let question = Program { program: self.path.clone(), args: args.to_vec(), set: Vec::new(), unset };
        question.ask().map_err(|e| WorkerError::NoAnswer { path: self.path.clone(), reason: e.to_string() })
    }

    /// Asks what it was built with.
    pub fn about(&self) -> Result<About, WorkerError> {
        let (answer, wait) = mpsc::channel();
        let this = self.clone();
        let no_answer = |reason: String| WorkerError::NoAnswer { path: self.path.clone(), reason };
        crate::process::signals::spawn_deaf("about", move || answer.send(this.ask(&["--about".into()])))
            .map_err(|error| no_answer(error.to_string()))?;
        let output = wait.recv_timeout(DEADLINE).map_err(|_| no_answer(format!("nothing within {DEADLINE:?}")))??;
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.code() == Some(exit::NOT_FOUND) && words.contains("shared librar") {
            let reason = words.rsplit(": error while loading ").next().unwrap_or(&words).to_owned();
            return Err(WorkerError::Library { path: self.path.clone(), reason });
        }
        let ended = Ended::from(output.status);
        if !ended.is_success() {
            return Err(no_answer(format!("it {ended} {words}").trim_end().to_owned()));
        }
        serde_json::from_slice(&output.stdout).map_err(|e| no_answer(format!("{e} {words}").trim_end().to_owned()))
    }

    /// Asks what needs data or networks to know, for the settings in `config`. An error is the worker's own: its
    /// exit code and its words.
    pub fn plan(&self, config: &Path) -> Result<WorkerPlan, (i32, String)> {
        let answer = self.answer(&["plan".into(), "--config".into(), config.into()])?;
        serde_json::from_slice(&answer).map_err(|e| self.unreadable("plan", &e))
    }

    /// Asks what the files at `paths` hold, under the settings in `config`: of each a report, or the exit code and the
    /// reason for which it is refused.
    pub fn survey(&self, config: &Path, paths: &[OsString]) -> Result<Vec<Surveyed>, (i32, String)> {
        let mut args = vec!["data".into(), "--config".into(), config.into(), "--".into()];
        args.extend(paths.iter().cloned());
        let answer = self.answer(&args)?;
        let lines = answer.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(|e| self.unreadable("answer", &e))).collect()
    }

    /// Asks what the policy of `fold` of the run in `run`, or of its last fold, is worth on the data that the settings in
    /// `config` name.
    pub fn evaluate(&self, config: &Path, run: &Path, fold: Option<usize>) -> Result<FoldResult, (i32, String)> {
        let mut args = vec!["evaluate".into(), "--config".into(), config.into(), "--run".into(), run.into()];
        args.extend(fold.into_iter().flat_map(|fold| ["--fold".into(), fold.to_string().into()]));
        let answer = self.answer(&args)?;
        serde_json::from_slice(&answer).map_err(|e| self.unreadable("result", &e))
    }

    /// Asks for the table of positions of the policies in `runs`, each with its settings.
    pub fn predict(&self, runs: &[(PathBuf, PathBuf)]) -> Result<Vec<u8>, (i32, String)> {
        let mut args: Vec<OsString> = vec!["predict".into()];
        args.extend(runs.iter().flat_map(|(_, config)| ["--config".into(), config.into()]));
        args.push("--".into());
        args.extend(runs.iter().map(|(run, _)| run.into()));
        self.answer(&args)
    }

    /// What the worker prints for `args`; an error is its own, its exit code and its words.
    fn answer(&self, args: &[OsString]) -> Result<Vec<u8>, (i32, String)> {
        let output = self.ask(args).map_err(|e| (exit::SOFTWARE, e.to_string()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.trim().trim_start_matches("foxlaunch-worker: ");
        let ended = Ended::from(output.status);
        match (ended, words) {
            (Ended::Code(code), words) if !words.is_empty() => Err((code, words.to_owned())),
            // It could not say why.
            (ended, words) => {
                let asked = args.first().map(|verb| verb.to_string_lossy()).unwrap_or_default();
                let hint = match ended {
                    Ended::Signal(9) => "; was the machine out of memory (dmesg)?",
                    _ => "",
                };
                let said = if words.is_empty() { String::new() } else { format!("; it said: {words}") };
                let path = self.path.display();
                Err((ended.exit_code(), format!("{path} {ended} when it was asked for its {asked:?}{hint}{said}")))
            }
        }
    }

    fn unreadable(&self, what: &str, error: &serde_json::Error) -> (i32, String) {
        (exit::SOFTWARE, format!("{}: its {what} cannot be read: {error}", self.path.display()))
    }
}

fn look_up(name: &str) -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os(env::FOXLAUNCH_WORKER) {
        return Some(chosen.into());
    }
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(name)));
    let in_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    beside.into_iter().chain(in_path.map(|folder| folder.join(name))).find(|path| path.is_file())
}
