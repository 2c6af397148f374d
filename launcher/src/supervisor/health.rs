//! Hangs are seen by progress, not by liveness: a rank whose counters stand still for longer than its phase may
//! take is overdue, and the one that is behind the others is named. Pure.

use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::Phase;
use std::time::Duration;

/// Checkpoints and evaluations may take this many times as long as a step.
pub const LONG_PHASES: u32 = 10;

/// How long a rank may take. The rules begin with its first word: a program that says nothing is never overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// From hello to the first step.
    pub init: Duration,
    /// From one step to the next; `None` for ever.
    pub step: Option<Duration>,
}

/// What a rank last said of itself.
#[derive(Clone, Debug)]
struct Pulse {
    phase: Phase,
    step: u64,
    collectives: u64,
    /// When any of these last changed.
    since: Duration,
}

/// A world that stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rank that is behind.
    pub behind: Rank,
    /// What stands still, and what the others wait for.
    pub words: String,
}

/// The pulses of one attempt.
#[derive(Clone, Debug)]
pub struct Health {
    policy: Policy,
    pulses: Vec<Option<Pulse>>,
}

impl Health {
    /// No rank has said anything yet.
    pub fn new(policy: Policy, world: WorldSize) -> Health {
        Health { policy, pulses: vec![None; world.index()] }
    }

    /// A rank said hello.
    pub fn hello(&mut self, now: Duration, rank: Rank) {
        self.beat(now, rank, 0, 0, Phase::Init);
    }

    /// A rank told its counters. Only a change counts: saying the same again is no progress.
    pub fn beat(&mut self, now: Duration, rank: Rank, step: u64, collectives: u64, phase: Phase) {
        let Some(pulse) = self.pulses.get_mut(rank.index()) else { return };
        let same = |old: &Pulse| (old.phase, old.step, old.collectives) == (phase, step, collectives);
        if !pulse.as_ref().is_some_and(same) {
            *pulse = Some(Pulse { phase, step, collectives, since: now });
        }
    }

    /// A rank is gone, and owes nothing any more.
    pub fn gone(&mut self, rank: Rank) {
        if let Some(pulse) = self.pulses.get_mut(rank.index()) {
            *pulse = None;
        }
    }

    fn budget(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Init => Some(self.policy.init),
            Phase::Step => self.policy.step,
            Phase::Checkpoint | Phase::Evaluate => self.policy.step.map(|step| step * LONG_PHASES),
        }
    }

    fn due(&self, pulse: &Pulse) -> Option<Duration> {
        self.budget(pulse.phase).map(|budget| pulse.since + budget)
    }

    /// When the next rank is overdue, if nothing is heard until then.
    pub fn deadline(&self) -> Option<Duration> {
        self.pulses.iter().flatten().filter_map(|pulse| self.due(pulse)).min()
    }

    /// What is wrong at `now`, if a rank is overdue.
    pub fn overdue(&self, now: Duration) -> Option<Finding> {
        let late = self.pulses.iter().flatten().find(|pulse| self.due(pulse).is_some_and(|due| now >= due))?;
        let heard = || self.pulses.iter().enumerate().filter_map(|(rank, pulse)| Some((rank, pulse.as_ref()?)));
        // Who entered fewest collectives is the one that the others wait for inside the next.
        let (behind, pulse) = heard().min_by_key(|(_, pulse)| (pulse.collectives, pulse.step))?;
        let waiting: Vec<String> = heard()
            .filter(|(_, other)| other.collectives > pulse.collectives)
            .map(|(rank, other)| format!("rank {rank} waits in collective {}", other.collectives))
            .collect();
        let still = now.saturating_sub(late.since).as_secs_f64();
        let doing = match pulse.phase {
            Phase::Init => "before its first step".to_owned(),
            Phase::Step => format!("at step {}", pulse.step),
            Phase::Checkpoint => format!("in a checkpoint at step {}", pulse.step),
            Phase::Evaluate => format!("in an evaluation at step {}", pulse.step),
        };
        let mut words =
            format!("no progress for {still:.1} s: it stands {doing}, after collective {}", pulse.collectives);
        if !waiting.is_empty() {
            words += &format!("; {}", waiting.join(", "));
        }
        Some(Finding { behind: Rank(behind as u32), words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn health() -> Health {
        Health::new(Policy { init: ms(10_000), step: Some(ms(2000)) }, WorldSize(2))
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
        assert_eq!(health.deadline(), Some(ms(2000)));
        assert_eq!(health.overdue(ms(1999)), None);
        let finding = health.overdue(ms(2000)).unwrap();
        assert_eq!(finding.behind, Rank(1));
        assert_eq!(
            finding.words,
            "no progress for 2.0 s: it stands at step 7, after collective 7; rank 0 waits in collective 8"
        );
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
        assert_eq!(health.deadline(), Some(ms(10_000)));
        health.beat(ms(6000), Rank(0), 1, 1, Phase::Step);
        health.beat(ms(6100), Rank(0), 1, 1, Phase::Checkpoint);
        assert_eq!(health.overdue(ms(15_000)), None);
        health.beat(ms(15_000), Rank(0), 2, 2, Phase::Step);
        assert!(health.overdue(ms(17_000)).is_some());
        health.gone(Rank(0));
        assert_eq!(health.deadline(), None);
    }
}
