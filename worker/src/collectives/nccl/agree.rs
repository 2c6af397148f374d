//! Comparing calls before they are made.
//!
//! NCCL does not notice that two ranks make different calls: it hangs, or mixes up their data. With checking on, ranks
//! first gather a record of what each is about to do, so that a mismatch ends in an error on every rank, before any data
//! moves.

use crate::collectives::CollectiveError;
use crate::collectives::call::Call;
use foxlaunch_shared::ids::Rank;

/// Bytes of one record.
pub(super) const RECORD: usize = 16;

/// What a rank gives to the others before `call`.
pub(super) fn record(call: &Call) -> [u8; RECORD] {
    let (what, len) = call.packed();
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&what.to_le_bytes());
    record[8..].copy_from_slice(&len.to_le_bytes());
    record
}

/// Compares the records of all ranks, as `rank` sees them. Where any two differ every rank gets an error, so that none
/// goes on alone.
pub(super) fn compare(all: &[u8], rank: Rank) -> Result<(), CollectiveError> {
    let records = all.as_chunks::<RECORD>().0;
    let Some(mine) = records.get(rank.index()) else {
        return Err(CollectiveError::Failed(format!("no record of rank {rank} among {}", records.len())));
    };
    let Some(other) = records.iter().position(|record| record != mine) else { return Ok(()) };
    let words = |record: &[u8; RECORD]| {
        let word = |at: usize| u64::from_le_bytes(record.as_chunks().0[at]);
        Call::unpacked((word(0), word(1))).to_string()
    };
    Err(CollectiveError::Mismatch { rank, here: words(mine), other: Rank(other as u32), there: words(&records[other]) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::ReduceOp;
    use crate::collectives::call::Kind;
    use proptest::prelude::*;

    fn any_call() -> impl Strategy<Value = Call> {
        let kind = prop_oneof![
            Just(Kind::AllReduce { op: ReduceOp::Sum, size: 4 }),
            Just(Kind::AllReduce { op: ReduceOp::Max, size: 8 }),
            (0..64u32).prop_map(|root| Kind::Broadcast { root }),
            Just(Kind::AllGather),
            Just(Kind::Barrier),
        ];
        (kind, 0..3u64).prop_map(|(kind, len)| Call { number: 7, kind, len })
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), rank in 0..4u32) {
            let _ = compare(&bytes, Rank(rank));
        }

        #[test]
        fn all_ranks_see_a_mismatch(calls in proptest::collection::vec(any_call(), 2..5)) {
            let all: Vec<u8> = calls.iter().flat_map(record).collect();
            let alike = calls.iter().all(|call| *call == calls[0]);
            for rank in 0..calls.len() as u32 {
                prop_assert_eq!(compare(&all, Rank(rank)).is_ok(), alike);
            }
        }
    }

    #[test]
    fn both_sides_are_named() {
        let sum = Call { number: 3, kind: Kind::AllReduce { op: ReduceOp::Sum, size: 4 }, len: 1000 };
        let barrier = Call { number: 3, kind: Kind::Barrier, len: 0 };
        let error = compare(&[record(&sum), record(&barrier)].concat(), Rank(1)).unwrap_err().to_string();
        assert!(error.starts_with("rank 1 is in barrier, but rank 0 is in all_reduce sum of 1000 f32"), "{error}");
    }
}
