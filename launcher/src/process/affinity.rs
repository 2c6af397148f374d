//! Which cores this process may run on, and starting a process on some of them.

use super::surroundings::own_cgroup;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeSet;

/// The calling thread.
const SELF: Pid = Pid::from_raw(0);

/// The cores that this process may run on: as it was started (`taskset`, a container), within its cgroup's cpuset as
/// `parse` reads it.
pub fn allowed(parse: impl Fn(&str) -> Option<BTreeSet<usize>>) -> BTreeSet<usize> {
    let own: BTreeSet<usize> = sched_getaffinity(SELF).map(|set| cores(&set)).unwrap_or_default();
    let list = own_cgroup().and_then(|folder| super::read_text(folder.join("cpuset.cpus.effective")).ok());
    match list.and_then(|list| parse(&list)) {
        Some(group) if group.intersection(&own).next().is_some() => group.intersection(&own).copied().collect(),
        _ => own,
    }
}

fn cores(set: &CpuSet) -> BTreeSet<usize> {
    (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect()
}

/// Runs `start`, which starts a process, while this thread may run on `cores` only: what it starts inherits that from
/// its first instruction on. If the kernel refuses, it is started on all cores, which costs speed and nothing else.
pub fn on_cores<T>(cores: Option<&BTreeSet<usize>>, start: impl FnOnce() -> T) -> T {
    let Some((before, wanted)) = cores.and_then(|cores| Some((sched_getaffinity(SELF).ok()?, set_of(cores)?))) else {
        return start();
    };
    let _ = sched_setaffinity(SELF, &wanted);
    let started = start();
    let _ = sched_setaffinity(SELF, &before);
    started
}

fn set_of(cores: &BTreeSet<usize>) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    cores.iter().try_for_each(|core| set.set(*core)).ok()?;
    (!cores.is_empty()).then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_started_on_its_cores_and_we_stay_on_ours() {
        let all = allowed(|_| None);
        let one = BTreeSet::from([*all.last().unwrap()]);
        let look = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = |status: &str| {
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
        };
        let before = list(&look());
        assert_eq!(on_cores(Some(&one), || list(&look())), all.last().unwrap().to_string());
        assert_eq!(list(&look()), before);
        assert_eq!(on_cores(Some(&BTreeSet::new()), || list(&look())), before);
        assert_eq!(on_cores(Some(&BTreeSet::from([1 << 20])), || list(&look())), before, "no such core");
        assert_eq!(on_cores(None, || 7), 7);
    }

    #[test]
    fn the_cgroups_cores_hold_where_they_are_known() {
        let all = allowed(|_| None);
        assert!(!all.is_empty());
        assert_eq!(allowed(|_| Some(BTreeSet::from([1 << 20]))), all, "a list that fits nothing is not believed");
    }
}
