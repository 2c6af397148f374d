//! Whatever happens, in whatever order.

use super::*;
use proptest::prelude::*;

fn any_event(world: u32) -> impl Strategy<Value = Event> {
    let place = (1..4u32, 0..world + 1).prop_map(|(attempt, rank)| (Attempt(attempt), Rank(rank)));
    let (of_signs, of_devices) = (place.clone(), place.clone());
    let how = prop_oneof![Just(Ended::Code(0)), (1..256).prop_map(Ended::Code), (1..32).prop_map(Ended::Signal)];
    let phase = prop_oneof![Just(Busy::Init), Just(Busy::Step), Just(Busy::Checkpoint), Just(Busy::Evaluate)];
    let message = prop_oneof![
        Just(FromWorker::Ready),
        Just(FromWorker::Bye),
        any::<bool>().prop_map(move |told| hello(world, told)),
        (0..3u64, 0..3u64, phase).prop_map(|(step, collectives, phase)| FromWorker::Progress {
            step,
            collectives,
            phase,
            display: None
        }),
        (0..9u64).prop_map(|step| FromWorker::Checkpointed { step, path: String::new() }),
        Just(FromWorker::Fault(Fault { message: "x".into(), code: 92, blames: Some(Rank(0)) })),
    ];
    prop_oneof![
        2 => place.clone().prop_map(|(attempt, rank)| Event::Spawned { attempt, rank, pid: 5 }),
        1 => place.clone().prop_map(|(attempt, rank)| Event::SpawnFailed { attempt, rank, code: 126, why: "x".into() }),
        4 => (place.clone(), how).prop_map(|((attempt, rank), how)| Event::Exited { attempt, rank, how }),
        4 => (place, message).prop_map(|((attempt, rank), message)| Event::Said { attempt, rank, message }),
        2 => (of_signs, 0..3u64, 0..3u64).prop_map(|((attempt, rank), output, cpu)| Event::Signs {
            attempt,
            of: vec![(rank, health::Signs { output, cpu })],
        }),
        1 => (of_devices, any::<bool>()).prop_map(|((attempt, place), is_lost)| {
            let found = vec![(place, "x".to_owned())];
            let (lost, held) = if is_lost { (found, vec![]) } else { (vec![], found) };
            Event::Devices { attempt, lost, held }
        }),
        1 => (1..32i32).prop_map(Event::Signal),
        2 => Just(Event::Tick),
        1 => Just(Event::Left(vec![])),
        1 => Just(Event::Left(vec!["sleep (7)".into()])),
    ]
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Any(Event),
    /// All workers of the present attempt run, this one fails, and all are gone.
    Fails(Rank),
    /// The driver answers about the present attempt's devices, and time passes.
    Answers(Vec<(Rank, String)>, Vec<(Rank, String)>),
}

impl Step {
    fn events(self, job: &Supervisor) -> Vec<Event> {
        let attempt = job.attempt;
        match self {
            Step::Any(event) => vec![event],
            Step::Fails(who) => {
                let ranks = || job.world.ranks();
                let how = |rank| Ended::Signal(if rank == who { 9 } else { SIGTERM });
                let spawned = ranks().map(|rank| Event::Spawned { attempt, rank, pid: 5 });
                let first = Event::Exited { attempt, rank: who, how: how(who) };
                let rest = ranks().filter(|rank| *rank != who);
                let rest = rest.map(|rank| Event::Exited { attempt, rank, how: how(rank) });
                spawned.chain([first]).chain(rest).chain([Event::Left(vec![])]).collect()
            }
            Step::Answers(lost, held) => vec![Event::Devices { attempt, lost, held }, Event::Tick],
        }
    }
}

fn any_step(world: u32) -> impl Strategy<Value = Step> {
    let found = || proptest::collection::vec((0..world).prop_map(|place| (Rank(place), "x".to_owned())), 0..2);
    prop_oneof![
        12 => any_event(world).prop_map(Step::Any),
        2 => (0..world).prop_map(|rank| Step::Fails(Rank(rank))),
        2 => (found(), found()).prop_map(|(lost, held)| Step::Answers(lost, held)),
    ]
}

