//! Asking the driver about the workers' devices, on a thread of its own: a sick driver takes seconds to say nothing.

use super::{Actor, Event, Input};
use crate::devices::Gpu;
use crate::devices::memory::{self, Look, Seen};
use crate::process::signals::spawn_deaf;
use foxlaunch_shared::ids::{Attempt, Rank};

/// Who is asked; `None` if no answer can be had.
pub(super) type Asks = fn(&[Option<Gpu>]) -> Option<Vec<Seen>>;

/// The driver.
pub(super) fn asks() -> Asks {
    |gpus| memory::ask(gpus).ok()
}

impl Actor<'_> {
    /// Has [`Event::Devices`] come. Without an answer nothing is known to be wrong.
    pub(super) fn look_at_devices(&self, attempt: Attempt) {
        let (asks, gpus, input) = (self.asks, self.whole.gpus.clone(), self.input.clone());
        let body = move || drop(input.send(Input::Event(answer(asks, &gpus, attempt))));
        if spawn_deaf("devices", body).is_err() {
            let none = Event::Devices { attempt, lost: Vec::new(), held: Vec::new() };
            let _ = self.input.send(Input::Event(none));
        }
    }
}

fn answer(asks: Asks, gpus: &[Option<Gpu>], attempt: Attempt) -> Event {
    let Look { lost, held } = asks(gpus).map_or_else(Look::default, |seen| memory::judge(gpus, &seen));
    let places = |found: Vec<(usize, String)>| found.into_iter().map(|(n, words)| (Rank(n as u32), words)).collect();
    Event::Devices { attempt, lost: places(lost), held: places(held) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: u32) -> Option<Gpu> {
        let (name, pci_bus_id) = (String::new(), String::new());
        let bytes = 8 << 30;
        let uuid = format!("GPU-{index}");
        Some(Gpu { index, uuid, name, memory_bytes: bytes, memory_free_bytes: bytes, pci_bus_id })
    }

    #[test]
    fn what_is_seen_becomes_an_event_and_no_answer_holds_nothing_up() {
        let seen: Asks = |_| Some(vec![Seen::Free(8 << 30), Seen::Free(1 << 30), Seen::Lost("gone".into())]);
        let gpus = [gpu(0), gpu(1), gpu(2)];
        let Event::Devices { attempt, lost, held } = answer(seen, &gpus, Attempt(3)) else { panic!() };
        assert_eq!((attempt, lost[0].0, held[0].0), (Attempt(3), Rank(2), Rank(1)));
        let nothing = Event::Devices { attempt: Attempt(3), lost: vec![], held: vec![] };
        assert_eq!(answer(|_| None, &gpus, Attempt(3)), nothing);
    }
}
