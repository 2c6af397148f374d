//! Hangs are seen by progress, not by liveness: a rank whose counters stand still for longer than its phase may
//! take is overdue, and the one that is behind the others is named. A program that reports nothing may be judged by
//! a sign of life instead, `--hang-on`. Pure.

use crate::plan::HangOn;
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::Phase;
use serde::Serialize;
use std::time::Duration;

/// A rank is said to stand still after this part of the time that it has, so that a person can look before it ends.
const EARLY: u32 = 2;
/// Signs of life are looked for this many times within the time that a rank has.
const LOOKS: u32 = 20;
/// They are looked for at least and at most so often.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

/// Who has used so many clock ticks (hundredths of a second) has begun its work.
const BEGUN: u64 = 100;

/// How long a rank may take. The rules begin with its first word: a program that says nothing is never overdue,
/// unless signs of life are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// From hello to the first step.
    pub init: Duration,
    /// From one step to the next; `None` for ever.
    pub step: Option<Duration>,
    /// In a checkpoint.
    pub checkpoint: Option<Duration>,
    /// In an evaluation.
    pub evaluation: Option<Duration>,
    /// The sign of life that a rank must give which reports nothing.
    pub hang_on: Option<HangOn>,
}

/// A rank's signs of life, in counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Bytes that it printed.
    pub output: u64,
    /// Clock ticks that it and what it started have used.
    pub cpu: u64,
}

/// By what a rank was found to stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Its own reports.
    Progress,
    /// [`HangOn::Silence`].
    Silence,
    /// [`HangOn::Cpu`].
    Cpu,
}

/// What a rank last said of itself.
#[derive(Clone, Debug, PartialEq)]
struct Pulse {
    phase: Phase,
    step: u64,
    collectives: u64,
}

#[derive(Clone, Debug, Default)]
struct Watched {
    /// What it reports, once it does.
    pulse: Option<Pulse>,
    signs: Option<Signs>,
    /// When any of these last changed.
    since: Duration,
    /// That it stands still was noticed.
    warned: bool,
    /// And told, as it is the one behind.
    told: bool,
}

impl Watched {
    fn changed(&mut self, now: Duration) {
        (self.since, self.warned, self.told) = (now, false, false);
    }
}

/// A rank that stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rank that is behind.
    pub behind: Rank,
    /// By which rule.
    pub rule: Rule,
    /// Since when, from the beginning.
    pub since: Duration,
    /// What stands still, and what the others wait for.
    pub words: String,
}

/// The ranks of one attempt.
#[derive(Clone, Debug)]
pub struct Health {
    policy: Policy,
    ranks: Vec<Watched>,
    next_look: Duration,
}

impl Health {
    /// No rank has said anything yet.
    pub fn new(policy: Policy, world: WorldSize, now: Duration) -> Health {
        let mut health = Health { policy, ranks: vec![Watched::default(); world.index()], next_look: now };
        health.looked(now);
        health
    }

    /// A rank said hello.
    pub fn hello(&mut self, now: Duration, rank: Rank) {
        self.beat(now, rank, 0, 0, Phase::Init);
    }

    /// A rank told its counters. Only a change counts: saying the same again is no progress. Gives for how long it
    /// had stood still, if that was told.
    pub fn beat(&mut self, now: Duration, rank: Rank, step: u64, collectives: u64, phase: Phase) -> Option<Duration> {
        let watched = self.ranks.get_mut(rank.index())?;
        let pulse = Some(Pulse { phase, step, collectives });
        if watched.pulse == pulse {
            return None;
        }
        let stood = watched.told.then(|| now.saturating_sub(watched.since));
        let before = watched.pulse.replace(Pulse { phase, step, collectives });
        watched.changed(now);
        if before.is_some_and(|before| is_long(&before)) && phase == Phase::Step {
            // Who waited for it meanwhile begins to count now.
            self.ranks.iter_mut().filter(|other| other.pulse.is_some()).for_each(|other| other.changed(now));
        }
        stood
    }

