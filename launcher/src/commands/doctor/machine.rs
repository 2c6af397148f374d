//! What the machine gives: shared memory, open files, disk, a cgroup.

use super::Finding;
use crate::process::identity::Fate;
use crate::process::{scratch, surroundings};
use std::path::{Path, PathBuf};

const GIB: f64 = (1u64 << 30) as f64;
/// Less shared memory than this, and NCCL between several devices may not start: containers give 64 MiB by default.
const LITTLE_SHARED: u64 = 1 << 30;
/// Fewer open files than this are soon used up by data loaders.
const FEW_FILES: u64 = 4096;
/// Less disk than this is soon filled by checkpoints and logs.
const LITTLE_DISK: u64 = 5 << 30;

pub(super) fn shared_memory() -> Vec<Finding> {
    const ABOUT: &str = "shared memory";
    let folder = Path::new("/dev/shm");
    let mut findings = vec![match surroundings::space(folder) {
        Ok(space) if space.total < LITTLE_SHARED => Finding::warn(
            ABOUT,
            format!("/dev/shm holds {:.2} GiB, which NCCL and data loaders may need more of", space.total as f64 / GIB),
            "give the container more: --shm-size=8g, or --ipc=host",
        ),
        Ok(space) if space.free < space.total / 10 => Finding::warn(
            ABOUT,
            format!("/dev/shm has {:.2} of {:.2} GiB free", space.free as f64 / GIB, space.total as f64 / GIB),
            "remove what no process uses from /dev/shm",
        ),
        Ok(space) => {
            Finding::ok(ABOUT, format!("{:.1} of {:.1} GiB free", space.free as f64 / GIB, space.total as f64 / GIB))
        }
        Err(error) => Finding::warn(ABOUT, format!("/dev/shm: {error}"), "mount a tmpfs there, as NCCL needs it"),
    }];
    let unused = surroundings::unused_memory(folder);
    if !unused.stale.is_empty() {
        let found =
            format!("{} objects are left by processes that were killed: {}", unused.stale.len(), named(&unused.stale));
        findings.push(Finding::warn(ABOUT, found, format!("rm {}", named(&unused.stale))));
    }
    if !unused.unknown.is_empty() {
        let found = format!(
            "{} objects may be left by processes that were killed, or be used by one that cannot be seen from here: {}",
            unused.unknown.len(),
            named(&unused.unknown)
        );
        findings.push(Finding::warn(ABOUT, found, "remove them only if no other container or user has a job here"));
    }
    findings
}

/// Paths, one behind another, as a shell takes them.
fn named(paths: &[PathBuf]) -> String {
    let quoted = |path: &PathBuf| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
    paths.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Folders for sockets whose jobs were killed with both of their outer processes.
pub(super) fn scratch_folders() -> Vec<Finding> {
    const ABOUT: &str = "folders of jobs";
    let roots = [std::env::temp_dir(), "/tmp".into()];
    let mut all: Vec<(PathBuf, Fate)> = roots.iter().flat_map(|root| scratch::all_in(root)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.dedup_by(|a, b| a.0 == b.0);
    let of =
        |fate: Fate| all.iter().filter(|(_, found)| *found == fate).map(|(path, _)| path.clone()).collect::<Vec<_>>();
    let (alive, gone, unknown) = (of(Fate::Alive), of(Fate::Gone), of(Fate::Unknown));
    let mut findings = Vec::new();
    if !gone.is_empty() {
        let found = format!("{} are left by jobs that were killed: {}", gone.len(), named(&gone));
        findings.push(Finding::warn(
            ABOUT,
            found,
            format!("the next job removes those beside its own; or rm -r {}", named(&gone)),
        ));
    }
    if !unknown.is_empty() {
        let found = format!("{} belong to no job that is known here: {}", unknown.len(), named(&unknown));
        let advice = "they may be another container's or user's; remove them only if no job runs there";
        findings.push(Finding::warn(ABOUT, found, advice));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(ABOUT, format!("{} of running jobs, none left behind", alive.len())));
    }
    findings
}

pub(super) fn open_files() -> Vec<Finding> {
    const ABOUT: &str = "open files";
    let (soft, hard) = surroundings::open_files();
    let show = |limit: Option<u64>| limit.map_or_else(|| "any number".to_owned(), |limit| limit.to_string());
    let found = format!("a process may open {} (at most {})", show(soft), show(hard));
    vec![match soft {
        Some(few) if few < FEW_FILES => {
            let advice = match hard {
                Some(hard) if hard < FEW_FILES => "raise `nofile` in /etc/security/limits.conf or the container".into(),
                _ => format!("ulimit -n {}", hard.unwrap_or(FEW_FILES * 16).min(FEW_FILES * 16)),
            };
            Finding::warn(ABOUT, found, advice)
        }
        _ => Finding::ok(ABOUT, found),
    }]
}

pub(super) fn disk() -> Vec<Finding> {
    const ABOUT: &str = "disk";
    let here = Path::new(".");
    let writable = surroundings::is_writable(here);
    vec![match surroundings::space(here) {
        _ if !writable => Finding::error(
            ABOUT,
            "the current folder cannot be written",
            "go to another, or name the run's folder with --out",
        ),
        Ok(space) if space.free < LITTLE_DISK => Finding::warn(
            ABOUT,
            format!("{:.2} GiB are free in the current folder", space.free as f64 / GIB),
            "make room, or name a run folder elsewhere with --out",
        ),
        Ok(space) => Finding::ok(ABOUT, format!("{:.0} GiB are free in the current folder", space.free as f64 / GIB)),
        Err(error) => Finding::error(ABOUT, format!("the current folder: {error}"), "go to another"),
    }]
}

pub(super) fn cgroup() -> Vec<Finding> {
    const ABOUT: &str = "cgroup";
    vec![match surroundings::own_cgroup() {
        Some(folder) if surroundings::is_writable(&folder) => {
            Finding::ok(ABOUT, format!("{} is writable", folder.display()))
        }
        // Not a warning: nothing is lost but the answer to three deaths at once.
        Some(folder) => Finding::ok(
            ABOUT,
            format!("{} is not writable: what workers start may survive guardian and supervisor", folder.display()),
        ),
        None => Finding::ok(ABOUT, "no cgroup of version 2 here"),
    }]
}
