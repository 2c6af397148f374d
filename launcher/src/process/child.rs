//! Seeing processes end.

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use rustix::process::WaitOptions;
use std::fmt;
use std::os::unix::process::ExitStatusExt;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Ended {
    /// Whether it ended well.
    pub fn is_success(self) -> bool {
        self == Ended::Code(0)
    }

    /// The code with which a job ends for which this is the cause.
    pub fn exit_code(self) -> i32 {
        match self {
            Ended::Code(code) => code,
            Ended::Signal(signal) => foxlaunch_shared::exit::of_signal(signal),
        }
    }
}

impl From<std::process::ExitStatus> for Ended {
    fn from(status: std::process::ExitStatus) -> Ended {
        match (status.signal(), status.code()) {
            (Some(signal), _) => Ended::Signal(signal),
            (None, code) => Ended::Code(code.unwrap_or(foxlaunch_shared::exit::FAILURE)),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(0) => f.write_str("ended well"),
            Ended::Code(code) => match foxlaunch_shared::exit::meaning(*code).filter(|_| *code > 2) {
                Some(meaning) => write!(f, "exited with code {code} ({})", meaning.trim_end_matches('.')),
                None => write!(f, "exited with code {code}"),
            },
            Ended::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(name) => write!(f, "was killed by signal {signal} ({name})"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}

/// Takes one ended child, if there is one: its pid and how it ended. Never blocks, whatever state a child is in.
/// Orphans of our workers count as children, since we are a subreaper.
pub fn reap_one() -> Option<(u32, Ended)> {
    // The raw status: a type that knows the named signals only would lose who died by another.
    let (pid, status) = rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::NOHANG)).ok()??;
    let ended = match (status.exit_status(), status.terminating_signal()) {
        (_, Some(signal)) => Ended::Signal(signal),
        (code, None) => Ended::Code(code.unwrap_or(foxlaunch_shared::exit::FAILURE)),
    };
    Some((pid.as_raw_nonzero().get() as u32, ended))
}

/// Whether this process has any child, zombies counted.
pub fn has_any() -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, look) != Err(Errno::ECHILD)
}
