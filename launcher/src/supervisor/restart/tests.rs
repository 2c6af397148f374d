use super::*;
use crate::process::child::Ended;
use foxlaunch_shared::protocol::Fault;
use proptest::prelude::*;

fn cause(how: Ended) -> Cause {
    Cause { rank: Rank(0), how: Some(how), fault: None, at: Duration::ZERO }
}

fn silent() -> Attempted {
    Attempted { got_ready: false, speaks: false, checkpoint: None, workers: 4, place: Rank(0) }
}

fn at(checkpoint: u64) -> Attempted {
    Attempted { got_ready: true, speaks: true, checkpoint: Some(checkpoint), ..silent() }
}

/// All four workers are needed.
fn policy(most: u32) -> Policy {
    Policy { most, window: None, least: 4, seed: 7 }
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn goes_on(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Restart { without: None, .. })
}

fn shrinks(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Restart { without: Some(_), .. })
}

#[test]
fn the_budget_is_kept_and_the_wait_doubles() {
    let mut restarts = Restarts::new(policy(8));
    let mut waits = Vec::new();
    while let Verdict::Restart { wait, .. } = restarts.judge(s(0), &cause(Ended::Signal(9)), silent()) {
        waits.push(wait.as_secs_f64());
    }
    assert_eq!(waits.len(), 8);
    for (n, wait) in waits.iter().enumerate() {
        let centre = f64::from(1 << n).min(60.0);
        assert!((0.75 * centre..=1.25 * centre).contains(wait), "{n}: {wait}");
    }
    let mut other = Restarts::new(Policy { seed: 8, ..policy(4) });
    let wait = Duration::from_secs_f64(waits[0]);
    assert_ne!(
        other.judge(s(0), &cause(Ended::Signal(9)), silent()),
        Verdict::Restart { wait, without: None },
        "jobs that failed together do not start together"
    );
}

#[test]
fn restarts_before_the_window_are_forgotten_and_the_wait_is_short_again() {
    let mut restarts = Restarts::new(Policy { window: Some(s(100)), ..policy(2) });
    let mut judge = |now| restarts.judge(s(now), &cause(Ended::Signal(9)), silent());
    assert!(goes_on(&judge(0)) && goes_on(&judge(50)));
    assert_eq!(judge(100), Verdict::End);
    assert!(goes_on(&judge(101)), "the first is too long ago to count");
    assert_eq!(judge(102), Verdict::End);
    let Verdict::Restart { wait, .. } = judge(1000) else { panic!("all are forgotten") };
    assert!(wait <= s(2), "{wait:?}");
    assert_eq!(restarts.count(), (1, 2));
}

#[test]
fn what_would_fail_the_same_way_is_not_started_again() {
    for code in [2, 64, 65, 66, 69, 73, 78, 126, 127] {
        let mut restarts = Restarts::new(policy(9));
        assert_eq!(restarts.judge(s(0), &cause(Ended::Code(code)), silent()), Verdict::End, "{code}");
        let fault = Some(Fault { message: "x".into(), code, blames: None });
        let never_began = Cause { how: None, fault, ..cause(Ended::Code(0)) };
        assert_eq!(restarts.judge(s(0), &never_began, silent()), Verdict::End, "{code}");
    }
    let mut restarts = Restarts::new(policy(0));
    assert_eq!(restarts.judge(s(0), &cause(Ended::Code(1)), silent()), Verdict::End);
}

#[test]
fn without_newer_checkpoints_it_gives_up() {
    let mut restarts = Restarts::new(policy(99));
    let mut judge = |attempt| restarts.judge(s(0), &cause(Ended::Code(1)), attempt);
    for step in [10, 20, 20, 30, 30, 30] {
        assert!(goes_on(&judge(at(step))), "{step}");
    }
    assert!(matches!(judge(at(30)), Verdict::GiveUp(exit::NO_PROGRESS, _)));
}

#[test]
fn twice_broken_at_the_start_is_enough() {
    let mut restarts = Restarts::new(policy(99));
    let broken = Attempted { speaks: true, ..silent() };
    assert!(goes_on(&restarts.judge(s(0), &cause(Ended::Code(1)), broken)));
    assert!(matches!(restarts.judge(s(0), &cause(Ended::Code(1)), broken), Verdict::GiveUp(exit::NO_PROGRESS, _)));
}

