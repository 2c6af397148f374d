//! A channel for each worker: a socket whose name it is started with, and a thread that reads what it says.
//!
//! Whatever comes over it, this process goes on: what is not a message of this rank and attempt is refused, after
//! [`MOST_REFUSED`] of them the channel is closed, and what the channel's own decoder cannot bear closes it at once.

use crate::process::command::within_gate;
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::{FromLauncher, FromWorker, wire};
use ipc_channel::ipc::{IpcBytesReceiver, IpcBytesSender, IpcOneShotServer, IpcSender};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What a worker hands over when it connects: where to write to it, and where to read from it.
pub type Bootstrap = (IpcBytesSender, IpcBytesReceiver);

/// So many frames are refused before nothing more is read: a worker that talks nonsense would go on.
pub const MOST_REFUSED: u32 = 8;

/// How the names of the channels' threads begin.
const THREAD: &str = "channel-";

/// What happens on a worker's channel.
#[derive(Debug)]
pub enum Heard {
    /// It connected; its line is open.
    Connected(Line),
    /// It said something.
    Said(FromWorker),
    /// It, or something in its place, sent what is not a message of this rank and attempt.
    Refused(String),
    /// Nothing more will be heard: what it had said was all heard before.
    Closed,
}

/// The way to a worker.
#[derive(Debug)]
pub struct Line {
    attempt: Attempt,
    rank: Rank,
    to_worker: IpcBytesSender,
}

impl Line {
    /// Tells the worker; false if it is gone.
    pub fn send(&self, message: &FromLauncher) -> bool {
        wire::encode(self.attempt, self.rank, message).is_ok_and(|frame| self.to_worker.send(&frame).is_ok())
    }
}

/// A channel that waits for its worker. Dropping it ends the wait.
#[derive(Debug)]
pub struct Listener {
    /// What the worker finds in `FOXLAUNCH_CHANNEL`.
    pub name: String,
}

impl Listener {
    /// Opens a channel, and calls `heard` on a thread of its own for all that happens on it, until it says false.
    pub fn open(
        attempt: Attempt,
        rank: Rank,
        mut heard: impl FnMut(Heard) -> bool + Send + 'static,
    ) -> std::io::Result<Listener> {
        keep_channels_quiet();
        let (server, name) = within_gate(|| {
            // The channel's own maker panics where no folder for its socket can be made; this says why instead.
            drop(tempfile::tempdir()?);
            IpcOneShotServer::<Bootstrap>::new()
        })?;
        std::thread::Builder::new().name(format!("{THREAD}{rank}")).stack_size(256 << 10).spawn(move || {
            // Foreign packets make the channel's own decoder panic: that is the sender's fault, not ours.
            match catch_unwind(AssertUnwindSafe(|| server.accept())) {
                Ok(Ok((_bootstrap, (to_worker, from_worker)))) => {
                    heard(Heard::Connected(Line { attempt, rank, to_worker }));
                    read(&from_worker, attempt, rank, &mut heard);
                }
                // The wait was ended, or the worker ended in the middle of its first words.
                Ok(Err(_)) => {}
                Err(_) => drop(heard(Heard::Refused("what connected to it is no worker".to_owned()))),
            }
            heard(Heard::Closed);
        })?;
        Ok(Listener { name })
    }
}

/// Reads to the channel's end, or until there is no point in it.
fn read(from_worker: &IpcBytesReceiver, attempt: Attempt, rank: Rank, heard: &mut impl FnMut(Heard) -> bool) {
    let mut refused = 0;
    while refused < MOST_REFUSED {
        let why = match catch_unwind(AssertUnwindSafe(|| from_worker.recv())) {
            Ok(Err(_)) => return,
            Ok(Ok(frame)) => match wire::decode(&frame, attempt, rank) {
                Ok(message) => {
                    if !heard(Heard::Said(message)) {
                        return;
                    }
                    continue;
                }
                Err(error) => error.to_string(),
            },
            Err(_) => {
                // What was half read leaves the channel in no state to go on.
                refused = MOST_REFUSED;
                "a packet of another kind than the channel's".to_owned()
            }
        };
        refused = (refused + 1).min(MOST_REFUSED);
        let last = if refused == MOST_REFUSED { "; nothing more is read from it" } else { "" };
        if !heard(Heard::Refused(format!("{why}{last}"))) {
            return;
        }
    }
}

/// A panic of the channel's decoder is told as a refusal, not by its own words.
fn keep_channels_quiet() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !std::thread::current().name().is_some_and(|name| name.starts_with(THREAD)) {
                others(panic);
            }
        }));
    });
}

impl Drop for Listener {
    /// `accept` waits for ever if the worker ends before it connects, so we connect in its place and say nothing.
    fn drop(&mut self) {
        let _ = IpcSender::<Bootstrap>::connect(std::mem::take(&mut self.name));
    }
}