proptest! {
    /// Whatever happens in whatever order: no action is aimed at another attempt, at a worker that does not exist,
    /// or at one that is gone; and once every worker's end is told and nothing is left, the job ends, with a code
    /// that is 0 only if every worker of the last attempt ended well and no one asked for the end.
    #[test]
    fn any_order_of_events_ends(
        world in 1..5u32,
        restarts in 0..4u32,
        least in 1..5u32,
        asks_driver: bool,
        hang_on in prop_oneof![Just(None), Just(Some(HangOn::Silence)), Just(Some(HangOn::Cpu))],
        steps in proptest::collection::vec(any_step(5), 0..60),
    ) {
        let mut job = job(world);
        job.settings.health.hang_on = hang_on;
        job.settings.restarts = policy(restarts, least);
        job.restarts = Restarts::new(job.settings.restarts);
        job.settings.asks_driver = asks_driver;
        let mut check = Check::default();
        let mut now = ms(0);
        check.step(&mut job, now, Event::Begin)?;
        for step in steps {
            now += ms(if matches!(step, Step::Answers(..)) { 20_000 } else { 100 });
            for event in step.events(&job) {
                check.step(&mut job, now, event)?;
            }
        }
        // From here on all goes well, in as many attempts as it takes.
        for _ in 0..restarts + 2 {
            let attempt = job.attempt;
            for rank in WorldSize(world).ranks() {
                check.step(&mut job, now, Event::Spawned { attempt, rank, pid: 1 })?;
                check.step(&mut job, now, Event::Exited { attempt, rank, how: Ended::Code(0) })?;
            }
            now += Duration::from_secs(1000);
            let devices = Event::Devices { attempt, lost: vec![], held: vec![] };
            for event in [Event::Left(vec![]), Event::Tick, Event::Left(vec![]), Event::Tick, devices] {
                check.step(&mut job, now, event)?;
            }
        }
        let code = check.code.expect("the job must end");
        prop_assert!(code > 0 || code == 0 && !check.bad, "a failure gave {code}");
    }
}

/// What must hold after every event.
#[derive(Default)]
struct Check {
    attempt: u32,
    gone: std::collections::BTreeSet<Rank>,
    bad: bool,
    code: Option<i32>,
}

impl Check {
    fn step(&mut self, job: &mut Supervisor, now: Duration, event: Event) -> Result<(), TestCaseError> {
        let was_done = job.is_done();
        let (running, attempt) = (job.running(), job.attempt);
        let was_killed = matches!(job.phase, Phase::Stopping { killed: true, .. });
        let left = if let Event::Left(processes) = &event { Some(processes.clone()) } else { None };
        if let Event::Exited { attempt, rank, how } = &event {
            self.bad |= !how.is_success() && job.is_running(*attempt, *rank) && !was_done;
        }
        let actions = job.on(now, event);
        prop_assert!(!was_done || actions.is_empty());
        if job.attempt != attempt || job.is_done() && !was_done {
            // Every worker's end was told, or it was killed and what is left of all is told.
            let is_told = running.is_empty() || was_killed && left.is_some();
            prop_assert!(is_told, "{running:?} were neither reaped nor reported");
            let unkillable = outcome(&actions).map(|outcome| outcome.unkillable.clone());
            if let (false, Some(left)) = (running.is_empty(), left) {
                prop_assert!(unkillable.unwrap_or_default() == left, "{left:?} live and are not reported");
            }
        }
        if job.attempt.0 != self.attempt {
            *self = Check { attempt: job.attempt.0, code: self.code, ..Check::default() };
        }
        let least = job.settings.restarts.least.min(job.settings.world.0);
        prop_assert!(job.world.0 >= least && job.places.len() == job.world.index());
        prop_assert!(job.places.is_sorted_by(|a, b| a < b), "each place once, in order: {:?}", job.places);
        let is_gone = |rank: &Rank| job.workers[rank.index()].life == Life::Gone;
        self.gone.extend(job.world.ranks().filter(is_gone));
        for action in &actions {
            if let Action::Signal { attempt, rank, .. }
            | Action::Send { attempt, rank, .. }
            | Action::Inspect { attempt, rank } = action
            {
                prop_assert_eq!(*attempt, job.attempt);
                prop_assert!(rank.0 < job.world.0 && !self.gone.contains(rank), "{:?}", action);
            }
        }
        if let Some(outcome) = outcome(&actions) {
            prop_assert!(self.code.replace(outcome.code).is_none(), "finished twice");
        }
        Ok(())
    }
}