#[test]
fn a_place_that_fails_again_and_again_is_lost_if_fewer_workers_will_do() {
    let mut restarts = Restarts::new(Policy { least: 3, ..policy(99) });
    let broken = |place, workers| Attempted { speaks: true, place: Rank(place), workers, ..silent() };
    let mut judge = |attempt| restarts.judge(s(0), &cause(Ended::Signal(9)), attempt);
    assert!(goes_on(&judge(broken(1, 4))));
    assert!(shrinks(&judge(broken(1, 4))), "rather than giving up, since the next attempt is another one");
    assert!(goes_on(&judge(broken(2, 3))));
    assert!(matches!(judge(broken(2, 3)), Verdict::GiveUp(..)), "three are needed");
}

#[test]
fn a_place_that_makes_progress_is_given_one_more_attempt() {
    let mut restarts = Restarts::new(Policy { least: 1, ..policy(99) });
    let mut judge =
        |step, place| restarts.judge(s(0), &cause(Ended::Signal(9)), Attempted { place: Rank(place), ..at(step) });
    assert!(goes_on(&judge(10, 1)) && goes_on(&judge(20, 1)) && shrinks(&judge(30, 1)));
    assert!(goes_on(&judge(40, 2)) && goes_on(&judge(50, 3)) && goes_on(&judge(60, 2)), "not the same in a row");
}

#[test]
fn a_lost_device_is_done_without_at_once() {
    let gone = |message: &str| {
        let fault = Some(Fault { message: message.into(), code: 1, blames: None });
        Cause { fault, ..cause(Ended::Code(1)) }
    };
    let few = || Restarts::new(Policy { least: 1, ..policy(9) });
    assert!(shrinks(&few().judge(s(0), &cause(Ended::Code(exit::UNAVAILABLE)), at(1))));
    assert!(shrinks(&few().judge(s(0), &gone("DriverError(CUDA_ERROR_ECC_UNCORRECTABLE, \"x\")"), at(1))));
    assert!(goes_on(&few().judge(s(0), &gone("CUDA_ERROR_OUT_OF_MEMORY"), at(1))));
    assert_eq!(Restarts::new(policy(9)).judge(s(0), &cause(Ended::Code(exit::UNAVAILABLE)), at(1)), Verdict::End);
    let mut none_left = Restarts::new(Policy { least: 1, ..policy(1) });
    assert!(shrinks(&none_left.judge(s(0), &gone("GPU is lost"), at(1))));
    assert_eq!(none_left.judge(s(0), &gone("GPU is lost"), at(1)), Verdict::End, "each costs of the budget");
}

proptest! {
    /// In any window there are at most so many restarts; no wait is longer than 75 s; never fewer workers than allowed.
    #[test]
    fn no_order_of_failures_breaks_the_budget(
        most in 0..5u32,
        window in proptest::option::of(1..200u64),
        least in 1..5u32,
        failures in proptest::collection::vec((0..100u64, 0..256i32, 0..4u32, any::<bool>(), proptest::option::of(0..9u64)), 0..40),
    ) {
        let window = window.map(s);
        let mut restarts = Restarts::new(Policy { most, window, least, seed: 1 });
        let (mut now, mut workers, mut at) = (s(0), 4u32, Vec::new());
        for (gap, code, place, speaks, checkpoint) in failures {
            now += s(gap);
            let how = if code == 0 { Ended::Signal(9) } else { Ended::Code(code) };
            let attempt =
                Attempted { got_ready: checkpoint.is_some(), speaks, checkpoint, workers, place: Rank(place) };
            if let Verdict::Restart { wait, without } = restarts.judge(now, &cause(how), attempt) {
                at.push(now);
                prop_assert!(wait <= s(75) && wait >= Duration::from_millis(750));
                workers -= u32::from(without.is_some());
                prop_assert!(workers >= least.min(4));
                let counted = at.iter().filter(|then| window.is_none_or(|window| now - **then <= window)).count();
                prop_assert!(counted <= most as usize, "{counted} of {most}");
            }
        }
    }
}
