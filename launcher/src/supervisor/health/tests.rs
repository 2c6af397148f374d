use super::*;
use proptest::prelude::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn watching(hang_on: Option<HangOn>) -> Health {
    let policy = Policy {
        init: ms(10_000),
        step: Some(ms(2000)),
        checkpoint: Some(ms(20_000)),
        evaluation: Some(ms(30_000)),
        hang_on,
    };
    Health::new(policy, WorldSize(2), ms(0))
}

fn health() -> Health {
    watching(None)
}

fn signs(output: u64, cpu: u64) -> Signs {
    Signs { output, cpu }
}

#[test]
fn who_says_nothing_is_not_watched() {
    assert_eq!(health().deadline(), None);
    assert_eq!(health().overdue(ms(1 << 40)), None);
}

#[test]
fn the_rank_behind_is_named_not_the_one_that_waits() {
    let mut health = health();
    health.beat(ms(0), Rank(0), 7, 8, Phase::Step);
    health.beat(ms(500), Rank(1), 7, 7, Phase::Step);
    assert_eq!(health.deadline(), Some(ms(1000)));
    assert_eq!(health.still(ms(1000)).unwrap().behind, Rank(1), "rank 0 waits for it");
    assert_eq!(health.deadline(), Some(ms(1500)));
    assert_eq!(health.still(ms(1500)), None, "told once");
    assert_eq!(health.deadline(), Some(ms(2000)));
    assert_eq!(health.overdue(ms(1999)), None);
    let finding = health.overdue(ms(2000)).unwrap();
    assert_eq!((finding.behind, finding.rule, finding.since), (Rank(1), Rule::Progress, ms(0)));
    assert_eq!(
        finding.words,
        "no progress for 2.0 s: it stands at step 7, after collective 7; rank 0 waits in collective 8"
    );
}

#[test]
fn without_collectives_the_steps_tell_who_is_behind() {
    let mut health = health();
    health.beat(ms(0), Rank(1), 3, 0, Phase::Step);
    health.beat(ms(10), Rank(0), 9, 0, Phase::Step);
    let finding = health.overdue(ms(2000)).unwrap();
    assert_eq!(finding.words, "no progress for 2.0 s: it stands at step 3; rank 0 is at step 9");
    assert_eq!(finding.behind, Rank(1));
}

#[test]
fn a_beat_without_change_hides_nothing() {
    let mut health = health();
    for n in 0..20 {
        health.beat(ms(n * 100), Rank(0), 3, 3, Phase::Step);
    }
    assert!(health.overdue(ms(2000)).is_some());
    health.beat(ms(2000), Rank(0), 4, 3, Phase::Step);
    assert_eq!(health.overdue(ms(2001)), None);
}

#[test]
fn each_phase_has_its_own_budget() {
    let mut health = health();
    health.hello(ms(0), Rank(0));
    assert!(health.still(ms(5000)).is_some() && health.deadline() == Some(ms(10_000)));
    health.beat(ms(6000), Rank(0), 1, 1, Phase::Step);
    health.beat(ms(6100), Rank(0), 1, 1, Phase::Checkpoint);
    assert_eq!(health.overdue(ms(15_000)), None);
    health.beat(ms(15_000), Rank(0), 2, 2, Phase::Step);
    assert!(health.overdue(ms(17_000)).is_some());
    health.beat(ms(17_000), Rank(0), 2, 2, Phase::Evaluate);
    assert!(health.overdue(ms(46_999)).is_none() && health.overdue(ms(47_000)).is_some());
    health.gone(Rank(0));
    assert_eq!(health.deadline(), None);
}

#[test]
fn a_first_step_that_was_announced_may_take_as_long_as_a_start() {
    let mut health = health();
    health.beat(ms(0), Rank(0), 0, 0, Phase::Step);
    assert_eq!(health.overdue(ms(9999)), None);
    assert!(health.overdue(ms(10_000)).is_some());
    let policy = Policy { init: ms(10), step: None, checkpoint: None, evaluation: None, hang_on: None };
    let mut patient = Health::new(policy, WorldSize(1), ms(0));
    patient.beat(ms(0), Rank(0), 0, 0, Phase::Step);
    assert_eq!(patient.deadline(), None, "without --hang-timeout a program under run has all the time");
    patient.hello(ms(0), Rank(0));
    assert_eq!(patient.overdue(ms(10)).map(|finding| finding.behind), Some(Rank(0)), "but to begin");
    patient.beat(ms(5), Rank(0), 0, 1, Phase::Init);
    assert_eq!(patient.deadline(), None, "it has, though it tells no steps");
}

#[test]
fn who_waits_for_a_checkpoint_of_another_is_not_late_and_counts_anew_after_it() {
    let mut health = health();
    health.beat(ms(0), Rank(0), 5, 0, Phase::Checkpoint);
    health.beat(ms(0), Rank(1), 5, 0, Phase::Step);
    assert_eq!(health.overdue(ms(19_000)), None);
    health.beat(ms(19_000), Rank(0), 5, 0, Phase::Step);
    assert_eq!(health.overdue(ms(20_999)), None);
    assert!(health.overdue(ms(21_000)).is_some());
}

