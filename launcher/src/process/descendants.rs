//! Finding and ending everything that descends from this process, whatever session or group it fled to.
//!
//! As a subreaper this process becomes the parent of every orphan below it, so the tree of parents, read from
//! `/proc`, is complete: a process can leave its group and its session, but not this tree.

use super::child::{self, Ended};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long we look for processes that are to be stopped.
const PAUSE_LIMIT: Duration = Duration::from_millis(500);

/// Makes this process the parent of all orphans below it. An error where `/proc` does not show this process under
/// its own number, as after `unshare -p` without `--mount-proc`: no descendant could be found there.
pub fn become_subreaper() -> std::io::Result<()> {
    let shown = std::fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
    if shown != Some(std::process::id()) {
        let words = "/proc is missing, or is that of another PID namespace, so that what the workers start could not \
                     be ended: mount the right one (unshare --mount-proc)";
        return Err(std::io::Error::other(words));
    }
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

/// What `/proc` says about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    parent: u32,
    state: char,
    name: String,
    /// In clock ticks since boot: with the pid it names a process for good.
    pub(super) started: u64,
}

impl Stat {
    /// Whether it runs still: what ended may be seen until its parent has taken notice.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

pub(super) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&super::read_text(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may itself hold any of " )(": it ends at the last one.
    let (head, tail) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let fields: Vec<&str> = tail.split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        name,
    })
}

/// A process that descends from this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descendant {
    /// Its pid.
    pub pid: u32,
    /// The name of its program.
    pub name: String,
    started: u64,
}

/// Every living descendant, zombies left out.
pub fn living() -> Vec<Descendant> {
    // Without a child there is no descendant, since orphans become children: no need to read all of /proc.
    if !child::has_any() {
        return Vec::new();
    }
    let all: BTreeMap<u32, Stat> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect();
    let ours = below(std::process::id(), all.iter().map(|(pid, stat)| (*pid, stat.parent)));
    ours.into_iter()
        .filter_map(|pid| {
            let stat = &all[&pid];
            stat.is_alive().then(|| Descendant { pid, name: stat.name.clone(), started: stat.started })
        })
        .collect()
}

/// What is known of the process `pid`, called `name`, that should be gone and is not.
pub fn stuck(pid: u32, name: &str) -> String {
    let state = stat(pid).map_or_else(|| "unknown".to_owned(), |stat| stat.state.to_string());
    match super::read_text(format!("/proc/{pid}/wchan")).as_deref().map(str::trim) {
        Ok("" | "0") | Err(_) => format!("{pid} ({name}, state {state})"),
        Ok(place) => format!("{pid} ({name}, state {state}, waits in {place})"),
    }
}

/// The pids below `root`, given each process's parent.
fn below(root: u32, parents: impl Iterator<Item = (u32, u32)>) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    parents.for_each(|(pid, parent)| children.entry(parent).or_default().push(pid));
    let mut found = BTreeSet::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if found.insert(*child) {
                open.push(*child);
            }
        }
    }
    found
}

impl Descendant {
    /// What is known of one that should be gone: its pid, its name, its state, and where in the kernel it waits.
    pub fn describe(&self) -> String {
        stuck(self.pid, &self.name)
    }

    /// Whether it runs still, as the process that was found.
    fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|now| now.started == self.started && now.is_alive())
    }

    /// Sends it `signal`, if it is still the process that was found: a pid can be given anew at any time.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return };
        if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
            && stat(self.pid).is_some_and(|now| now.started == self.started)
        {
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

/// Stops every descendant. One that is being started meanwhile by another is found in the next round.
///
/// Whoever waits for its child's exec (vfork) stops only once the child goes on, which is stopped as well: it does
/// nothing more, and the kernel calls it busy (`D`) and not stopped (`T`).
pub fn pause() {
    let start = Instant::now();
    let mut asked = BTreeSet::new();
    loop {
        let found = living();
        let fresh = found.iter().filter(|process| asked.insert((process.pid, process.started)));
        // Who starts processes faster than we stop them does so without end.
        if fresh.map(|process| process.signal(Signal::STOP)).count() == 0 || start.elapsed() > PAUSE_LIMIT {
            return;
        }
    }
}

/// Lets every descendant go on.
pub fn resume() {
    living().iter().for_each(|process| process.signal(Signal::CONT));
}

/// Kills every descendant until none is left or `limit` has passed; returns those that are left, as one stuck in
/// the kernel. `seen` is told of each child that ended meanwhile.
pub fn kill_all(limit: Duration, mut seen: impl FnMut(u32, Ended)) -> Vec<Descendant> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        super::cgroup::kill_all();
        let found = living();
        found.iter().for_each(|process| process.signal(Signal::KILL));
        while let Some((pid, ended)) = child::reap_one() {
            seen(pid, ended);
        }
        // Nothing can appear out of nothing: once all are dead and reaped, none is left to start another.
        if found.is_empty() {
            return found;
        }
        std::thread::sleep(pause);
        if start.elapsed() > limit {
            // On a busy machine this process itself may have slept through it.
            return found.into_iter().filter(Descendant::is_alive).collect();
        }
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        let fields = "1 42 42 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        let stat = parse_stat(&format!("99 (a) S (7) R {fields}")).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent, stat.started), ("a) S (7", 'R', 1, 777));
        // it is shown on a terminal
        let stat = parse_stat(&format!("99 (\x1b[31m\nb) S {fields}")).unwrap();
        assert_eq!(stat.name, "\u{fffd}[31m\u{fffd}b");
        assert_eq!(parse_stat("99 (cut"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn the_tree_below_is_found_whatever_the_order() {
        let parents = [(5, 4), (4, 2), (3, 1), (2, 1), (9, 8), (1, 0)];
        assert_eq!(below(1, parents.into_iter()), BTreeSet::from([2, 3, 4, 5]));
        assert_eq!(below(9, parents.into_iter()), BTreeSet::new());
        // two that name each other as parent do not keep us for ever
        assert_eq!(below(1, [(1, 2), (2, 1)].into_iter()), BTreeSet::from([1, 2]));
    }
}
