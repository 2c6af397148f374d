//! From one attempt to the next: which places are lost, and whether the devices of the others are free again.

use super::{Phase, Supervisor};
use crate::supervisor::event::{Action, Cause, Record};
use crate::supervisor::verdict::first_cause;
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::Fault;
use std::time::Duration;

/// How long the memory of devices is waited for. What holds it then is none of ours.
const MEMORY_WAIT: Duration = Duration::from_secs(60);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Supervisor {
    /// Goes on at `until`. The devices are looked at first where that is possible, during the wait, so that it costs no
    /// time where all is well.
    pub(super) fn go_on(&mut self, now: Duration, until: Duration, todo: &mut Vec<Action>) {
        self.phase = Phase::Waiting { until };
        if self.settings.asks_driver {
            self.phase = Phase::Checking { until, give_up: until + MEMORY_WAIT, next_look: now, told: false };
            self.look_at_devices(now, todo);
        }
    }

    pub(super) fn next_attempt(&mut self, now: Duration, todo: &mut Vec<Action>) {
        self.attempt = self.attempt.next();
        self.begin(now, todo);
    }

    pub(super) fn look_at_devices(&mut self, now: Duration, todo: &mut Vec<Action>) {
        let Phase::Checking { give_up, next_look, .. } = &mut self.phase else { return };
        if now >= *give_up {
            todo.push(Action::Tell("the devices are not free yet; starting all the same".to_owned()));
            return self.next_attempt(now, todo);
        }
        // Nothing more until the answer comes, which a sick driver may never give.
        *next_look = *give_up;
        todo.push(Action::LookAtDevices { attempt: self.attempt });
    }

    /// What the driver says of the devices.
    pub(super) fn devices(
        &mut self,
        now: Duration,
        lost: Vec<(Rank, String)>,
        held: Vec<(Rank, String)>,
        todo: &mut Vec<Action>,
    ) {
        let Phase::Checking { until, give_up, .. } = self.phase else { return };
        for (place, why) in lost {
            if !self.places.contains(&place) {
                continue;
            }
            if self.world.0 <= self.settings.restarts.least {
                return self.cannot_go_on(place, &why, todo);
            }
            self.lose(place, &why, todo);
        }
        let held = held.into_iter().filter(|(place, _)| self.places.contains(place));
        let devices: Vec<String> = held.map(|(_, words)| words).collect();
        if devices.is_empty() {
            self.phase = Phase::Waiting { until };
            return self.tick(now, todo);
        }
        if now >= give_up {
            return self.look_at_devices(now, todo);
        }
        if let Phase::Checking { next_look, told, .. } = &mut self.phase {
            *next_look = (now + LOOK_EVERY).min(give_up);
            if !std::mem::replace(told, true) {
                let (list, most) = (devices.join(", "), crate::plan::duration::show(MEMORY_WAIT));
                todo.push(Action::Tell(format!("waiting for the memory of devices, at most {most}: {list}")));
                todo.push(Action::Record(Record::DevicesHeld { attempt: self.attempt, devices }));
            }
        }
    }

    /// Goes on without a place. The ranks above it move down.
    pub(super) fn lose(&mut self, place: Rank, why: &str, todo: &mut Vec<Action>) {
        self.places.retain(|other| *other != place);
        self.world = WorldSize(self.places.len() as u32);
        let (attempt, workers) = (self.attempt, self.world.0);
        let plural = if workers == 1 { "" } else { "s" };
        let words = format!("the place of rank {place} (as it was at first) is lost: {why}; going on with {workers}");
        todo.push(Action::Tell(format!("{words} worker{plural}")));
        todo.push(Action::Record(Record::Lost { attempt, place, why: why.to_owned(), workers }));
    }

    fn cannot_go_on(&mut self, place: Rank, why: &str, todo: &mut Vec<Action>) {
        let Some(cause) = first_cause(&self.exits) else { return };
        let message = format!("{}; no restart, since the place of rank {place} is lost: {why}", cause.describe());
        let fault = Some(Fault { message, code: exit::UNAVAILABLE, blames: None });
        self.finish(Some(Cause { how: None, fault, ..cause }), Vec::new(), todo);
    }
}
