//! Does what [`super::state`] decides: the one loop that owns processes, and the threads that feed it.
//!
//! Everything that happens arrives on one channel: each worker's channel has a thread, each output pipe has one,
//! signals have one. All starting is done on this, the main thread, since the death signal follows the thread that
//! started a process.

mod devices;
mod leftovers;
mod recording;
mod signs;
mod starting;
mod watching;

use super::clock::Clock;
use super::event::{Action, Event, Outcome, Record};
use super::journal::Journal;
use super::observer::Observer;
use super::state::{Settings, Supervisor};
use super::steps::StepPipe;
use super::{health, restart};
use crate::logs::file::Trouble;
use crate::logs::mux::{Mux, Stream};
use crate::logs::tail::Tail;
use crate::metrics::{Gauges, server};
use crate::plan::LaunchPlan;
use crate::process::child::{self, Ended};
use crate::process::memory::Arena;
use crate::process::port::HeldPort;
use crate::process::{descendants, inspect, monotonic, signals};
use crate::rendezvous::listener::{Line, Listener};
use crate::screen::Screen;
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::{ArenaPlace, FromLauncher};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::net::TcpListener;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long what a worker said last may be on its way after it ended. A process that it forked may hold its channel
/// open, so the channel's end alone is not waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long one round of killing lasts before the state is asked again.
const KILL_ROUND: Duration = Duration::from_millis(500);

/// What the threads send to the loop.
enum Input {
    Event(Event),
    Connected(Attempt, Rank, Line),
    /// Everything that a worker said has been heard.
    Closed(Attempt, Rank),
    /// Some child ended: look which.
    Child,
    /// Something became of a worker's log.
    Log(Attempt, Rank, Trouble),
}

struct Running {
    attempt: Attempt,
    pid: u32,
    line: Option<Line>,
    /// Dropped when the process is gone, which ends the wait for its connection.
    listener: Option<Listener>,
    /// Dropped then too, which reads what the program wrote last.
    steps: Option<StepPipe>,
    /// A place for each message of its that waits for us: it is heard no faster than we act on it.
    waiting: Receiver<()>,
    closed: bool,
    /// Bytes that it printed.
    output: Arc<AtomicU64>,
}

/// A worker that is gone, but may not have been heard out.
struct Ending {
    attempt: Attempt,
    rank: Rank,
    how: Ended,
    latest: Duration,
}

/// A job as it ended.
#[derive(Debug)]
pub struct Finished {
    /// How.
    pub outcome: Outcome,
    /// The last lines of each worker.
    pub tails: BTreeMap<Rank, Vec<String>>,
    /// How long it took.
    pub took: Duration,
    /// Whether some log or the events could not be written.
    pub logs_lost: bool,
}

struct Actor<'a> {
    /// The plan as it was made.
    whole: &'a LaunchPlan,
    /// The plan for the workers that are left.
    plan: LaunchPlan,
    asks: devices::Asks,
    screen: Arc<Screen>,
    input: Sender<Input>,
    running: BTreeMap<Rank, Running>,
    /// In the order in which they were seen to end.
    ending: VecDeque<Ending>,
    attempt: Attempt,
    arena: Option<Arena>,
    port: Option<HeldPort>,
    mux: Mux,
    tails: BTreeMap<Rank, Arc<Mutex<Tail>>>,
    observer: Observer,
    gauges: Gauges,
    logs_lost: bool,
}