    /// A rank's signs of life, as they are at `now`.
    pub fn sample(&mut self, now: Duration, rank: Rank, signs: Signs) -> Option<Duration> {
        let watched = self.ranks.get_mut(rank.index())?;
        let sign = |signs: Signs| match self.policy.hang_on {
            Some(HangOn::Cpu) => (signs.cpu, signs.output > 0),
            _ => (signs.output, signs.output > 0),
        };
        let before = watched.signs.replace(signs);
        if watched.pulse.is_some() || before.map(sign) == Some(sign(signs)) {
            return None;
        }
        let stood = watched.told.then(|| now.saturating_sub(watched.since));
        watched.changed(now);
        stood
    }

    /// A rank is gone, and owes nothing any more.
    pub fn gone(&mut self, rank: Rank) {
        if let Some(watched) = self.ranks.get_mut(rank.index()) {
            *watched = Watched::default();
        }
    }

    fn budget(&self, watched: &Watched) -> Option<Duration> {
        let Policy { init, step, checkpoint, evaluation, hang_on } = self.policy;
        match (&watched.pulse, watched.signs, hang_on) {
            (Some(pulse), ..) => match pulse.phase {
                // Who never tells a step has begun once it enters collectives, and is not watched unless asked for.
                Phase::Init if pulse.collectives > 0 && step.is_none() => None,
                Phase::Init => Some(init),
                // A program may say that it begins.
                Phase::Step if pulse.step == 0 => step.map(|step| step.max(init)),
                Phase::Step => step,
                Phase::Checkpoint => checkpoint,
                Phase::Evaluate => evaluation,
            },
            (None, Some(signs), Some(_)) if signs.output > 0 => step,
            (None, Some(signs), Some(HangOn::Cpu)) if signs.cpu >= BEGUN => step,
            // A program that prints nothing at all may be judged by its work, but takes time to begin.
            (None, Some(_), Some(HangOn::Cpu)) => step.map(|step| step.max(init)),
            _ => None,
        }
    }

    fn own_due(&self, watched: &Watched) -> Option<Duration> {
        self.budget(watched).map(|budget| watched.since + budget)
    }

    /// A rank may be late because it waits for one that writes a checkpoint, evaluates, or begins.
    fn due(&self, watched: &Watched) -> Option<Duration> {
        let own = self.own_due(watched)?;
        let busy = self.ranks.iter().filter(|other| other.pulse.as_ref().is_some_and(is_long));
        let excused = busy.filter_map(|other| self.own_due(other)).max();
        Some(if watched.pulse.is_some() { own.max(excused.unwrap_or(own)) } else { own })
    }

    /// When a rank is said to stand still, before it is overdue.
    fn early(&self, watched: &Watched) -> Option<Duration> {
        let due = self.due(watched)?;
        Some(watched.since + due.saturating_sub(watched.since) / EARLY)
    }

    /// When something is to be done, if nothing is heard until then.
    pub fn deadline(&self) -> Option<Duration> {
        let next = |watched: &Watched| if watched.warned { self.due(watched) } else { self.early(watched) };
        self.ranks.iter().filter_map(next).chain(self.look_at()).min()
    }

    /// When signs of life are to be looked for.
    pub fn look_at(&self) -> Option<Duration> {
        self.policy.hang_on.and(self.policy.step).map(|_| self.next_look)
    }

    /// They are being looked for.
    pub fn looked(&mut self, now: Duration) {
        let (least, most) = LOOK_EVERY;
        self.next_look = now + self.policy.step.map_or(most, |step| (step / LOOKS).clamp(least, most));
    }

    /// Who stands still for so long that a person should know: the one that is behind, told once. Those that wait for
    /// it stand still too, but that is not their fault.
    pub fn still(&mut self, now: Duration) -> Option<Finding> {
        let is_new = |watched: &Watched| !watched.warned && self.early(watched).is_some_and(|at| now >= at);
        let new: Vec<usize> = (0..self.ranks.len()).filter(|rank| is_new(&self.ranks[*rank])).collect();
        let longest = new.iter().copied().min_by_key(|rank| self.ranks[*rank].since)?;
        new.iter().for_each(|rank| self.ranks[*rank].warned = true);
        let behind = self.behind(&self.ranks[longest])?;
        let since = self.ranks[longest].since;
        let was_told = std::mem::replace(&mut self.ranks[behind].told, true);
        (!was_told).then(|| self.finding(now, behind, since))
    }

