//! The thread that hears signals, and those of them that stop a job for a while.

use super::Input;
use crate::process::{descendants, monotonic, signals};
use crate::supervisor::clock::Clock;
use crate::supervisor::event::Event;
use nix::sys::signal::Signal;
use std::sync::mpsc::Sender;

/// Turns signals into events, on a thread of its own.
pub(super) fn watch_signals(input: Sender<Input>) -> std::io::Result<()> {
    let mut watched = signals::stopping();
    watched.extend(signals::FORWARDED);
    watched.extend(signals::job_control());
    watched.push(Signal::SIGCHLD);
    let events = signals::as_descriptor(&watched, false)?;
    std::thread::Builder::new().name("signals".into()).stack_size(256 << 10).spawn(move || {
        loop {
            let next = match signals::next(&events) {
                Some(Signal::SIGCHLD) => Input::Child,
                Some(signal) => Input::Event(Event::Signal(signal as i32)),
                None => continue,
            };
            if input.send(next).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Stops everything below with the job (Ctrl-Z), or lets it go on; whether that is all that `signal` means.
pub(super) fn pauses(clock: &mut Clock, signal: i32) -> bool {
    let signal = Signal::try_from(signal).ok();
    if signal == Some(Signal::SIGTSTP) {
        descendants::pause();
        clock.stop(monotonic());
        return true;
    }
    // Who is to end in order must run, and its grace with it.
    if signal == Some(Signal::SIGCONT) || clock.is_stopped() && signal.is_some_and(|s| signals::STOPPING.contains(&s)) {
        descendants::resume();
        clock.go_on(monotonic());
    }
    signal == Some(Signal::SIGCONT)
}