/// Runs the job that `plan` describes, to its end. Whoever asks at `scraped` is told its numbers meanwhile.
pub fn supervise(plan: &LaunchPlan, screen: Arc<Screen>, scraped: Option<TcpListener>) -> anyhow::Result<Finished> {
    let begin = monotonic();
    descendants::become_subreaper()?;
    let (input, inputs) = channel();
    watching::watch_signals(input.clone())?;

    let console = screen.clone();
    let events_only = plan.outputs.prints_events;
    let mux = Mux::start(move |stream, lines| console.write(if events_only { Stream::Err } else { stream }, lines))?;
    let port = if plan.own_worker { None } else { Some(HeldPort::take()?) };
    let journal = Journal::open(&plan.run.events(), plan.secrets.clone(), events_only)?;
    let gauges = Gauges::new(&plan.run_id.to_string(), &plan.verb, plan.attempt);
    if let Some(listener) = scraped {
        server::serve(listener, gauges.clone())?;
        if plan.uses_gpus() {
            gauges.watch_gpus()?;
        }
    }
    let mut actor = Actor {
        whole: plan,
        plan: plan.clone(),
        asks: devices::asks(),
        screen,
        input,
        running: BTreeMap::new(),
        ending: VecDeque::new(),
        attempt: plan.attempt,
        arena: None,
        port,
        mux,
        tails: BTreeMap::new(),
        observer: Observer::new(journal, gauges.clone()),
        gauges,
        logs_lost: false,
    };
    let mut state = Supervisor::new(Settings {
        world: plan.world(),
        attempt: plan.attempt,
        grace: plan.grace,
        peer_grace: plan.peer_grace,
        health: health::Policy {
            init: plan.init_timeout,
            step: plan.hang_timeout,
            checkpoint: plan.checkpoint_timeout,
            evaluation: plan.evaluation_timeout,
            hang_on: plan.hang_on,
        },
        restarts: restart::Policy {
            most: plan.max_restarts,
            window: plan.restart_window,
            least: plan.min_procs.unwrap_or(plan.world().0),
            seed: seed(plan),
        },
        asks_driver: plan.gpus.iter().any(Option::is_some),
        checkpoint_signal: plan.checkpoint_signal,
        time_limit: plan.time_limit,
    });
    let outcome = actor.run(&mut state, &inputs, Clock::new(begin));
    let left_out = actor.mux.finish(!outcome.unkillable.is_empty()) + actor.observer.finish();
    if left_out > 0 {
        let logs = plan.logs.display();
        actor
            .screen
            .tell(&format!("{left_out} lines were not shown, since the console did not keep up; {logs} has them"));
    }
    actor.screen.finish();
    let last = |tail: &Arc<Mutex<Tail>>| tail.lock().map(|tail| tail.last(15)).unwrap_or_default();
    let tails = actor.tails.iter().map(|(rank, tail)| (*rank, last(tail))).collect();
    let (took, logs_lost) = (monotonic().saturating_sub(begin), actor.logs_lost);
    Ok(Finished { outcome, tails, took, logs_lost })
}

/// Makes a run's waits its own.
fn seed(plan: &LaunchPlan) -> u64 {
    let name = plan.run.path().as_os_str().as_encoded_bytes();
    name.iter().fold(u64::from(std::process::id()), |seed, byte| seed.rotate_left(7) ^ u64::from(*byte))
}

