//! What the operating system gives to this process: space, limits, a cgroup.

use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// What this user may still use.
    pub free: u64,
}

/// The space of the file system on which `path` is.
pub fn space(path: &Path) -> std::io::Result<Space> {
    let stat = statvfs(path)?;
    Ok(Space { total: stat.f_blocks * stat.f_frsize, free: stat.f_bavail * stat.f_frsize })
}

/// Whether this user may write to `path`.
pub fn is_writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

/// How many files a process may have open, and how far it may raise that; `None` for no limit.
pub fn open_files() -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum)
}

/// The folder of this process's cgroup, of version 2.
pub fn own_cgroup() -> Option<PathBuf> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    cgroup_folder(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup")).filter(|path| path.is_dir())
}

/// Where the cgroup is mounted, joined with the process's place in it. A container sees a part of the tree only: the
/// mount's own root is taken off.
fn cgroup_folder(mounts: &str, cgroups: &str) -> Option<PathBuf> {
    let mount =
        mounts.lines().find(|line| line.split(" - ").nth(1).is_some_and(|rest| rest.starts_with("cgroup2 ")))?;
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let below = Path::new(own).strip_prefix(root).ok()?;
    Some(Path::new(point).join(below))
}

/// The memory that NCCL left in `folder` and no process of this user maps any more.
pub fn unused_nccl_memory(folder: &Path) -> Vec<PathBuf> {
    let user = nix::unistd::geteuid().as_raw();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"nccl-"));
    let ours = ours.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == user)).map(|entry| entry.path());
    let mut paths: BTreeSet<PathBuf> = ours.collect();
    if paths.is_empty() {
        return Vec::new();
    }
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let maps = std::fs::read_to_string(process.path().join("maps")).unwrap_or_default();
        paths.retain(|path| !maps.lines().any(|line| line.ends_with(path.to_string_lossy().as_ref())));
    }
    paths.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_found_below_its_mount() {
        let mounts = "24 1 0:22 / /proc rw - proc proc rw\n30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n";
        let find = |mounts: &str, own: &str| cgroup_folder(mounts, &format!("1:name=systemd:/x\n0::{own}\n"));
        assert_eq!(find(mounts, "/user/a").unwrap(), Path::new("/sys/fs/cgroup/user/a"));
        assert_eq!(find(mounts, "/").unwrap(), Path::new("/sys/fs/cgroup/"));
        let part = mounts.replace("0:26 / ", "0:26 /pod/x ");
        assert_eq!(find(&part, "/pod/x/y").unwrap(), Path::new("/sys/fs/cgroup/y"));
        assert_eq!(find(&part, "/elsewhere"), None);
        assert_eq!(find("", "/a"), None);
    }

    #[test]
    fn memory_that_is_in_use_or_not_nccls_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["nccl-stale", "other"] {
            std::fs::write(path(name), "x").unwrap();
        }
        assert_eq!(unused_nccl_memory(folder.path()), [path("nccl-stale")]);
        assert!(space(folder.path()).unwrap().total > 0 && is_writable(folder.path()));
        assert!(unused_nccl_memory(&path("missing")).is_empty() && space(&path("missing")).is_err());
    }
}
