//! `foxlaunch stop RUN`: ends a job in order, from any terminal.
//!
//! It does what a TERM to the job's outer process does, and waits until that is gone. Its codes: 0 if the job has
//! ended, by this or before; 2 if several jobs have that name; 66 if there is none; 69 if it runs where it cannot be
//! signalled from, as in another container; 1 if it does not even end when killed.

use super::{Done, Refusal};
use crate::process::identity::Held;
use crate::process::print;
use crate::registry::{self, Job, State};
use clap::Args;
use foxlaunch_shared::exit;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// End a job in order.
#[derive(Args, Debug)]
pub struct StopArgs {
    /// A run's folder, or its name as `ls` shows it
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Kill its workers now, without the grace
    #[arg(long)]
    pub now: bool,
}

/// How often a job is asked again under `--now`: the second time means at once.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a job may take to kill its workers, before its outer process is killed too.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a killed process may take to be gone.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// Does it.
pub fn stop(args: &StopArgs) -> Done {
    let job = find(&args.run, registry::in_folder(&args.run), registry::jobs())?;
    let name = &job.name;
    let cannot = |error: std::io::Error| Refusal::new(exit::UNAVAILABLE, format!("{name} cannot be stopped: {error}"));
    if job.state() == State::Unknown {
        let why = "it was started in another container, or before this machine was; stop it from there";
        return Err(cannot(std::io::Error::other(why)));
    }
    let Some(guardian) = job.guardian.hold().map_err(cannot)? else {
        print::out(format_args!("{name} has ended already"));
        return Ok(exit::OK);
    };
    let ended = if args.now { kill(&guardian) } else { ask(&guardian, job.is_stopping()) };
    if ended.map_err(cannot)? {
        print::out(format_args!("{name} has ended"));
        return Ok(exit::OK);
    }
    let pid = job.guardian.pid;
    Err(Refusal::new(exit::FAILURE, format!("{name}: process {pid} does not end, even when killed")))
}

/// Asks for an orderly end, and waits for it as long as the job's own grace lasts.
/// One that is stopping already is only waited for: asked again, it would kill its workers.
fn ask(guardian: &Held, is_stopping: bool) -> std::io::Result<bool> {
    // A stopped process acts on nothing else until it is continued.
    guardian.signal(Signal::CONT)?;
    if !is_stopping {
        guardian.signal(Signal::TERM)?;
    }
    while !guardian.ends_within(Duration::from_secs(3600))? {}
    Ok(true)
}

/// Asks again and again, which kills the workers; at last kills the guardian, whose death ends all below.
fn kill(guardian: &Held) -> std::io::Result<bool> {
    let start = Instant::now();
    guardian.signal(Signal::CONT)?;
    while start.elapsed() < PATIENCE {
        guardian.signal(Signal::TERM)?;
        if guardian.ends_within(AGAIN)? {
            return Ok(true);
        }
    }
    guardian.signal(Signal::KILL)?;
    guardian.ends_within(LAST_WAIT)
}

/// The job that `wanted` means: `there`, the one in the folder of that name, or one of `jobs`. A job that runs goes
/// before those of the same name that are over.
fn find(wanted: &Path, there: Option<Job>, jobs: Vec<Job>) -> Result<Job, Refusal> {
    if let Some(job) = there {
        return Ok(job);
    }
    let mut named: Vec<Job> = jobs.into_iter().filter(|job| Path::new(&job.name) == wanted).collect();
    if named.iter().any(|job| job.state() == State::Running) {
        named.retain(|job| job.state() == State::Running);
    }
    let wanted = wanted.display();
    match named.len() {
        0 => {
            let words = format!("there is no job {wanted}: neither a run folder nor a name that foxlaunch ls shows");
            Err(Refusal::new(exit::NO_INPUT, words))
        }
        1 => Ok(named.remove(0)),
        several => {
            let folders: Vec<String> = named.iter().map(|job| job.folder.display().to_string()).collect();
            let words = format!("{several} jobs are named {wanted}; give a folder: {}", folders.join(", "));
            Err(Refusal::new(exit::USAGE, words))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::identity::Identity;

    fn job(name: &str, folder: &str) -> Job {
        let guardian = Identity::mine().unwrap();
        Job { guardian, name: name.into(), verb: "run".into(), workers: 1, started: 0.0, folder: folder.into() }
    }

    #[test]
    fn a_name_must_mean_one_job() {
        let jobs = || vec![job("a", "/x/a"), job("b", "/x/b"), job("a", "/y/a")];
        let folder = |wanted: &str, there| find(Path::new(wanted), there, jobs()).map(|job| job.folder);
        assert_eq!(folder("b", None).unwrap(), Path::new("/x/b"));
        assert_eq!(folder("a", Some(job("a", "/z/a"))).unwrap(), Path::new("/z/a"));
        let several = folder("a", None).unwrap_err();
        assert_eq!((several.code, several.message.as_str()), (2, "2 jobs are named a; give a folder: /x/a, /y/a"));
        assert_eq!(folder("c", None).unwrap_err().code, 66);
    }
}