#[test]
fn a_checkpoint_without_end_is_the_fault_of_who_writes_it() {
    let mut health = health();
    health.beat(ms(0), Rank(0), 5, 0, Phase::Step);
    health.beat(ms(0), Rank(1), 5, 0, Phase::Step);
    health.beat(ms(100), Rank(1), 5, 0, Phase::Checkpoint);
    assert_eq!(health.overdue(ms(20_099)), None);
    let finding = health.overdue(ms(20_100)).unwrap();
    assert_eq!(finding.behind, Rank(1), "rank 0 has stood still for longer, but waits");
    assert!(finding.words.contains("in a checkpoint at step 5"), "{}", finding.words);
}

#[test]
fn standing_still_twice_is_told_twice() {
    let mut health = health();
    health.beat(ms(0), Rank(0), 1, 1, Phase::Step);
    assert_eq!(health.still(ms(999)), None);
    assert!(health.still(ms(1100)).is_some());
    assert_eq!(health.still(ms(1200)), None, "once");
    assert_eq!(health.beat(ms(1300), Rank(0), 2, 2, Phase::Step), Some(ms(1300)));
    assert_eq!(health.beat(ms(1400), Rank(0), 3, 3, Phase::Step), None);
    assert!(health.still(ms(2500)).is_some());
}

#[test]
fn silence_counts_from_the_first_output() {
    let mut health = watching(Some(HangOn::Silence));
    assert_eq!(health.sample(ms(100), Rank(0), signs(0, 5)), None);
    assert_eq!(health.overdue(ms(1 << 30)), None, "nothing was printed yet");
    health.sample(ms(200), Rank(0), signs(10, 6));
    health.sample(ms(300), Rank(1), signs(10, 6));
    health.sample(ms(1000), Rank(0), signs(10, 900));
    health.sample(ms(1000), Rank(1), signs(20, 900));
    let finding = health.overdue(ms(2200)).unwrap();
    assert_eq!((finding.behind, finding.rule, finding.since), (Rank(0), Rule::Silence, ms(200)));
    assert_eq!(finding.words, "no output for 2.0 s, since 0.2 s after the beginning (--hang-on silence)");
}

#[test]
fn idleness_counts_after_the_start_or_the_first_output() {
    let mut health = watching(Some(HangOn::Cpu));
    health.sample(ms(0), Rank(0), signs(0, 5));
    health.sample(ms(0), Rank(1), signs(0, 5));
    assert_eq!(health.overdue(ms(9_999)), None, "a start may take its time");
    assert_eq!(health.overdue(ms(10_000)).unwrap().rule, Rule::Cpu);
    health.sample(ms(10_000), Rank(0), signs(1, 5));
    health.sample(ms(10_000), Rank(1), signs(1, 5));
    health.sample(ms(11_000), Rank(0), signs(99, 5));
    health.sample(ms(11_000), Rank(1), signs(1, 6));
    let finding = health.overdue(ms(12_000)).unwrap();
    assert_eq!((finding.behind, finding.since), (Rank(0), ms(10_000)), "output is no work");
}

#[test]
fn who_reports_is_judged_by_its_reports() {
    let mut health = watching(Some(HangOn::Silence));
    health.sample(ms(0), Rank(0), signs(1, 1));
    for second in 1..10 {
        health.beat(ms(second * 1000), Rank(0), second, 0, Phase::Step);
        health.sample(ms(second * 1000), Rank(0), signs(1, 1));
        assert_eq!(health.overdue(ms(second * 1000)), None);
    }
    health.sample(ms(10_900), Rank(0), signs(2, 2));
    assert_eq!(health.overdue(ms(11_000)).unwrap().rule, Rule::Progress, "output is no progress");
}

#[test]
fn signs_are_looked_for_often_enough_and_not_too_often() {
    assert_eq!(health().look_at(), None);
    let mut health = watching(Some(HangOn::Cpu));
    assert_eq!(health.look_at(), Some(ms(100)));
    health.looked(ms(700));
    assert_eq!(health.deadline(), Some(ms(800)));
}

fn any_report() -> impl Strategy<Value = (u64, u32, u64, u64, usize)> {
    (0..3000u64, 0..3u32, 0..6u64, 0..6u64, 0..6usize)
}

proptest! {
    /// No rank is overdue before it was told to stand still, nor within the shortest time that any phase has since
    /// the last change; and each time that a deadline has come, something is to be done.
    #[test]
    fn a_finding_is_never_early(
        reports in proptest::collection::vec(any_report(), 1..60),
        hang_on in prop_oneof![Just(None), Just(Some(HangOn::Silence)), Just(Some(HangOn::Cpu))],
    ) {
        let mut health = watching(hang_on);
        let phases = [Phase::Init, Phase::Step, Phase::Step, Phase::Checkpoint, Phase::Evaluate];
        let mut now = ms(0);
        for (gap, rank, a, b, kind) in reports {
            now += ms(gap);
            if health.look_at().is_some_and(|at| now >= at) {
                health.looked(now);
            }
            health.still(now);
            if let Some(finding) = health.overdue(now) {
                prop_assert!(now >= finding.since + ms(2000));
                prop_assert!(finding.behind.0 < 2);
            } else if let Some(at) = health.deadline() {
                prop_assert!(at > now, "{at:?} has passed at {now:?} and nothing is to be done");
            }
            match phases.get(kind) {
                Some(phase) => drop(health.beat(now, Rank(rank), a, b, *phase)),
                None => drop(health.sample(now, Rank(rank), signs(a, b))),
            }
        }
    }
}