impl Actor<'_> {
    fn run(&mut self, state: &mut Supervisor, inputs: &Receiver<Input>, mut clock: Clock) -> Outcome {
        let mut events = VecDeque::from([Event::Begin]);
        let mut todo: VecDeque<Action> = VecDeque::new();
        loop {
            while let Some(event) = events.pop_front() {
                let now = clock.at(monotonic());
                let warning = self.observer.saw(now, &event);
                self.warn(warning);
                todo.extend(state.on(now, event));
            }
            // While the job is stopped, nothing is started into it.
            let waits = clock.is_stopped() && matches!(todo.front(), Some(Action::Spawn { .. }));
            if let Some(action) = if waits { None } else { todo.pop_front() } {
                match action {
                    Action::Finish(outcome) => return outcome,
                    // Starting takes time; a signal, or a worker that failed meanwhile, is heard before the next.
                    Action::Spawn { attempt, rank } => {
                        while let Ok(input) = inputs.try_recv() {
                            self.take(input, &mut clock, &mut events);
                        }
                        self.bury(clock.at(monotonic()), &mut events);
                        match (events.is_empty() && !clock.is_stopped(), state.is_ending()) {
                            (false, _) => todo.push_front(action),
                            (true, true) => events.push_back(Event::NotStarted { attempt, rank }),
                            (true, false) => events.push_back(self.spawn(attempt, rank)),
                        }
                    }
                    action => events.extend(self.act(clock.at(monotonic()), action)),
                }
                continue;
            }
            let ending = self.ending.front().map(|ending| ending.latest);
            let next_due = state.deadline().into_iter().chain(ending).min().filter(|_| !clock.is_stopped());
            let wait = next_due.map(|at| at.saturating_sub(clock.at(monotonic())));
            let next = match wait {
                Some(wait) => inputs.recv_timeout(wait),
                None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(input) => self.take(input, &mut clock, &mut events),
                Err(_) if state.deadline().is_some_and(|at| at <= clock.at(monotonic())) => {
                    events.push_back(Event::Tick);
                }
                Err(_) => {}
            }
            self.bury(clock.at(monotonic()), &mut events);
        }
    }

    fn take(&mut self, input: Input, clock: &mut Clock, events: &mut VecDeque<Event>) {
        match input {
            Input::Event(Event::Signal(signal)) if watching::pauses(clock, signal) => {}
            Input::Event(event) => {
                if let Event::Said { attempt, rank, .. } | Event::Refused { attempt, rank, .. } = &event
                    && let Some(running) = self.running_in(*attempt, *rank)
                {
                    let _ = running.waiting.try_recv();
                }
                events.push_back(event);
            }
            Input::Log(attempt, rank, trouble) => self.log_trouble(clock.at(monotonic()), attempt, rank, &trouble),
            Input::Child => self.reap(clock.at(monotonic())),
            Input::Connected(attempt, rank, line) => {
                if let Some(running) = self.running_in(attempt, rank) {
                    running.line = Some(line);
                }
            }
            Input::Closed(attempt, rank) => {
                if let Some(running) = self.running_in(attempt, rank) {
                    running.closed = true;
                }
            }
        }
    }

    fn running_in(&mut self, attempt: Attempt, rank: Rank) -> Option<&mut Running> {
        self.running.get_mut(&rank).filter(|running| running.attempt == attempt)
    }

    /// Takes every child that ended; those that are not workers are orphans that we inherited.
    fn reap(&mut self, now: Duration) {
        while let Some((pid, how)) = child::reap_one() {
            self.ended(now, pid, how);
        }
    }

    fn ended(&mut self, now: Duration, pid: u32, how: Ended) {
        let Some((rank, running)) = self.running.iter_mut().find(|(_, running)| running.pid == pid) else { return };
        running.steps = None;
        running.listener = None;
        let (attempt, rank) = (running.attempt, *rank);
        self.ending.push_back(Ending { attempt, rank, how, latest: now + LAST_WORDS });
    }

    /// Tells of the workers that ended, in order, each once it was heard out: its last words say why it ended.
    fn bury(&mut self, now: Duration, events: &mut VecDeque<Event>) {
        while let Some(Ending { attempt, rank, how, latest }) = self.ending.front() {
            let heard_out = self.running.get(rank).is_none_or(|running| running.closed);
            if !heard_out && now < *latest {
                return;
            }
            let (attempt, rank, how) = (*attempt, *rank, *how);
            events.push_back(Event::Exited { attempt, rank, how });
            self.running.remove(&rank);
            self.ending.pop_front();
        }
    }

    fn act(&mut self, now: Duration, action: Action) -> Option<Event> {
        match action {
            Action::Welcome { attempt, comm_id, arena_bytes } => {
                if arena_bytes > 0 && self.arena.is_none() {
                    match Arena::new(arena_bytes) {
                        Ok(arena) => self.arena = Some(arena),
                        Err(error) => self.screen.tell(&format!("no shared memory of {arena_bytes} bytes: {error}")),
                    }
                }
                let place = |arena: &Arena| ArenaPlace { path: arena.path(), bytes: arena.bytes };
                let arena = self.arena.as_ref().map(place);
                for rank in self.plan.world().ranks() {
                    let message = FromLauncher::Welcome { comm_id: comm_id.clone(), arena: arena.clone() };
                    self.send(attempt, rank, &message);
                }
            }
            Action::Send { attempt, rank, message } => self.send(attempt, rank, &message),
            Action::Signal { attempt, rank, signal } => {
                // A process that was reaped has given up its pid, which may be another's now.
                let alive = self.running.get(&rank).filter(|running| running.listener.is_some());
                if let (Some(running), Ok(signal)) = (alive, Signal::try_from(signal)) {
                    signals::send(running.pid, signal);
                    if signal != Signal::SIGCONT {
                        self.record(now, &Record::SignalSent { attempt, rank, signal: signal as i32 });
                    }
                }
            }
            Action::SignalLeft(signal) => {
                if let Some(signal) = rustix::process::Signal::from_named_raw(signal) {
                    descendants::living().iter().for_each(|process| process.signal(signal));
                }
            }
            Action::Survey => return Some(Event::Left(leftovers::describe(&descendants::living()))),
            Action::KillAll => {
                let mut ended = Vec::new();
                let left = descendants::kill_all(KILL_ROUND, |pid, how| ended.push((pid, how)));
                ended.into_iter().for_each(|(pid, how)| self.ended(now, pid, how));
                return Some(Event::Left(self.unkillable(&left)));
            }
            Action::Inspect { attempt, rank } => {
                if let Some(pid) = self.running_in(attempt, rank).map(|running| running.pid) {
                    let lines = inspect::threads(pid);
                    lines.iter().for_each(|line| self.screen.tell(&format!("  rank {rank}: {line}")));
                    self.record(now, &Record::Threads { attempt, rank, lines });
                }
            }
            Action::Form { places, .. } => self.plan = self.whole.for_places(&places),
            Action::LookAtDevices { attempt } => self.look_at_devices(attempt),
            Action::LookForSigns { attempt } => return Some(Event::Signs { attempt, of: self.signs(attempt) }),
            Action::Show(display) => self.screen.show(&display),
            Action::ShowPhase(phase) => self.screen.show_phase(phase),
            Action::Tell(text) => self.screen.tell(&text),
            Action::Record(record) => self.record(now, &record),
            // The loop's own.
            Action::Spawn { .. } | Action::Finish(_) => {}
        }
        None
    }

    fn send(&mut self, attempt: Attempt, rank: Rank, message: &FromLauncher) {
        if let Some(line) = self.running_in(attempt, rank).and_then(|running| running.line.as_ref()) {
            line.send(message);
        }
    }
}
