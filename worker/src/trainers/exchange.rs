//! Messages of any length from every rank to every rank.

use crate::collectives::{Collective, CollectiveError};

/// Length and flag before each message.
const HEAD: usize = 9;
/// Room for a message at first; it grows as messages do.
const FIRST_SLOT: usize = 4096;

/// What all ranks said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Each rank's message, in rank order.
    pub messages: Vec<Vec<u8>>,
    /// Whether any rank raised its flag.
    pub flag: bool,
}

/// Gathers messages in slots of one size. All ranks see all lengths, so they agree on when slots must grow without
/// a further message: usually one collective call is enough.
#[derive(Clone, Debug)]
pub struct Exchange {
    slot: usize,
}

impl Default for Exchange {
    fn default() -> Exchange {
        Exchange { slot: FIRST_SLOT }
    }
}

impl Exchange {
    /// Says `mine`, with `flag`, to all ranks, and hears what each said.
    pub fn gather(
        &mut self,
        collective: &mut dyn Collective,
        mine: Vec<u8>,
        flag: bool,
    ) -> Result<Said, CollectiveError> {
        let ranks = collective.world_size().index();
        if ranks == 1 {
            return Ok(Said { messages: vec![mine], flag });
        }
        loop {
            let mut slot = vec![0; HEAD + self.slot];
            slot[..8].copy_from_slice(&(mine.len() as u64).to_le_bytes());
            slot[8] = u8::from(flag);
            if mine.len() <= self.slot {
                slot[HEAD..HEAD + mine.len()].copy_from_slice(&mine);
            }
            let mut all = vec![0; slot.len() * ranks];
            collective.all_gather(&slot, &mut all)?;
            let slots = all.chunks_exact(slot.len());
            let lengths: Vec<usize> =
                slots.clone().map(|s| u64::from_le_bytes(s[..8].try_into().expect("eight bytes")) as usize).collect();
            let longest = lengths.iter().copied().max().unwrap_or(0);
            if longest > self.slot {
                self.slot = longest.next_power_of_two();
                continue;
            }
            let flag = slots.clone().any(|s| s[8] != 0);
            let messages = slots.zip(lengths).map(|(s, len)| s[HEAD..HEAD + len].to_vec()).collect();
            return Ok(Said { messages, flag });
        }
    }
}
