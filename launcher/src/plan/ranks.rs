//! A list of ranks as a person types it.

use foxlaunch_shared::ids::Rank;
use std::collections::BTreeSet;

/// More workers than this no host has; it keeps `0-4000000000` from filling the memory.
const MOST: u32 = 4096;

/// Reads ranks and ranges of them with commas between, as `0,2-3`.
pub fn parse(text: &str) -> Result<BTreeSet<Rank>, String> {
    let wrong = || format!("{text:?} is no list of ranks: use numbers below {MOST} with commas between, as 0,2-3");
    let number = |text: &str| text.trim().parse().ok().filter(|rank| *rank < MOST).ok_or_else(wrong);
    let mut ranks = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        ranks.extend((first..=last).map(Rank));
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_understood_and_nonsense_is_refused() {
        for (text, ranks) in [("0", vec![0]), ("3,1", vec![1, 3]), ("0-2, 5,2", vec![0, 1, 2, 5])] {
            assert_eq!(parse(text), Ok(ranks.into_iter().map(Rank).collect()), "{text}");
        }
        for text in ["", ",", "0,", "a", "-1", "3-1", "0-4000000000", "1-", "0 1"] {
            assert!(parse(text).unwrap_err().contains("is no list of ranks"), "{text}");
        }
    }
}
