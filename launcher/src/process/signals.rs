//! Signals as events: blocked everywhere, read in one place, so that nothing runs inside a handler.

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// Signals that ask for an orderly end.
pub const STOPPING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGQUIT, Signal::SIGHUP];
/// Signals that are passed on to the workers and mean nothing to us.
pub const FORWARDED: [Signal; 3] = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH];

/// Signals by which a terminal stops a job and lets it go on. One that was ignored when we were started stays so.
pub fn job_control() -> Vec<Signal> {
    [Signal::SIGTSTP, Signal::SIGCONT].into_iter().filter(|signal| !is_ignored(*signal)).collect()
}

/// Stops this process as the SIGTSTP asks that is pending, until it is sent SIGCONT, which is then pending.
///
/// The pending signal itself is let through: one SIGCONT that came meanwhile has taken it away, and then there is no
/// stop. A SIGSTOP of our own would take that SIGCONT away instead, and nothing would ever wake us.
pub fn stop_as_asked() {
    let stop = SigSet::from(Signal::SIGTSTP);
    let _ = stop.thread_unblock();
    let _ = stop.thread_block();
    // In a process group that no shell watches the kernel drops it. A scheduler that suspends us expects a stop all
    // the same.
    if !is_pending(Signal::SIGCONT) {
        let _ = nix::sys::signal::raise(Signal::SIGSTOP);
    }
}

/// Whether `signal`, which is blocked, has come for this process and was neither read nor taken away.
pub fn is_pending(signal: Signal) -> bool {
    ["ShdPnd:", "SigPnd:"].iter().filter_map(|name| status_mask(name)).any(|mask| has(mask, signal))
}

/// Lets this process write to and read from its terminal from the background. A supervisor is in the background,
/// since its process group is its own: it would be stopped by what it shows where `stty tostop` is set.
pub fn keep_running_in_the_background() -> std::io::Result<()> {
    let terminal: SigSet = [Signal::SIGTTOU, Signal::SIGTTIN].into_iter().collect();
    terminal.thread_block()?;
    Ok(())
}

/// Reads a signal's name, with or without SIG, of those that we hear.
pub fn parse(text: &str) -> Result<i32, String> {
    let name = text.trim().to_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let known = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTERM];
    let found = known.into_iter().find(|signal| signal.as_str().strip_prefix("SIG") == Some(name));
    found.map(|signal| signal as i32).ok_or_else(|| format!("{text:?} is none of USR1, USR2, TERM"))
}

/// Those of [`STOPPING`] that count here: one that was ignored when we were started, as SIGHUP under nohup, stays
/// ignored.
pub fn stopping() -> Vec<Signal> {
    STOPPING.into_iter().filter(|signal| !is_ignored(*signal)).collect()
}

fn is_ignored(signal: Signal) -> bool {
    // Asking the kernel by sigaction(2) would set an action too.
    status_mask("SigIgn:").is_some_and(|mask| has(mask, signal))
}

/// One of the sets of signals in /proc/self/status.
fn status_mask(name: &str) -> Option<u64> {
    let status = super::read_text("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

fn has(mask: u64, signal: Signal) -> bool {
    mask >> (signal as i32 - 1) & 1 == 1
}

/// Blocks `signals` in this thread and all it will start, and returns them as a readable descriptor.
pub fn as_descriptor(signals: &[Signal], nonblocking: bool) -> std::io::Result<SignalFd> {
    let set: SigSet = signals.iter().copied().collect();
    set.thread_block()?;
    let flags = if nonblocking { SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK } else { SfdFlags::SFD_CLOEXEC };
    Ok(SignalFd::with_flags(&set, flags)?)
}

/// Starts a thread to which no signal is ever delivered. Every thread that begins before signals are blocked for
/// good must be one: the kernel gives a signal to any thread that takes it, and there it would be lost.
pub fn spawn_deaf<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    before.thread_set_mask()?;
    thread
}

/// Reads the next signal.
pub fn next(signals: &SignalFd) -> Option<Signal> {
    let info = signals.read_signal().ok()??;
    Signal::try_from(info.ssi_signo as i32).ok()
}

/// Sends `signal` to the one process `pid`. A process that is gone is no error.
pub fn send(pid: u32, signal: Signal) {
    let _ = nix::sys::signal::kill(Pid::from_raw(pid as i32), signal);
}

/// Lets children that end be seen, whatever disposition was inherited: where SIGCHLD is ignored the kernel forgets
/// them at once, and tells no one.
pub fn hear_of_children() {
    // SAFETY: no handler is installed, only a disposition set.
    let _ = unsafe { nix::sys::signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}

/// Lets a write to a closed pipe fail with an error, whatever disposition was inherited.
pub fn ignore_broken_pipes() {
    // SAFETY: no handler is installed, only a disposition set.
    let _ = unsafe { nix::sys::signal::signal(Signal::SIGPIPE, SigHandler::SigIgn) };
}
