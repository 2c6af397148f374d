//! Which jobs of this user run on this machine: each is written down at its start, in its run folder and in a folder
//! of the user's own, and struck out at its end. One that could not strike itself out is swept at the next start.

use crate::process::identity::{Fate, Identity};
use foxlaunch_shared::run_dir::RunDir;
use serde::{Deserialize, Serialize};
use std::io::{Error, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A job as it was written down at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The process to signal.
    pub guardian: Identity,
    /// The run's name.
    pub name: String,
    /// What it does, as `train dqn`.
    pub verb: String,
    /// How many workers it was started with.
    pub workers: u32,
    /// When, in seconds since 1970, UTC.
    pub started: f64,
    /// The run's folder.
    pub folder: PathBuf,
}

/// What has become of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its guardian lives.
    Running,
    /// It came to its end, which its events tell.
    Ended,
    /// Its guardian is gone, and its events have no end: it was killed.
    Stale,
    /// It was started in another container, or before this machine was: nothing can be said.
    Unknown,
}

/// A job that is written down. Dropping it strikes it out of the user's folder; the run folder keeps it.
#[derive(Debug)]
pub struct Entry(PathBuf);

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes `job` down, and strikes out those that are known to be over.
pub fn enter(job: &Job) -> Result<Entry> {
    let text = serde_json::to_vec(job)?;
    crate::process::write_private(&RunDir::new(&job.folder).job(), &text)?;
    let folder = own_folder()?;
    listed(&folder).into_iter().filter(|(_, job)| job.guardian.fate() == Fate::Gone).for_each(|(path, _)| {
        let _ = std::fs::remove_file(path);
    });
    // The time too: containers that share the folder count their pids apart.
    let name = format!("{}-{:.0}", job.guardian.pid, job.started * 1e3);
    let path = folder.join(format!("{name}.json"));
    // Renamed into place: who lists the folder sees whole files only.
    let new = folder.join(format!("{name}.new"));
    std::fs::write(&new, &text)?;
    std::fs::rename(&new, &path)?;
    Ok(Entry(path))
}

/// All jobs that are written down in the user's folders, the oldest first.
pub fn jobs() -> Vec<Job> {
    let known: Vec<PathBuf> = places().into_iter().filter(|place| is_ours(place).is_ok()).collect();
    let mut jobs: Vec<Job> = known.iter().flat_map(|folder| listed(folder)).map(|(_, job)| job).collect();
    jobs.sort_by(|a, b| a.started.total_cmp(&b.started));
    jobs
}

/// The job that runs, or ran last, in the run folder at `path`.
pub fn in_folder(path: &Path) -> Option<Job> {
    serde_json::from_slice(&std::fs::read(RunDir::new(path).job()).ok()?).ok()
}

impl Job {
    /// What has become of it.
    pub fn state(&self) -> State {
        match self.guardian.fate() {
            Fate::Alive => State::Running,
            Fate::Unknown => State::Unknown,
            Fate::Gone if self.events().last().is_some_and(|event| event["event"] == "end") => State::Ended,
            Fate::Gone => State::Stale,
        }
    }

    /// The number of its latest attempt, once one has begun.
    pub fn attempt(&self) -> Option<u64> {
        self.events().iter().rev().find_map(|event| event["attempt"].as_u64())
    }

    /// Whether its latest attempt was asked to stop already.
    pub fn is_stopping(&self) -> bool {
        let events = self.events();
        let since = events.iter().rev().take_while(|event| event["event"] != "begin");
        since.into_iter().any(|event| event["event"] == "stop")
    }

    fn events(&self) -> Vec<serde_json::Value> {
        let text = crate::process::read_text(RunDir::new(&self.folder).events()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

fn listed(folder: &Path) -> Vec<(PathBuf, Job)> {
    let paths = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let jobs = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    jobs.filter_map(|path| {
        let job = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        Some((path, job))
    })
    .collect()
}

/// Where a user's jobs may be written down, the preferred place first. A session without XDG_RUNTIME_DIR, as one
/// begun by cron, writes to the second, so both are looked at.
fn places() -> Vec<PathBuf> {
    let user = nix::unistd::geteuid();
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    session.map(|path| path.join("foxlaunch")).into_iter().chain([format!("/tmp/foxlaunch-{user}").into()]).collect()
}

/// The first place that can be used, made if it is not there.
fn own_folder() -> Result<PathBuf> {
    let mut refused = Error::other("there is no place for it");
    for place in places() {
        match std::fs::DirBuilder::new().mode(0o700).create(&place) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => refused = named(&place, error),
            _ => match is_ours(&place) {
                Ok(()) => return Ok(place),
                Err(error) => refused = error,
            },
        }
    }
    Err(refused)
}

/// Whether `place` is a folder that only this user can write to: in /tmp anyone may have made it before us.
fn is_ours(place: &Path) -> Result<()> {
    let meta = std::fs::symlink_metadata(place).map_err(|error| named(place, error))?;
    if meta.is_dir() && meta.uid() == nix::unistd::geteuid().as_raw() && meta.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(Error::other(format!("{} is not a folder of mode 0700 of this user", place.display())))
}

fn named(place: &Path, error: Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn job(folder: &Path) -> Job {
        Job {
            guardian: Identity::mine().unwrap(),
            name: "r".into(),
            verb: "run".into(),
            workers: 2,
            started: 1.5,
            folder: folder.to_owned(),
        }
    }

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let job = job(folder.path());
        assert_eq!(in_folder(folder.path()), None);
        std::fs::write(RunDir::new(folder.path()).job(), serde_json::to_vec(&job).unwrap()).unwrap();
        assert_eq!(in_folder(folder.path()), Some(job.clone()));
        assert_eq!((job.state(), job.attempt()), (State::Running, None));
    }

    #[test]
    fn how_a_job_ended_is_in_its_events() {
        let folder = tempfile::tempdir().unwrap();
        let mut over: serde_json::Value = serde_json::to_value(job(folder.path())).unwrap();
        over["guardian"]["started"] = 1.into();
        let over: Job = serde_json::from_value(over).unwrap();
        assert_eq!(over.state(), State::Stale);
        let write = |text: &str| std::fs::write(RunDir::new(folder.path()).events(), text).unwrap();
        write(
            "{\"event\":\"begin\",\"attempt\":1}\n{\"event\":\"begin\",\"attempt\":2}\n{\"event\":\"end\",\"code\":0}\n",
        );
        assert_eq!((over.state(), over.attempt()), (State::Ended, Some(2)));
        write("{\"event\":\"end\",\"code\":0}\n{\"event\":\"begin\",\"attempt\":3}\n{\"event\":\"ex");
        assert_eq!((over.state(), over.attempt()), (State::Stale, Some(3)));
    }

    #[test]
    fn a_folder_that_others_can_use_is_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("foxlaunch");
        std::fs::DirBuilder::new().mode(0o700).create(&place).unwrap();
        is_ours(&place).unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        assert!(is_ours(&link).unwrap_err().to_string().contains("not a folder of mode 0700"));
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert!(is_ours(&place).is_err());
    }
}
