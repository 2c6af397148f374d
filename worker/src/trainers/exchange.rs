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
#[derive(Clone, Debug, PartialEq, Eq)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trainers::tests::threads::as_ranks;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn everyone_hears_everyone_whatever_the_lengths(
            rounds in proptest::collection::vec(proptest::collection::vec(0usize..20_000, 3), 1..4),
            ranks in 1usize..4, raised in 0usize..6,
        ) {
            let message = |round: usize, rank: usize| -> Vec<u8> {
                (0..rounds[round][rank]).map(|i| (i * 7 + rank + round) as u8).collect()
            };
            let heard = as_ranks(ranks, |mut world| {
                let rank = world.rank().index();
                let mut exchange = Exchange::default();
                let round = |round| exchange.gather(world.collective(), message(round, rank), raised == rank).unwrap();
                (0..rounds.len()).map(round).collect::<Vec<_>>()
            });
            for said in heard {
                for (round, said) in said.iter().enumerate() {
                    let expected: Vec<Vec<u8>> = (0..ranks).map(|rank| message(round, rank)).collect();
                    prop_assert!(said.messages == expected);
                    prop_assert_eq!(said.flag, raised < ranks);
                }
            }
        }
    }
}
