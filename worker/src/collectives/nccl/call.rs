//! What a rank is about to do, in a form that ranks can compare before they do it.
//!
//! NCCL does not notice that two ranks make different calls: it hangs, or mixes up their data. With checking on,
//! ranks first gather these records, so that a mismatch ends in an error on every rank, before any data moves.

use crate::collectives::{CollectiveError, ReduceOp};
use foxlaunch_shared::ids::Rank;
use std::fmt;

/// The type of a call's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    U8,
    F32,
    F64,
}

impl Element {
    /// Bytes of one element.
    pub(super) fn bytes(self) -> usize {
        match self {
            Element::U8 => 1,
            Element::F32 => 4,
            Element::F64 => 8,
        }
    }
}

/// Which collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AllReduce(ReduceOp),
    Broadcast(Rank),
    AllGather,
    Barrier,
}

/// One collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) kind: Kind,
    pub(super) element: Element,
    /// How many elements this rank gives.
    pub(super) count: usize,
}

/// Bytes of one encoded record.
pub(super) const RECORD: usize = 24;

impl Call {
    /// The call of a barrier.
    pub(super) const BARRIER: Call = Call { kind: Kind::Barrier, element: Element::U8, count: 0 };

    /// The record of this call as the `number`th one of its rank.
    pub(super) fn encode(&self, number: u64) -> [u8; RECORD] {
        let (kind, detail) = match self.kind {
            Kind::AllReduce(ReduceOp::Sum) => (1, 0),
            Kind::AllReduce(ReduceOp::Avg) => (1, 1),
            Kind::AllReduce(ReduceOp::Max) => (1, 2),
            Kind::Broadcast(root) => (2, root.0),
            Kind::AllGather => (3, 0),
            Kind::Barrier => (4, 0),
        };
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&number.to_le_bytes());
        record[8..16].copy_from_slice(&(self.count as u64).to_le_bytes());
        record[16] = kind;
        record[17] = self.element.bytes() as u8;
        record[20..].copy_from_slice(&detail.to_le_bytes());
        record
    }

    /// What `record` says, or nothing if it is none.
    fn decode(record: &[u8]) -> Option<(u64, Call)> {
        let record: &[u8; RECORD] = record.try_into().ok()?;
        let u64_at = |at: usize| Some(u64::from_le_bytes(record.get(at..at + 8)?.try_into().ok()?));
        let detail = u32::from_le_bytes(record[20..].try_into().ok()?);
        let kind = match (record[16], detail) {
            (1, 0) => Kind::AllReduce(ReduceOp::Sum),
            (1, 1) => Kind::AllReduce(ReduceOp::Avg),
            (1, 2) => Kind::AllReduce(ReduceOp::Max),
            (2, root) => Kind::Broadcast(Rank(root)),
            (3, 0) => Kind::AllGather,
            (4, 0) => Kind::Barrier,
            _ => return None,
        };
        let element = match record[17] {
            1 => Element::U8,
            4 => Element::F32,
            8 => Element::F64,
            _ => return None,
        };
        Some((u64_at(0)?, Call { kind, element, count: usize::try_from(u64_at(8)?).ok()? }))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        let element = match self.element {
            Element::U8 => "bytes",
            Element::F32 => "f32",
            Element::F64 => "f64",
        };
        match self.kind {
            Kind::AllReduce(op) => {
                let op = match op {
                    ReduceOp::Sum => "sum",
                    ReduceOp::Avg => "avg",
                    ReduceOp::Max => "max",
                };
                write!(f, "all_reduce {op} of {count} {element}")
            }
            Kind::Broadcast(root) => write!(f, "broadcast of {count} {element} from rank {root}"),
            Kind::AllGather => write!(f, "all_gather of {count} {element}"),
            Kind::Barrier => f.write_str("barrier"),
        }
    }
}

/// Compares the gathered records of all ranks, as `rank` sees them. Where any two differ every rank gets an error, so
/// that none goes on alone.
pub(super) fn compare(all: &[u8], rank: Rank) -> Result<(), CollectiveError> {
    let records: Vec<&[u8]> = all.chunks_exact(RECORD).collect();
    let Some(mine) = records.get(rank.index()) else {
        return Err(CollectiveError::Failed(format!("no record of rank {rank} among {}", records.len())));
    };
    let Some(other) = records.iter().position(|record| record != mine) else { return Ok(()) };
    Err(CollectiveError::Mismatch { rank, here: words(mine), other: Rank(other as u32), there: words(records[other]) })
}

fn words(record: &[u8]) -> String {
    match Call::decode(record) {
        Some((number, call)) => format!("{call} (its call {number})"),
        None => "a call that this version does not know".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_call() -> impl Strategy<Value = Call> {
        let kind = prop_oneof![
            Just(Kind::AllReduce(ReduceOp::Sum)),
            Just(Kind::AllReduce(ReduceOp::Avg)),
            Just(Kind::AllReduce(ReduceOp::Max)),
            (0..64u32).prop_map(|root| Kind::Broadcast(Rank(root))),
            Just(Kind::AllGather),
            Just(Kind::Barrier),
        ];
        let element = prop_oneof![Just(Element::U8), Just(Element::F32), Just(Element::F64)];
        (kind, element, any::<u32>()).prop_map(|(kind, element, count)| Call { kind, element, count: count as usize })
    }

    proptest! {
        #[test]
        fn a_record_says_what_was_written(call in any_call(), number: u64) {
            prop_assert_eq!(Call::decode(&call.encode(number)), Some((number, call)));
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), rank in 0..4u32) {
            let _ = compare(&bytes, Rank(rank));
        }

        #[test]
        fn all_ranks_see_a_mismatch(calls in proptest::collection::vec(any_call(), 2..5)) {
            let all: Vec<u8> = calls.iter().flat_map(|call| call.encode(7)).collect();
            let alike = calls.iter().all(|call| *call == calls[0]);
            for rank in 0..calls.len() as u32 {
                prop_assert_eq!(compare(&all, Rank(rank)).is_ok(), alike);
            }
        }
    }

    #[test]
    fn both_sides_are_named() {
        let sum = Call { kind: Kind::AllReduce(ReduceOp::Sum), element: Element::F32, count: 1000 };
        let all = [sum.encode(3), Call::BARRIER.encode(3)].concat();
        let error = compare(&all, Rank(1)).unwrap_err().to_string();
        assert!(error.starts_with("rank 1 is in barrier (its call 3), but rank 0 is in all_reduce sum of 1000 f32"));
    }
}
