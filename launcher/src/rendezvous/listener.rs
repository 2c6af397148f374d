//! A channel for each worker: a socket whose name it is started with, and a thread that reads what it says.

use crate::process::command::within_gate;
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::{FromLauncher, FromWorker, wire};
use ipc_channel::ipc::{IpcBytesReceiver, IpcBytesSender, IpcOneShotServer, IpcSender};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a worker hands over when it connects: where to write to it, and where to read from it.
pub type Bootstrap = (IpcBytesSender, IpcBytesReceiver);

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
    /// Opens a channel, and calls `heard` on a thread of its own for all that happens on it.
    pub fn open(
        attempt: Attempt,
        rank: Rank,
        mut heard: impl FnMut(Heard) + Send + 'static,
    ) -> std::io::Result<Listener> {
        let (server, name) = within_gate(|| {
            // The channel's own maker panics where no folder for its socket can be made; this says why instead.
            drop(tempfile::tempdir()?);
            IpcOneShotServer::<Bootstrap>::new()
        })?;
        std::thread::Builder::new().name(format!("channel-{rank}")).stack_size(256 << 10).spawn(move || {
            // Foreign packets make the channel's own decoder panic: that is the sender's fault, not ours.
            let accepted = catch_unwind(AssertUnwindSafe(|| server.accept()));
            if let Ok(Ok((_bootstrap, (to_worker, from_worker)))) = accepted {
                heard(Heard::Connected(Line { attempt, rank, to_worker }));
                while let Ok(frame) = from_worker.recv() {
                    heard(match wire::decode(&frame, attempt, rank) {
                        Ok(message) => Heard::Said(message),
                        Err(error) => Heard::Refused(error.to_string()),
                    });
                }
            }
            heard(Heard::Closed);
        })?;
        Ok(Listener { name })
    }
}

impl Drop for Listener {
    /// `accept` waits for ever if the worker ends before it connects, so we connect in its place and say nothing.
    fn drop(&mut self) {
        let _ = IpcSender::<Bootstrap>::connect(std::mem::take(&mut self.name));
    }
}
