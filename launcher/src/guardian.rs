//! The outer process: the one that a person sees, signals and waits for.
//!
//! It starts the supervisor, passes signals on, and owns the exit code. If the supervisor dies, whatever it had
//! started becomes this process's (a subreaper's) and is killed. If this process dies, the supervisor sees the end
//! of the lifeline and does the same. It has one thread and holds nothing else, so that little can go wrong in it.

use crate::process::child::{self, Ended};
use crate::process::{command, descendants, lifeline, print, scratch, signals};
use foxlaunch_shared::{env, exit};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// How long we wait for processes that do not even end when killed.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The hidden verb under which the same binary is the supervisor.
pub const SUPERVISE: &str = "__supervise";

/// Runs the supervisor with `args` and returns the job's exit code.
pub fn guard(args: Vec<OsString>) -> std::io::Result<i32> {
    descendants::become_subreaper()?;
    let stopping = signals::stopping();
    let passed: Vec<Signal> = stopping.iter().copied().chain(signals::FORWARDED).chain(signals::JOB_CONTROL).collect();
    let watched: Vec<Signal> = passed.iter().copied().chain([Signal::SIGCHLD]).collect();
    let events = signals::as_descriptor(&watched, true)?;

    let folder = scratch::make()?;
    let (_kept_until_we_end, inherited) = lifeline::make()?;
    let number = inherited.as_raw_fd().to_string();
    let arguments: Vec<OsString> = std::iter::once(SUPERVISE.into()).chain(args).collect();
    let environment =
        [(env::FOXLAUNCH_LIFELINE, OsStr::new(&number)), (env::FOXLAUNCH_SCRATCH, folder.path().as_os_str())];
    let supervisor = command::spawn_supervisor(&arguments, &environment)?;
    drop(inherited);

    let mut passed_on = None;
    let ended = loop {
        let mut ready = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut ready, PollTimeout::NONE);
        while let Some(signal) = signals::next(&events) {
            if signal != Signal::SIGCHLD {
                signals::send(supervisor.id(), signal);
                passed_on = Some(signal);
                if signal == Signal::SIGTSTP {
                    // As the terminal expects of a job that it stopped: it waits for this process.
                    signals::stop_here();
                }
            }
        }
        if let Some(ended) = reap(supervisor.id()) {
            break ended;
        }
    };
    let left = descendants::kill_all(LAST_WAIT, |_, _| {});
    for process in &left {
        print::err(format_args!(
            "foxlaunch: process {} ({}) does not end, even when killed",
            process.pid, process.name
        ));
    }
    scratch::remove(folder.path());
    Ok(match ended {
        Ended::Code(code) => code,
        // Before its event loop runs, the supervisor ends by the signal itself.
        Ended::Signal(signal) if passed_on.is_some_and(|passed| passed as i32 == signal) => exit::of_signal(signal),
        Ended::Signal(signal) => {
            print::err(format_args!(
                "foxlaunch: the supervisor was killed by signal {signal}; everything it had started was ended with it"
            ));
            exit::SUPERVISOR_LOST
        }
    })
}

/// Reaps whatever ended, and says so if that was the supervisor.
fn reap(supervisor: u32) -> Option<Ended> {
    let mut found = None;
    while let Some((pid, ended)) = child::reap_one() {
        if pid == supervisor {
            found = Some(ended);
        }
    }
    found
}
