//! From one attempt to the next.

use super::*;

/// A job of `world` workers on GPUs that goes on with `least`, whose rank 1 has failed: its devices are looked at.
fn failed(world: u32, least: u32) -> Supervisor {
    let mut job = job(world);
    job.settings.restarts = policy(9, least);
    job.restarts = Restarts::new(job.settings.restarts);
    job.settings.asks_driver = true;
    let mut job = started(job);
    job.on(ms(1000), exited(1, Ended::Signal(9)));
    for rank in (0..world).filter(|rank| *rank != 1) {
        job.on(ms(1001), exited(rank, Ended::Signal(SIGTERM)));
    }
    let actions = job.on(ms(1002), Event::Left(vec![]));
    assert!(actions.contains(&Action::LookAtDevices { attempt: AT }), "{actions:?}");
    job
}

fn devices(lost: &[u32], held: &[u32]) -> Event {
    let list = |places: &[u32]| places.iter().map(|place| (Rank(*place), format!("device {place}"))).collect();
    Event::Devices { attempt: AT, lost: list(lost), held: list(held) }
}

#[test]
fn devices_that_are_free_cost_no_time() {
    let mut job = failed(2, 2);
    assert_eq!(job.on(ms(1100), devices(&[], &[])), []);
    let until = job.deadline().unwrap();
    assert!((ms(1752)..ms(2253)).contains(&until), "{until:?}");
    assert!(job.on(until, Event::Tick).contains(&Action::Spawn { attempt: Attempt(2), rank: Rank(1) }));
    // An answer that comes after the wait is acted on at once.
    let mut job = failed(2, 2);
    let actions = job.on(ms(5000), devices(&[], &[]));
    assert!(actions.contains(&Action::Spawn { attempt: Attempt(2), rank: Rank(1) }), "{actions:?}");
}

#[test]
fn a_restart_waits_until_the_devices_are_free_but_not_for_ever() {
    let mut job = failed(2, 2);
    let actions = job.on(ms(5000), devices(&[], &[1]));
    assert!(actions.iter().any(|a| matches!(a, Action::Record(Record::DevicesHeld { .. }))), "{actions:?}");
    let next = job.deadline().unwrap();
    assert!(next > ms(5000) && next <= ms(6000), "{next:?}");
    assert_eq!(job.on(next, Event::Tick), [Action::LookAtDevices { attempt: AT }]);
    assert_eq!(job.on(next, devices(&[], &[1])), [], "told once");
    let actions = job.on(next, devices(&[], &[]));
    assert!(actions.contains(&Action::Spawn { attempt: Attempt(2), rank: Rank(1) }), "{actions:?}");

    let mut job = failed(2, 2);
    let last = job.deadline().unwrap();
    assert!(last <= Duration::from_secs(63), "a driver that never answers is not waited for");
    assert!(job.on(last, Event::Tick).contains(&Action::Spawn { attempt: Attempt(2), rank: Rank(0) }));
}

#[test]
fn a_lost_device_is_done_without_and_ranks_move_down() {
    let mut job = failed(3, 2);
    let actions = job.on(ms(5000), devices(&[1], &[1]));
    assert!(actions.iter().any(|a| matches!(a, Action::Record(Record::Lost { place: Rank(1), workers: 2, .. }))));
    let second = Attempt(2);
    assert!(actions.contains(&Action::Form { attempt: second, places: vec![Rank(0), Rank(2)] }), "{actions:?}");
    assert!(!actions.iter().any(|a| matches!(a, Action::Spawn { rank: Rank(2), .. })));
    for rank in [Rank(0), Rank(1)] {
        job.on(ms(5001), Event::Spawned { attempt: second, rank, pid: 7 });
        job.on(ms(5001), Event::Exited { attempt: second, rank, how: Ended::Code(0) });
    }
    assert_eq!(outcome(&job.on(ms(5002), Event::Left(vec![]))).unwrap().code, 0);
}

#[test]
fn without_enough_devices_it_ends_and_says_so() {
    let mut job = failed(2, 2);
    let actions = job.on(ms(1100), devices(&[0], &[]));
    let outcome = outcome(&actions).unwrap();
    assert_eq!(outcome.code, exit::UNAVAILABLE);
    let words = outcome.cause.as_ref().unwrap().describe();
    assert!(words.contains("signal 9") && words.contains("device 0"), "{words}");
}

#[test]
fn a_place_that_fails_twice_is_left_out_and_a_signal_meanwhile_ends_all() {
    let mut job = failed(2, 1);
    job.on(ms(5000), devices(&[], &[]));
    let second = Attempt(2);
    for rank in [Rank(0), Rank(1)] {
        job.on(ms(5000), Event::Spawned { attempt: second, rank, pid: 7 });
    }
    job.on(ms(6000), Event::Exited { attempt: second, rank: Rank(1), how: Ended::Signal(9) });
    job.on(ms(6000), Event::Exited { attempt: second, rank: Rank(0), how: Ended::Signal(SIGTERM) });
    let actions = job.on(ms(6000), Event::Left(vec![]));
    assert!(actions.iter().any(|a| matches!(a, Action::Record(Record::Lost { place: Rank(1), workers: 1, .. }))));
    assert_eq!(outcome(&job.on(ms(6001), Event::Signal(SIGTERM))).unwrap().code, 143, "while devices are looked at");

    let mut job = failed(2, 1);
    job.on(ms(1100), devices(&[], &[]));
    assert_eq!(outcome(&job.on(ms(1101), Event::Signal(SIGINT))).unwrap().code, 130, "and while it waits");
}

#[test]
fn the_time_limit_holds_between_two_attempts_too() {
    let mut job = failed(2, 2);
    job.settings.time_limit = Some(ms(31_010));
    assert_eq!(job.deadline(), Some(ms(1010)));
    // where nothing was saved, going on later would only fail again
    assert_eq!(outcome(&job.on(ms(1010), Event::Tick)).unwrap().code, 137);
    let mut job = failed(2, 2);
    job.settings.time_limit = Some(ms(31_010));
    job.checkpoint = Some(7);
    assert_eq!(outcome(&job.on(ms(1010), Event::Tick)).unwrap().code, exit::TRY_AGAIN);
}
