use super::*;
use foxlaunch_shared::protocol::{Hello, Phase as Busy, Transport};
use proptest::prelude::*;

const AT: Attempt = Attempt(1);

fn job(world: u32) -> Supervisor {
    Supervisor::new(Settings {
        world: WorldSize(world),
        attempt: AT,
        grace: Duration::from_secs(30),
        peer_grace: Duration::from_secs(5),
    })
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A job whose workers all run.
fn running(world: u32) -> Supervisor {
    let mut job = job(world);
    job.on(ms(0), Event::Begin);
    for rank in WorldSize(world).ranks() {
        job.on(ms(1), Event::Spawned { attempt: AT, rank, pid: 100 + rank.0 });
    }
    job
}

fn said(rank: u32, message: FromWorker) -> Event {
    Event::Said { attempt: AT, rank: Rank(rank), message }
}

fn exited(rank: u32, how: Ended) -> Event {
    Event::Exited { attempt: AT, rank: Rank(rank), how }
}

fn hello(world: u32, stops_when_told: bool) -> FromWorker {
    let arena_bytes = 1 << 20;
    let world_size = WorldSize(world);
    FromWorker::Hello(Hello {
        pid: 1,
        world_size,
        transport: Transport::Shm,
        arena_bytes,
        comm_id: None,
        stops_when_told,
    })
}

fn outcome(actions: &[Action]) -> Option<&Outcome> {
    actions.iter().find_map(|action| match action {
        Action::Finish(outcome) => Some(outcome),
        _ => None,
    })
}

fn signals_to(actions: &[Action], to: u32) -> Vec<i32> {
    let signal = |action: &Action| match action {
        Action::Signal { rank, signal, .. } if rank.0 == to => Some(*signal),
        _ => None,
    };
    actions.iter().filter_map(signal).collect()
}

#[test]
fn all_end_well() {
    let mut job = running(2);
    assert_eq!(job.on(ms(5), exited(0, Ended::Code(0))).iter().filter(|a| **a == Action::Survey).count(), 0);
    assert!(job.on(ms(6), exited(1, Ended::Code(0))).contains(&Action::Survey));
    let actions = job.on(ms(7), Event::Left(vec![]));
    assert_eq!(outcome(&actions).unwrap().code, 0);
    assert!(job.is_done() && job.on(ms(8), Event::Tick).is_empty());
}

#[test]
fn one_failure_stops_all_and_is_the_cause() {
    let mut job = running(3);
    let actions = job.on(ms(1000), exited(1, Ended::Code(7)));
    assert_eq!(signals_to(&actions, 0), [SIGCONT, SIGTERM]);
    assert_eq!(signals_to(&actions, 1), [] as [i32; 0]);
    assert_eq!(job.deadline(), Some(ms(6000)));
    job.on(ms(1100), exited(0, Ended::Signal(SIGTERM)));
    let actions = job.on(ms(6000), Event::Tick);
    assert_eq!(signals_to(&actions, 2), [SIGKILL]);
    assert!(job.on(ms(6001), exited(2, Ended::Signal(SIGKILL))).contains(&Action::Survey));
    let actions = job.on(ms(6002), Event::Left(vec![]));
    let outcome = outcome(&actions).unwrap();
    assert_eq!((outcome.code, outcome.cause.as_ref().unwrap().rank), (7, Rank(1)));
    assert_eq!(outcome.others.len(), 2);
}

#[test]
fn who_said_hello_is_told_instead_of_signalled() {
    let mut job = running(2);
    assert!(!job.on(ms(2), said(0, hello(2, true))).iter().any(|a| matches!(a, Action::Welcome { .. })));
    let actions = job.on(ms(3), said(1, hello(2, true)));
    assert!(actions.contains(&Action::Welcome { attempt: AT, comm_id: None, arena_bytes: 1 << 20 }));
    let actions = job.on(ms(1000), exited(1, Ended::Signal(9)));
    assert!(signals_to(&actions, 0).is_empty());
    let told = |a: &Action| {
        matches!(a, Action::Send { rank: Rank(0), message: FromLauncher::PeerLost { rank: Rank(1), .. }, .. })
    };
    assert!(actions.iter().any(told));
}

#[test]
fn leaving_without_goodbye_is_a_failure_even_with_code_zero() {
    let mut job = running(2);
    job.on(ms(2), said(0, hello(2, false)));
    job.on(ms(3), said(1, hello(2, false)));
    job.on(ms(4), said(0, FromWorker::Bye));
    job.on(ms(5), exited(0, Ended::Code(0)));
    assert_eq!(job.deadline(), None);
    job.on(ms(6), exited(1, Ended::Code(0)));
    let actions = job.on(ms(7), Event::Left(vec![]));
    let outcome = outcome(&actions).unwrap();
    assert_eq!((outcome.code, outcome.cause.as_ref().unwrap().rank), (exit::FAILURE, Rank(1)));
}

#[test]
fn a_signal_asks_and_a_second_one_kills() {
    let mut job = running(2);
    job.on(ms(2), said(0, hello(2, true)));
    let actions = job.on(ms(1000), Event::Signal(SIGINT));
    assert!(
        actions.iter().any(|a| matches!(
            a,
            Action::Send { rank: Rank(0), message: FromLauncher::Stop { within_ms: 29_900 }, .. }
        ))
    );
    assert_eq!(signals_to(&actions, 1), [SIGCONT, SIGINT]);
    let actions = job.on(ms(2000), Event::Signal(SIGTERM));
    assert_eq!((signals_to(&actions, 0), signals_to(&actions, 1)), (vec![SIGKILL], vec![SIGKILL]));
    job.on(ms(2001), exited(0, Ended::Signal(SIGKILL)));
    job.on(ms(2001), exited(1, Ended::Signal(SIGKILL)));
    let actions = job.on(ms(2002), Event::Left(vec![]));
    let outcome = outcome(&actions).unwrap();
    assert_eq!((outcome.code, outcome.cause.clone(), outcome.stopped_by), (130, None, Some(SIGINT)));
}

#[test]
fn a_failure_before_the_signal_stays_the_cause() {
    let mut job = running(2);
    job.on(ms(1000), exited(0, Ended::Code(3)));
    job.on(ms(1500), Event::Signal(SIGTERM));
    job.on(ms(1501), exited(1, Ended::Signal(SIGKILL)));
    assert_eq!(outcome(&job.on(ms(1502), Event::Left(vec![]))).unwrap().code, 3);
}

#[test]
fn what_the_workers_left_is_asked_then_killed_then_named() {
    let mut job = running(1);
    job.on(ms(10), exited(0, Ended::Code(0)));
    let actions = job.on(ms(11), Event::Left(vec!["sleep (7)".into()]));
    assert!(actions.contains(&Action::SignalLeft(SIGTERM)));
    assert_eq!(job.on(ms(100), Event::Tick), [Action::Survey]);
    job.on(ms(100), Event::Left(vec!["sleep (7)".into()]));
    assert_eq!(job.on(ms(520), Event::Tick), [Action::KillAll]);
    let actions = job.on(ms(5600), Event::Left(vec!["sleep (7)".into()]));
    let outcome = outcome(&actions).unwrap();
    assert_eq!((outcome.code, outcome.unkillable.len()), (exit::FAILURE, 1));
}

#[test]
fn a_worker_that_cannot_start_stops_those_that_did() {
    let mut job = job(2);
    job.on(ms(0), Event::Begin);
    let why = || "no such file".to_owned();
    job.on(ms(1), Event::SpawnFailed { attempt: AT, rank: Rank(0), code: 127, why: why() });
    let actions = job.on(ms(2), Event::Spawned { attempt: AT, rank: Rank(1), pid: 9 });
    assert_eq!(signals_to(&actions, 1), [SIGCONT, SIGTERM]);
    job.on(ms(3), exited(1, Ended::Signal(SIGTERM)));
    assert_eq!(outcome(&job.on(ms(4), Event::Left(vec![]))).unwrap().code, 127);
}

#[test]
fn other_signals_are_passed_on_and_change_nothing() {
    let mut job = running(2);
    let actions = job.on(ms(5), Event::Signal(nix::libc::SIGUSR1));
    assert_eq!((signals_to(&actions, 0), signals_to(&actions, 1)), (vec![10], vec![10]));
    assert_eq!(job.deadline(), None);
}

fn any_event(world: u32) -> impl Strategy<Value = Event> {
    let place = (1..3u32, 0..world + 1).prop_map(|(attempt, rank)| (Attempt(attempt), Rank(rank)));
    let how = prop_oneof![Just(Ended::Code(0)), (1..256).prop_map(Ended::Code), (1..32).prop_map(Ended::Signal)];
    let message = prop_oneof![
        Just(FromWorker::Ready),
        Just(FromWorker::Bye),
        any::<bool>().prop_map(move |told| hello(world, told)),
        Just(FromWorker::Progress { step: 1, collectives: 1, phase: Busy::Step, display: None }),
        Just(FromWorker::Fault(Fault { message: "x".into(), code: 92, blames: Some(Rank(0)) })),
    ];
    prop_oneof![
        2 => place.clone().prop_map(|(attempt, rank)| Event::Spawned { attempt, rank, pid: 5 }),
        1 => place.clone().prop_map(|(attempt, rank)| Event::SpawnFailed { attempt, rank, code: 126, why: "x".into() }),
        4 => (place.clone(), how).prop_map(|((attempt, rank), how)| Event::Exited { attempt, rank, how }),
        4 => (place, message).prop_map(|((attempt, rank), message)| Event::Said { attempt, rank, message }),
        1 => (1..32i32).prop_map(Event::Signal),
        2 => Just(Event::Tick),
        1 => Just(Event::Left(vec![])),
        1 => Just(Event::Left(vec!["sleep (7)".into()])),
    ]
}

proptest! {
    /// Whatever happens in whatever order: no action is aimed at another attempt, at a worker that does not exist,
    /// or at one that is gone; and once every worker's end is told and nothing is left, the job ends, with a code
    /// that is 0 only if every worker ended well and no one asked for the end.
    #[test]
    fn any_order_of_events_ends(world in 1..5u32, events in proptest::collection::vec(any_event(5), 0..60)) {
        let mut job = job(world);
        let mut now = ms(0);
        let mut gone = std::collections::BTreeSet::new();
        let mut code = None;
        let mut bad = false;
        let end: Vec<Event> = WorldSize(world).ranks()
            .flat_map(|rank| [Event::Spawned { attempt: AT, rank, pid: 1 }, exited(rank.0, Ended::Code(0))])
            .chain([Event::Tick, Event::Left(vec![]), Event::Tick, Event::Left(vec![])])
            .collect();
        for event in [Event::Begin].into_iter().chain(events).chain(end) {
            now += ms(100);
            let was_done = job.is_done();
            if let Event::Exited { attempt: AT, rank, how } = &event {
                bad |= !how.is_success() && rank.0 < world && job.workers[rank.index()].life == Life::Running && !was_done;
            }
            let actions = job.on(now, event);
            prop_assert!(!was_done || actions.is_empty());
            for rank in WorldSize(world).ranks() {
                if job.workers[rank.index()].life == Life::Gone { gone.insert(rank); }
            }
            for action in &actions {
                if let Action::Signal { attempt, rank, .. } | Action::Send { attempt, rank, .. } = action {
                    prop_assert_eq!(*attempt, AT);
                    prop_assert!(rank.0 < world && !gone.contains(rank), "{:?}", action);
                }
            }
            if let Some(outcome) = outcome(&actions) {
                prop_assert!(code.replace(outcome.code).is_none(), "finished twice");
            }
        }
        let code = code.expect("the job must end");
        prop_assert!(code >= 0);
        prop_assert!(code != 0 || !bad, "a failure gave 0");
    }
}
