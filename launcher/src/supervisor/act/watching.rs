//! The thread that hears signals.

use super::Input;
use crate::process::signals;
use crate::supervisor::event::Event;
use nix::sys::signal::Signal;
use std::sync::mpsc::Sender;

/// Turns signals into events, on a thread of its own.
pub(super) fn watch_signals(input: Sender<Input>) -> std::io::Result<()> {
    let mut watched = signals::stopping();
    watched.extend(signals::FORWARDED);
    watched.extend(signals::JOB_CONTROL);
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
