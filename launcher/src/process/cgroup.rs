//! A cgroup of a job's own, where one can be made: whoever a worker started is in it, wherever that fled to, and the
//! kernel kills all of them at once, at the word of any process that lives. Where none can be made, a job does
//! without, and nothing is said.

use super::identity::Identity;
use super::surroundings;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How the folders' names begin.
const PREFIX: &str = "foxlaunch-";
/// The file in the scratch folder that names the job's cgroup.
const NOTE: &str = "cgroup";
/// How long a cgroup may take to be empty after its processes were killed.
pub const EMPTY_WITHIN: Duration = Duration::from_secs(5);

/// The cgroup of this process's job.
static JOBS: OnceLock<JobCgroup> = OnceLock::new();

/// A job's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobCgroup(PathBuf);

impl JobCgroup {
    /// Makes one in `parent`, and notes it in the folder `scratch`. Nothing where this user may not, or the kernel
    /// knows no `cgroup.kill` (before 5.14).
    pub fn make_in(parent: &Path, scratch: &Path) -> Option<JobCgroup> {
        // The scratch folder's name is unique, and begins as ours does.
        let folder = parent.join(scratch.file_name()?);
        std::fs::create_dir(&folder).ok()?;
        let made = JobCgroup(folder);
        let usable = made.0.join("cgroup.kill").exists() && made.0.join("cgroup.procs").exists();
        if usable && std::fs::write(scratch.join(NOTE), made.0.as_os_str().as_encoded_bytes()).is_ok() {
            return Some(made);
        }
        made.remove();
        None
    }

    /// Makes one below this process's own.
    pub fn make(scratch: &Path) -> Option<JobCgroup> {
        JobCgroup::make_in(&surroundings::own_cgroup()?, scratch)
    }

    /// The one that is noted in `scratch`, if that folder is this user's and what it names may be ours.
    pub fn noted_in(scratch: &Path) -> Option<JobCgroup> {
        use std::os::unix::ffi::OsStringExt;
        let ours = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == user());
        let noted = std::fs::read(scratch.join(NOTE)).ok().filter(|_| ours(scratch))?;
        let folder = PathBuf::from(std::ffi::OsString::from_vec(noted));
        let named_so = folder.file_name()?.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        (named_so && folder.is_absolute() && folder.join("cgroup.kill").exists()).then_some(JobCgroup(folder))
    }

    /// From now on workers of this process are started in it, and [`kill_all`] means it.
    pub fn adopt(self) {
        let _ = JOBS.set(self);
    }

    /// Where a process that writes `0` puts itself into the cgroup.
    pub fn entrance(&self) -> Option<File> {
        OpenOptions::new().write(true).open(self.0.join("cgroup.procs")).ok()
    }

    /// Kills everything in it, and what that starts meanwhile.
    pub fn kill(&self) {
        let file = OpenOptions::new().write(true).open(self.0.join("cgroup.kill"));
        let _ = file.and_then(|mut file| file.write_all(b"1"));
    }

    /// Kills everything in it and removes it, once it is empty.
    pub fn end(&self) {
        self.end_within(EMPTY_WITHIN);
    }

    /// The same, at least once, and no longer than `limit`.
    pub fn end_within(&self, limit: Duration) {
        let start = Instant::now();
        while self.0.exists() {
            self.kill();
            if self.remove() || start.elapsed() >= limit {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Removes it and those below, as of a launch inside a worker; whether it is gone.
    fn remove(&self) -> bool {
        fn all(folder: &Path, depth: usize) {
            let inside = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let folders = inside.filter(|entry| depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.for_each(|entry| all(&entry.path(), depth - 1));
            let _ = std::fs::remove_dir(folder);
        }
        all(&self.0, 8);
        !self.0.exists()
    }
}

fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// The cgroup that was adopted.
pub fn of_job() -> Option<&'static JobCgroup> {
    JOBS.get()
}

/// Kills everything in the adopted cgroup, if there is one.
pub fn kill_all() {
    JOBS.get().into_iter().for_each(JobCgroup::kill);
}

/// Ends the cgroup that is noted in `scratch` once both `guardian` and `supervisor` are gone, and removes the
/// folder: the last that is left to do so if both were killed at once.
pub fn outlive(guardian: &Identity, supervisor: &Identity, scratch: &Path) -> std::io::Result<()> {
    let Some(cgroup) = JobCgroup::noted_in(scratch) else { return Ok(()) };
    for process in [guardian, supervisor] {
        if let Some(held) = process.hold()? {
            while !held.ends_within(Duration::from_secs(3600))? {}
        }
    }
    cgroup.end();
    super::scratch::remove(scratch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a cgroup's, with the scratch folder's name.
    fn parent_and_scratch() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let scratch = root.path().join("foxlaunch-1");
        std::fs::create_dir_all(&scratch).unwrap();
        std::fs::create_dir(root.path().join("tree")).unwrap();
        (root, scratch)
    }

    #[test]
    fn what_is_no_cgroup_is_left_as_it_was() {
        let (root, scratch) = parent_and_scratch();
        let tree = root.path().join("tree");
        assert_eq!(JobCgroup::make_in(&tree, &scratch), None);
        assert_eq!(std::fs::read_dir(&tree).unwrap().count(), 0);
        assert_eq!(JobCgroup::make_in(&root.path().join("missing"), &scratch), None);
        assert_eq!(JobCgroup::noted_in(&scratch), None);
    }

    #[test]
    fn only_a_note_that_may_be_ours_is_believed() {
        let (root, scratch) = parent_and_scratch();
        let make = |name: &str| {
            let folder = root.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("cgroup.kill"), "").unwrap();
            folder
        };
        let (ours, others) = (make("foxlaunch-2"), make("user.slice"));
        let note = |text: &str| {
            std::fs::write(scratch.join(NOTE), text).unwrap();
            JobCgroup::noted_in(&scratch)
        };
        let found = note(ours.to_str().unwrap()).unwrap();
        found.kill();
        assert_eq!(std::fs::read(ours.join("cgroup.kill")).unwrap(), b"1");
        for wrong in [others.to_str().unwrap(), "foxlaunch-2", "", "/", "/no/such/foxlaunch-2"] {
            assert_eq!(note(wrong), None, "{wrong}");
        }
    }
}
