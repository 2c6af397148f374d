//! Starting a process so that it cannot outlive its parent.

use super::cgroup;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Held while a process is being started, and for good once none may be started any more.
static GATE: Mutex<()> = Mutex::new(());

/// Lets no process be started from now on, on any thread: who is about to start one waits for ever. Returns when
/// none is being started. Without it, one that begins after the last look for survivors would be one.
pub fn close_gate() {
    std::mem::forget(GATE.lock());
}

/// Runs `make` while nothing can close the gate: what it makes in the scratch folder finds that folder in place.
pub fn within_gate<T>(make: impl FnOnce() -> T) -> T {
    let _open = GATE.lock();
    make()
}

/// What to start: a program, its arguments, and its environment as changes to ours.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program: a path, or a name to look up in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set.
    pub set: Vec<(String, OsString)>,
    /// Variables not to pass on.
    pub unset: Vec<String>,
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        for name in &self.unset {
            command.env_remove(name);
        }
        command.envs(self.set.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts it as a worker: in a session of its own (so no terminal can stop it or signal it past us), with
    /// nothing on its standard input unless it `inherits_stdin`, its outputs in pipes, and killed by the kernel when
    /// this *thread* ends: call it from a thread that lives as long as the launcher. It is in the job's cgroup, if
    /// there is one.
    pub fn spawn_worker(&self, inherits_stdin: bool) -> io::Result<Child> {
        let mut command = self.command();
        command.stdin(if inherits_stdin { Stdio::inherit() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let parent = nix::unistd::getpid();
        let cgroup = cgroup::of_job().and_then(cgroup::JobCgroup::entrance);
        // SAFETY: between fork and exec only async-signal-safe calls are made: setsid, write, prctl, getppid,
        // sigprocmask.
        unsafe {
            command.pre_exec(move || {
                nix::unistd::setsid()?;
                // A kernel that refuses takes from us one way among several to end it.
                let _ = cgroup.as_ref().map(|entrance| nix::unistd::write(entrance.as_fd(), b"0"));
                die_with(parent)?;
                unblock_all()
            });
        }
        let _open = GATE.lock();
        command.spawn()
    }

    /// Runs it as a question: waits for its end, at most as long as our own thread lives, and returns what it wrote.
    pub fn ask(&self) -> io::Result<std::process::Output> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let parent = nix::unistd::getpid();
        // SAFETY: as above.
        unsafe {
            command.pre_exec(move || die_with(parent));
        }
        let child = {
            let _open = GATE.lock();
            command.spawn()?
        };
        child.wait_with_output()
    }
}

/// Asks the kernel to kill this process when the parent's thread ends, and makes sure that it has not yet.
fn die_with(parent: nix::unistd::Pid) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if nix::unistd::getppid() != parent {
        // It ended before the request was made, so the request came too late.
        return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
    }
    Ok(())
}

/// A process inherits what its parent blocks; ours blocks what it reads as events.
fn unblock_all() -> io::Result<()> {
    nix::sys::signal::sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    Ok(())
}

/// Starts the supervisor: this binary with `args`, in a process group of its own, so that a Ctrl-C reaches it once,
/// from the guardian. It has no death signal: it must live on to clean up if the guardian dies.
pub fn spawn_supervisor(args: &[OsString], environment: &[(&str, &OsStr)]) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("foxlaunch").args(args).envs(environment.iter().copied()).process_group(0);
    // SAFETY: as above.
    unsafe {
        command.pre_exec(unblock_all);
    }
    command.spawn()
}

/// Starts the process that is to outlive both of us, if both are killed: this binary with `args`, in a session of its
/// own and deaf to all signals but the last.
pub fn spawn_survivor(args: &[OsString]) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("foxlaunch").args(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: as above.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            nix::sys::signal::sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
            Ok(())
        });
    }
    command.spawn()
}
