//! A process named for good: a pid alone is given anew, so a process that was written down yesterday may be
//! another's today.

use super::descendants::stat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A process: its pid, when it began, and where these two mean something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its pid.
    pub pid: u32,
    /// When it began, in clock ticks since boot.
    started: u64,
    /// The boot and the namespace in which pids are counted: another container's are not ours.
    place: String,
}

/// What is known about a process that was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It runs.
    Alive,
    /// It has ended.
    Gone,
    /// It was written down in another container, or before this machine was started: nothing can be said.
    Unknown,
}

/// A living process, held so that its pid cannot become another's unseen.
#[derive(Debug)]
pub struct Held(OwnedFd);

impl Identity {
    /// This process.
    pub fn mine() -> std::io::Result<Identity> {
        Identity::of(std::process::id())
    }

    /// The process that has this pid now.
    pub fn of(pid: u32) -> std::io::Result<Identity> {
        let stat = stat(pid).ok_or_else(|| std::io::Error::other(format!("/proc does not show process {pid}")))?;
        Ok(Identity { pid, started: stat.started, place: place() })
    }

    /// What became of it.
    pub fn fate(&self) -> Fate {
        match stat(self.pid) {
            _ if self.place != place() || self.place.is_empty() => Fate::Unknown,
            Some(now) if now.started == self.started && now.is_alive() => Fate::Alive,
            _ => Fate::Gone,
        }
    }

    /// Takes hold of it, if it lives. An error is the kernel's refusal.
    pub fn hold(&self) -> std::io::Result<Option<Held>> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // Looked at after the handle was opened: what lives now is what the handle means.
            Ok(handle) => Ok((self.fate() == Fate::Alive).then_some(Held(handle))),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Held {
    /// Sends it `signal`. A process that has ended is no error.
    pub fn signal(&self, signal: Signal) -> std::io::Result<()> {
        match pidfd_send_signal(&self.0, signal) {
            Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for its end, at most `limit` long; whether it came.
    pub fn ends_within(&self, limit: Duration) -> std::io::Result<bool> {
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut ready, Some(&limit)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Names the kernel's run and the namespace of pids; empty where `/proc` tells neither.
fn place() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), space.display()).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_given_anew_is_not_the_process() {
        let mine = Identity::mine().unwrap();
        assert_eq!(mine.fate(), Fate::Alive);
        assert!(mine.hold().unwrap().is_some());
        let earlier = Identity { started: mine.started - 1, ..mine.clone() };
        assert_eq!(earlier.fate(), Fate::Gone);
        assert!(earlier.hold().unwrap().is_none());
        let elsewhere = Identity { place: "another boot".into(), ..mine.clone() };
        assert_eq!(elsewhere.fate(), Fate::Unknown);
        assert!(elsewhere.hold().unwrap().is_none());
        for pid in [0, u32::MAX] {
            assert!(Identity { pid, ..mine.clone() }.hold().unwrap().is_none());
        }
    }

    #[test]
    fn an_end_is_seen_before_anyone_took_notice() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let stat = stat(child.id()).unwrap();
        let identity = Identity { pid: child.id(), started: stat.started, place: place() };
        let held = identity.hold().unwrap().expect("it lives");
        assert!(!held.ends_within(Duration::ZERO).unwrap());
        held.signal(Signal::KILL).unwrap();
        assert!(held.ends_within(Duration::from_secs(60)).unwrap());
        assert_eq!(identity.fate(), Fate::Gone);
        child.wait().unwrap();
        held.signal(Signal::TERM).unwrap();
    }
}
