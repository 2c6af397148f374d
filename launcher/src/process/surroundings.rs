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

/// This machine's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The memory of this process that is in use, in bytes.
pub fn resident_memory() -> Option<u64> {
    let status = super::read_text("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The folder of this process's cgroup, of version 2.
pub fn own_cgroup() -> Option<PathBuf> {
    let read = |path| super::read_text(path).unwrap_or_default();
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

/// Shared memory in a folder that no process seems to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unused {
    /// Known to be no one's: all processes here were looked at.
    pub stale: Vec<PathBuf>,
    /// Perhaps another's: some process here cannot be looked at, or the object is none that its maker always maps.
    pub unknown: Vec<PathBuf>,
}

/// The objects of this user that NCCL (`nccl-…`) and PyTorch (`torch_<pid>_…`) left in `folder`, and no process maps.
pub fn unused_memory(folder: &Path) -> Unused {
    let user = nix::unistd::geteuid().as_raw();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let known = |name: &[u8]| name.starts_with(b"nccl-") || name.starts_with(b"torch_");
    let theirs = entries.filter(|entry| known(entry.file_name().as_encoded_bytes()));
    let ours = theirs.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == user)).map(|entry| entry.path());
    let mut paths: BTreeSet<PathBuf> = ours.collect();
    let mut saw_all = true;
    if paths.is_empty() {
        return Unused::default();
    }
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        match super::read_text(process.path().join("maps")) {
            Ok(maps) => paths.retain(|path| !maps.lines().any(|line| line.ends_with(path.to_string_lossy().as_ref()))),
            Err(error) => saw_all &= error.kind() != std::io::ErrorKind::PermissionDenied,
        }
    }
    // PyTorch hands objects on that nobody maps for a moment; while their maker lives they may be such.
    let maker_lives = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let pid = name.strip_prefix("torch_").and_then(|rest| rest.split('_').next()?.parse::<u32>().ok());
        name.starts_with("torch_") && pid.is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists())
    };
    let (unknown, stale) = paths.into_iter().partition(|path| !saw_all || maker_lives(path));
    Unused { stale, unknown }
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
        let mine = format!("torch_{}_7", std::process::id());
        for name in ["nccl-stale", "other", "torch_4294967295_1", "torch_x", &mine] {
            std::fs::write(path(name), "x").unwrap();
        }
        let found = unused_memory(folder.path());
        let all = [&found.stale[..], &found.unknown[..]].concat();
        assert!(all.contains(&path("nccl-stale")) && all.contains(&path("torch_4294967295_1")), "{found:?}");
        assert!(found.unknown.contains(&path("torch_x")) && found.unknown.contains(&path(&mine)), "{found:?}");
        assert!(!all.contains(&path("other")), "{found:?}");
        assert!(space(folder.path()).unwrap().total > 0 && is_writable(folder.path()));
        assert!(unused_memory(&path("missing")) == Unused::default() && space(&path("missing")).is_err());
    }
}
