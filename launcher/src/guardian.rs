//! The outer process: the one that a person sees, signals and waits for.
//!
//! It starts the supervisor, passes signals on, and owns the exit code. If the supervisor dies, whatever it had
//! started becomes this process's (a subreaper's) and is killed. If this process dies, the supervisor sees the end
//! of the lifeline and does the same. It has one thread and holds nothing else, so that little can go wrong in it.

use crate::process::cgroup::{self, JobCgroup};
use crate::process::child::{self, Ended};
use crate::process::identity::{Held, Identity};
use crate::process::{command, descendants, lifeline, print, scratch, signals};
use foxlaunch_shared::{env, exit};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::Duration;

/// How long we wait for processes that do not even end when killed.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The same after a supervisor that ended in order, and has waited for them.
const LAST_LOOK: Duration = Duration::from_millis(300);
/// The hidden verb under which the same binary is the supervisor.
pub const SUPERVISE: &str = "__supervise";
/// The hidden verb under which the same binary waits for both to be gone.
pub const OUTLIVE: &str = "__outlive";

/// Runs the supervisor with `args` and returns the job's exit code.
pub fn guard(args: Vec<OsString>) -> std::io::Result<i32> {
    descendants::become_subreaper()?;
    let stopping = signals::stopping();
    let (stops, goes_on): (Vec<_>, Vec<_>) =
        signals::job_control().into_iter().partition(|signal| *signal == Signal::SIGTSTP);
    let watched = [&stopping[..], &signals::FORWARDED, &goes_on, &[Signal::SIGCHLD]].concat();
    let events = signals::as_descriptor(&watched, true)?;
    // Never read, so that the signal is pending until it stops us or a SIGCONT takes it away.
    let asked_to_stop = signals::as_descriptor(&stops, true)?;

    let folder = scratch::make()?;
    let cgroup = JobCgroup::make(folder.path());
    cgroup.clone().into_iter().for_each(JobCgroup::adopt);
    let (_kept_until_we_end, inherited) = lifeline::make()?;
    let number = inherited.as_raw_fd().to_string();
    let arguments: Vec<OsString> = std::iter::once(SUPERVISE.into()).chain(args).collect();
    let environment =
        [(env::FOXLAUNCH_LIFELINE, OsStr::new(&number)), (env::FOXLAUNCH_SCRATCH, folder.path().as_os_str())];
    let supervisor =
        command::spawn_supervisor(&arguments, &environment).inspect_err(|_| cgroup.iter().for_each(JobCgroup::end))?;
    drop(inherited);
    // Without it a job is as safe as where there is no cgroup.
    let outliver = cgroup.as_ref().and_then(|_| outlive(supervisor.id(), folder.path()).ok()?);

    let mut passed_on = None;
    let ended = loop {
        let mut ready = [&events, &asked_to_stop].map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        let _ = poll(&mut ready, PollTimeout::NONE);
        while let Some(signal) = signals::next(&events) {
            if signal != Signal::SIGCHLD {
                signals::send(supervisor.id(), signal);
                passed_on = Some(signal);
            }
        }
        if signals::is_pending(Signal::SIGTSTP) {
            // As the terminal expects of a job that it stopped: it waits for this process.
            signals::send(supervisor.id(), Signal::SIGTSTP);
            signals::stop_as_asked();
        }
        if let Some(ended) = reap(supervisor.id()) {
            break ended;
        }
    };
    // Its time is over, and without a child no look through all processes is needed.
    if let Some(outliver) = outliver {
        let _ = outliver.signal(rustix::process::Signal::KILL).and_then(|()| outliver.ends_within(LAST_LOOK));
        reap(supervisor.id());
    }
    let in_order = matches!(ended, Ended::Code(_));
    let left = descendants::kill_all(if in_order { LAST_LOOK } else { LAST_WAIT }, |_, _| {});
    // A supervisor that ended in order has said so.
    for process in left.iter().filter(|_| !in_order) {
        print::err(format_args!("foxlaunch: process {} does not end, even when killed", process.describe()));
    }
    // What does not end keeps its cgroup from being removed, too.
    let within = if left.is_empty() { cgroup::EMPTY_WITHIN } else { Duration::ZERO };
    cgroup.iter().for_each(|cgroup| cgroup.end_within(within));
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

/// Starts the process that ends the job's cgroup if this one and the supervisor are killed at once. It does nothing
/// else, and is ended with the job.
fn outlive(supervisor: u32, scratch: &Path) -> std::io::Result<Option<Held>> {
    let identity = |pid| Ok::<_, std::io::Error>(serde_json::to_string(&Identity::of(pid)?)?.into());
    let guardian = std::process::id();
    let args = [OUTLIVE.into(), identity(guardian)?, identity(supervisor)?, scratch.into()];
    Identity::of(command::spawn_survivor(&args)?.id())?.hold()
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
