//! The line to the launcher: one thread that hears, one that says, so that training waits for neither.

use super::WorldError;
use super::pulse::Pulse;
use crate::collectives::AbortFlag;
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::{ArenaPlace, CommId, FromLauncher, FromWorker, wire};
use ipc_channel::ipc::{self, IpcBytesReceiver, IpcBytesSender, IpcSender};
use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the counters are told where training itself says nothing.
const PULSE_EVERY: Duration = Duration::from_millis(200);
/// More waiting messages than this are not kept: a launcher that reads nothing must not fill our memory.
const MOST_WAITING: usize = 1024;

/// What the launcher sends when every worker has said hello.
#[derive(Debug)]
pub(crate) struct Welcome {
    /// Rank 0's id, under NCCL.
    pub(crate) comm_id: Option<CommId>,
    /// The shared memory.
    pub(crate) arena: Option<ArenaPlace>,
}

/// A standing connection to the launcher.
#[derive(Debug)]
pub(crate) struct Line {
    outbox: Arc<Outbox>,
    welcome: mpsc::Receiver<Result<Welcome, WorldError>>,
    stop: Arc<OnceLock<Instant>>,
}

impl Line {
    /// Connects to the channel called `name`. `abort` is raised when a peer or the launcher is lost.
    pub(crate) fn connect(
        name: &str,
        attempt: Attempt,
        rank: Rank,
        abort: &Arc<AbortFlag>,
        pulse: &Arc<Pulse>,
    ) -> Result<Line, WorldError> {
        let failed = |why: String| WorldError::Connect { name: name.to_owned(), why };
        let (to_worker, from_launcher) = ipc::bytes_channel().map_err(|e| failed(e.to_string()))?;
        let (to_launcher, from_worker) = ipc::bytes_channel().map_err(|e| failed(e.to_string()))?;
        let bootstrap = IpcSender::<(IpcBytesSender, IpcBytesReceiver)>::connect(name.to_owned())
            .map_err(|e| failed(e.to_string()))?;
        bootstrap.send((to_worker, from_worker)).map_err(|e| failed(e.to_string()))?;

        let outbox = Arc::new(Outbox { pulse: Arc::clone(pulse), ..Outbox::default() });
        let stop = Arc::new(OnceLock::new());
        let (welcomed, welcome) = mpsc::channel();
        let ear = Ear { attempt, rank, welcomed, stop: Arc::clone(&stop), abort: Arc::clone(abort) };
        spawn("from-launcher", move || ear.listen(&from_launcher))?;
        let writer = Arc::clone(&outbox);
        spawn("to-launcher", move || writer.write(&to_launcher, attempt, rank))?;
        Ok(Line { outbox, welcome, stop })
    }

    /// Puts `message` in line to be sent. A progress report replaces one that still waits.
    pub(crate) fn say(&self, message: FromWorker) {
        self.outbox.push(message);
    }

    /// Waits for the launcher's answer to hello.
    pub(crate) fn await_welcome(&self, within: Duration) -> Result<Welcome, WorldError> {
        match self.welcome.recv_timeout(within) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(WorldError::NoWelcome(within.as_secs())),
            Err(RecvTimeoutError::Disconnected) => Err(WorldError::LauncherGone),
        }
    }

    /// When this worker must have stopped, if the launcher asked for it.
    pub(crate) fn stop(&self) -> Option<Instant> {
        self.stop.get().copied()
    }

    /// Waits until everything said was handed to the operating system, at most `within`. Whether it was.
    pub(crate) fn flush(&self, within: Duration) -> bool {
        self.outbox.flush(within)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The writer sends what still waits and ends; nobody waits for it, since a launcher that hangs must not
        // hang us. The listener ends with the channel.
        self.outbox.close();
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), WorldError> {
    let spawned = thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(body);
    spawned.map(drop).map_err(|e| WorldError::Connect { name: name.to_owned(), why: format!("no thread: {e}") })
}

/// What the listening thread does with what it hears.
struct Ear {
    attempt: Attempt,
    rank: Rank,
    welcomed: mpsc::Sender<Result<Welcome, WorldError>>,
    stop: Arc<OnceLock<Instant>>,
    abort: Arc<AbortFlag>,
}

impl Ear {
    fn listen(self, from_launcher: &IpcBytesReceiver) {
        loop {
            let Ok(frame) = from_launcher.recv() else {
                self.abort.raise("the launcher is gone".to_owned());
                let _ = self.welcomed.send(Err(WorldError::LauncherGone));
                return;
            };
            match wire::decode::<FromLauncher>(&frame, self.attempt, self.rank) {
                Ok(message) => self.hear(message),
                Err(why) => {
                    tracing::warn!("dropped a message on the launcher's channel: {why}");
                    let _ = self.welcomed.send(Err(WorldError::Unwelcome(why.to_string())));
                }
            }
        }
    }

    fn hear(&self, message: FromLauncher) {
        match message {
            FromLauncher::Welcome { comm_id, arena } => {
                let _ = self.welcomed.send(Ok(Welcome { comm_id, arena }));
            }
            FromLauncher::PeerLost { rank, how } => {
                self.abort.raise_lost(rank, &how);
                let _ = self.welcomed.send(Err(WorldError::PeerLost { rank, how }));
            }
            FromLauncher::Stop { within_ms } => {
                let _ = self.stop.set(Instant::now() + Duration::from_millis(within_ms));
            }
        }
    }
}

/// Messages on their way out.
#[derive(Debug, Default)]
struct Outbox {
    pulse: Arc<Pulse>,
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<FromWorker>,
    /// The writer holds a message that is not yet sent.
    sending: bool,
    /// Nothing more will be said.
    closed: bool,
    /// The launcher no longer reads.
    broken: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, message: FromWorker) {
        let mut state = self.lock();
        if state.broken || state.closed {
            return;
        }
        if let (FromWorker::Progress { .. }, Some(last @ FromWorker::Progress { .. })) =
            (&message, state.messages.back_mut())
        {
            *last = message;
        } else if state.messages.len() < MOST_WAITING || !matches!(message, FromWorker::Note(_)) {
            state.messages.push_back(message);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn flush(&self, within: Duration) -> bool {
        let busy = |state: &mut Waiting| !state.broken && (state.sending || !state.messages.is_empty());
        let (state, _) =
            self.changed.wait_timeout_while(self.lock(), within, busy).unwrap_or_else(PoisonError::into_inner);
        !state.broken && !state.sending && state.messages.is_empty()
    }

    /// Sends until closed and empty, or until the launcher is gone.
    fn write(&self, to_launcher: &IpcBytesSender, attempt: Attempt, rank: Rank) {
        let mut told = Some(Pulse::default().report());
        loop {
            let idle = |state: &mut Waiting| state.messages.is_empty() && !state.closed;
            let waited = self.changed.wait_timeout_while(self.lock(), PULSE_EVERY, idle);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if idle(&mut state) {
                let report = self.pulse.report();
                if told.as_ref() == Some(&report) {
                    continue;
                }
                told = Some(report.clone());
                state.messages.push_back(report);
            }
            let Some(message) = state.messages.pop_front() else { return };
            state.sending = true;
            drop(state);
            let sent = match wire::encode(attempt, rank, &message) {
                Ok(frame) => to_launcher.send(&frame).is_ok(),
                Err(why) => {
                    tracing::warn!("a message to the launcher was not sent: {why}");
                    true
                }
            };
            let mut state = self.lock();
            state.sending = false;
            state.broken |= !sent;
            drop(state);
            self.changed.notify_all();
            if !sent {
                return;
            }
        }
    }
}
