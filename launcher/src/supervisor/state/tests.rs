use super::*;
use crate::plan::HangOn;
use crate::process::child::Ended;
use crate::supervisor::event::Outcome;
use foxlaunch_shared::exit;
use foxlaunch_shared::protocol::{FromLauncher, FromWorker, Hello, Phase as Busy, Transport};
use nix::libc::{SIGCONT, SIGINT, SIGKILL};

mod any_order;
mod going_on;

const AT: Attempt = Attempt(1);

fn job(world: u32) -> Supervisor {
    Supervisor::new(Settings {
        world: WorldSize(world),
        attempt: AT,
        grace: Duration::from_secs(30),
        peer_grace: Duration::from_secs(5),
        health: health::Policy {
            init: Duration::from_secs(600),
            step: Some(Duration::from_secs(2)),
            checkpoint: Some(Duration::from_secs(20)),
            evaluation: Some(Duration::from_secs(20)),
            hang_on: None,
        },
        restarts: policy(0, world),
        asks_driver: false,
        checkpoint_signal: Some(nix::libc::SIGUSR2),
        time_limit: None,
    })
}

/// So many restarts, and at least so many workers.
fn policy(most: u32, least: u32) -> restart::Policy {
    restart::Policy { most, window: None, least, seed: 1 }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A job whose workers all run.
fn running(world: u32) -> Supervisor {
    started(job(world))
}

fn started(mut job: Supervisor) -> Supervisor {
    let world = job.settings.world.0;
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
    assert_eq!(job.phase, Phase::Running);
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
    assert_eq!((outcome.code, outcome.cause.clone(), outcome.stopped_by), (130, None, Some(Stopped::Signal(SIGINT))));
}

#[test]
fn only_a_second_signal_of_a_person_kills() {
    use nix::libc::{SIGHUP, SIGUSR2};
    for (signals, kills_at) in [
        (vec![SIGHUP, SIGHUP], None),
        (vec![SIGHUP, SIGTERM, SIGHUP, SIGINT], Some(3)),
        (vec![SIGTERM, SIGHUP], None),
        (vec![SIGUSR2, SIGUSR2, SIGTERM], None),
        (vec![SIGTERM, SIGUSR2, SIGTERM], Some(2)),
        (vec![SIGUSR2, SIGTERM, SIGTERM], Some(2)),
    ] {
        let mut job = running(1);
        let kills = |signal: &i32| signals_to(&job.on(ms(1000), Event::Signal(*signal)), 0).contains(&SIGKILL);
        assert_eq!(signals.iter().position(kills), kills_at, "{signals:?}");
    }
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

#[test]
fn a_failed_world_is_started_again_from_the_next_attempt() {
    let mut job = started({
        let mut job = job(2);
        job.restarts = Restarts::new(policy(1, 2));
        job
    });
    job.on(ms(1000), exited(1, Ended::Signal(9)));
    job.on(ms(1001), exited(0, Ended::Signal(SIGTERM)));
    let actions = job.on(ms(1002), Event::Left(vec![]));
    assert!(actions.iter().any(|a| matches!(a, Action::Record(Record::Restart { used: 1, most: 1, .. }))));
    let until = job.deadline().unwrap();
    assert!((1.75..2.26).contains(&until.as_secs_f64()), "{until:?}");
    let actions = job.on(until, Event::Tick);
    let second = Attempt(2);
    assert!(actions.contains(&Action::Spawn { attempt: second, rank: Rank(1) }));
    // what is still on its way from the first attempt means nothing
    assert!(job.on(until, exited(0, Ended::Code(1))).is_empty());
    for rank in [Rank(0), Rank(1)] {
        job.on(until, Event::Spawned { attempt: second, rank, pid: 7 });
        job.on(until, Event::Exited { attempt: second, rank, how: Ended::Code(0) });
    }
    let actions = job.on(until, Event::Left(vec![]));
    assert_eq!((outcome(&actions).unwrap().code, outcome(&actions).unwrap().attempt), (0, second));
}

#[test]
fn asked_to_end_between_two_attempts_it_ends_at_once() {
    let mut job = started({
        let mut job = job(1);
        job.restarts = Restarts::new(policy(1, 2));
        job
    });
    job.on(ms(1000), exited(0, Ended::Code(1)));
    job.on(ms(1002), Event::Left(vec![]));
    assert_eq!(outcome(&job.on(ms(1100), Event::Signal(SIGTERM))).unwrap().code, 143);
}

#[test]
fn a_world_that_stands_still_is_ended_and_the_rank_behind_is_the_cause() {
    let mut job = running(2);
    for rank in 0..2 {
        job.on(ms(10), said(rank, hello(2, true)));
    }
    let step = |collectives| FromWorker::Progress { step: 7, collectives, phase: Busy::Step, display: None };
    job.on(ms(100), said(0, step(8)));
    job.on(ms(100), said(1, step(7)));
    assert_eq!(job.deadline(), Some(ms(1100)));
    let actions = job.on(ms(1100), Event::Tick);
    assert!(actions.iter().any(|a| matches!(a, Action::Record(Record::Still { rank: Rank(1), .. }))), "{actions:?}");
    assert_eq!(job.deadline(), Some(ms(2100)));
    let actions = job.on(ms(2100), Event::Tick);
    assert!(actions.contains(&Action::Inspect { attempt: AT, rank: Rank(1) }));
    assert_eq!(signals_to(&actions, 1), [SIGCONT, SIGTERM]);
    assert!(signals_to(&actions, 0).is_empty(), "rank 0 is told, and leaves by itself");
    job.on(ms(2200), exited(0, Ended::Code(exit::COLLATERAL)));
    assert_eq!(signals_to(&job.on(ms(7100), Event::Tick), 1), [SIGKILL]);
    job.on(ms(7101), exited(1, Ended::Signal(SIGKILL)));
    let actions = job.on(ms(7102), Event::Left(vec![]));
    let outcome = outcome(&actions).unwrap();
    assert_eq!((outcome.code, outcome.cause.as_ref().unwrap().rank), (exit::HANG, Rank(1)));
}

#[test]
fn the_schedulers_notice_ends_it_to_go_on_later() {
    let end = |ended: Ended| {
        let mut job = running(1);
        job.on(ms(2), said(0, hello(1, true)));
        let actions = job.on(ms(1000), Event::Signal(nix::libc::SIGUSR2));
        assert!(actions.iter().any(|a| matches!(a, Action::Send { message: FromLauncher::Stop { .. }, .. })));
        if ended == Ended::Signal(SIGKILL) {
            job.on(ms(31_000), Event::Tick);
        }
        job.on(ms(31_001), exited(0, ended));
        outcome(&job.on(ms(31_002), Event::Left(vec![]))).unwrap().code
    };
    for in_order in [Ended::Code(143), Ended::Code(0), Ended::Code(exit::TRY_AGAIN)] {
        assert_eq!(end(in_order), exit::TRY_AGAIN, "{in_order}");
    }
    assert_eq!(end(Ended::Code(28)), 28, "it could not save its state");
    assert_eq!(end(Ended::Signal(11)), 139);
    assert_eq!(end(Ended::Signal(SIGKILL)), 143);
}

#[test]
fn the_time_limit_asks_one_grace_before() {
    let mut job = job(1);
    job.settings.time_limit = Some(Duration::from_secs(100));
    let mut job = started(job);
    assert_eq!(job.deadline(), Some(Duration::from_secs(70)));
    let actions = job.on(Duration::from_secs(70), Event::Tick);
    assert_eq!(signals_to(&actions, 0), [SIGCONT, SIGTERM]);
    job.on(Duration::from_secs(71), exited(0, Ended::Signal(SIGTERM)));
    assert_eq!(outcome(&job.on(Duration::from_secs(71), Event::Left(vec![]))).unwrap().code, exit::TRY_AGAIN);
}