    /// What is wrong at `now`, if a rank is overdue.
    pub fn overdue(&self, now: Duration) -> Option<Finding> {
        let is_late = |watched: &Watched| self.due(watched).is_some_and(|due| now >= due);
        let late = self.ranks.iter().filter(|watched| is_late(watched)).min_by_key(|watched| watched.since)?;
        Some(self.finding(now, self.behind(late)?, late.since))
    }

    /// The rank because of which `late` is late, itself perhaps.
    fn behind(&self, late: &Watched) -> Option<usize> {
        let is_busy = self.ranks.iter().any(|other| other.pulse.as_ref().is_some_and(is_long));
        let place = |(rank, watched): (usize, &Watched)| {
            let judged_alike = watched.pulse.is_some() == late.pulse.is_some() && self.budget(watched).is_some();
            // Who entered fewest collectives is the one that the others wait for inside the next. Of those that are
            // as far, one that has said to do what takes long is not the one that waits.
            let key = watched.pulse.as_ref().map(|pulse| (pulse.collectives, pulse.step, is_busy && !is_long(pulse)));
            judged_alike.then_some((key, watched.since, rank))
        };
        self.ranks.iter().enumerate().filter_map(place).min().map(|(.., rank)| rank)
    }

    fn finding(&self, now: Duration, rank: usize, since: Duration) -> Finding {
        let still = format!("{:.1} s", now.saturating_sub(since).as_secs_f64());
        let at = format!("since {:.1} s after the beginning", since.as_secs_f64());
        let (rule, words) = match (&self.ranks[rank].pulse, self.policy.hang_on) {
            (Some(pulse), _) => (Rule::Progress, self.standing(pulse, &still)),
            (None, Some(HangOn::Cpu)) => {
                (Rule::Cpu, format!("no processor time used for {still}, {at} (--hang-on cpu)"))
            }
            (None, _) => (Rule::Silence, format!("no output for {still}, {at} (--hang-on silence)")),
        };
        Finding { behind: Rank(rank as u32), rule, since, words }
    }

    fn standing(&self, pulse: &Pulse, still: &str) -> String {
        let doing = match pulse.phase {
            Phase::Init => "before its first step".to_owned(),
            Phase::Step => format!("at step {}", pulse.step),
            Phase::Checkpoint => format!("in a checkpoint at step {}", pulse.step),
            Phase::Evaluate => format!("in an evaluation at step {}", pulse.step),
        };
        let counted = self.ranks.iter().flat_map(|watched| &watched.pulse).any(|pulse| pulse.collectives > 0);
        let after = if counted { format!(", after collective {}", pulse.collectives) } else { String::new() };
        let mut words = format!("no progress for {still}: it stands {doing}{after}");
        let reported = self.ranks.iter().enumerate().filter_map(|(rank, other)| Some((rank, other.pulse.as_ref()?)));
        let ahead = reported.filter_map(|(rank, other)| match () {
            () if other.collectives > pulse.collectives => {
                Some(format!("rank {rank} waits in collective {}", other.collectives))
            }
            () if !counted && other.step > pulse.step => Some(format!("rank {rank} is at step {}", other.step)),
            () => None,
        });
        ahead.for_each(|ahead| words += &format!("; {ahead}"));
        let same = |other: &Watched| other.pulse.as_ref() == Some(pulse);
        if self.ranks.len() > 1 && self.ranks.iter().all(same) {
            words += ", as all ranks do";
        }
        words
    }
}

/// Whether others may wait for it for longer than a step. Who never tells a step, as where rank 0 tells them for all,
/// has begun once it enters collectives.
fn is_long(pulse: &Pulse) -> bool {
    match pulse.phase {
        Phase::Checkpoint | Phase::Evaluate => true,
        Phase::Init | Phase::Step => pulse.step == 0 && pulse.collectives == 0,
    }
}

#[cfg(test)]
mod tests;
