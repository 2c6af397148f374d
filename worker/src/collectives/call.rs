//! One collective call in a form that ranks can compare and people can read.

use crate::collectives::ReduceOp;
use std::fmt;

/// What kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Form,
    Barrier,
    /// Combining `len` numbers of `size` bytes.
    AllReduce {
        op: ReduceOp,
        size: u8,
    },
    /// Combining `len` f32 numbers where they lie: in the slots of all ranks, at `page`.
    AllReduceShared {
        op: ReduceOp,
        page: u32,
    },
    /// Sending `len` bytes of `root`.
    Broadcast {
        root: u32,
    },
    /// Gathering `len` bytes of each rank.
    AllGather,
    /// What another version of this program, or damage, has left.
    Other,
}

/// By number, as they travel.
const OPS: [ReduceOp; 3] = [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max];

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Which call of its rank this is.
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) len: u64,
}

impl Call {
    /// Kind and length as two words; calls that fit each other have the same words.
    pub(super) fn packed(&self) -> (u64, u64) {
        let (kind, detail, place) = match self.kind {
            Kind::Other => (0, 0, 0),
            Kind::Form => (1, 0, 0),
            Kind::Barrier => (2, 0, 0),
            Kind::AllReduce { op, size } => (3, u64::from(size) | (op as u64) << 8, 0),
            Kind::Broadcast { root } => (4, 0, u64::from(root)),
            Kind::AllGather => (5, 0, 0),
            Kind::AllReduceShared { op, page } => (6, (op as u64) << 8, u64::from(page)),
        };
        let number = self.number & 0xff;
        (kind | detail << 8 | number << 24 | place << 32, self.len)
    }

    /// What two words mean.
    pub(super) fn unpacked((what, len): (u64, u64)) -> Call {
        let kind = match (what & 0xff, what >> 16 & 0xff) {
            (1, _) => Kind::Form,
            (2, _) => Kind::Barrier,
            (3, op @ 0..3) => Kind::AllReduce { op: OPS[op as usize], size: (what >> 8 & 0xff) as u8 },
            (4, _) => Kind::Broadcast { root: (what >> 32) as u32 },
            (5, _) => Kind::AllGather,
            (6, op @ 0..3) => Kind::AllReduceShared { op: OPS[op as usize], page: (what >> 32) as u32 },
            _ => Kind::Other,
        };
        Call { number: what >> 24 & 0xff, kind, len }
    }
}

fn named(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "sum",
        ReduceOp::Avg => "average",
        ReduceOp::Max => "maximum",
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.len;
        match self.kind {
            Kind::Form => f.write_str("forming the world"),
            Kind::Barrier => f.write_str("barrier"),
            Kind::AllReduce { op, size } => write!(f, "all_reduce {} of {len} f{}", named(op), u32::from(size) * 8),
            Kind::AllReduceShared { op, page } => {
                write!(f, "all_reduce {} of {len} f32 in shared memory at page {page}", named(op))
            }
            Kind::Broadcast { root } => write!(f, "broadcast of {len} bytes from rank {root}"),
            Kind::AllGather => write!(f, "all_gather of {len} bytes from each rank"),
            Kind::Other => f.write_str("a call that this program does not know"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_understood_and_told_apart() {
        let kinds = [
            Kind::Form,
            Kind::Barrier,
            Kind::AllReduce { op: ReduceOp::Sum, size: 4 },
            Kind::AllReduce { op: ReduceOp::Avg, size: 4 },
            Kind::AllReduce { op: ReduceOp::Max, size: 8 },
            Kind::Broadcast { root: 0 },
            Kind::Broadcast { root: 3 },
            Kind::AllGather,
            Kind::AllReduceShared { op: ReduceOp::Avg, page: 0 },
            Kind::AllReduceShared { op: ReduceOp::Avg, page: u32::MAX },
        ];
        let mut seen = std::collections::HashSet::new();
        for (number, kind) in kinds.into_iter().enumerate() {
            let call = Call { number: number as u64, kind, len: 1000 };
            assert_eq!(Call::unpacked(call.packed()), call);
            assert!(seen.insert(Call { number: 0, ..call }.packed()));
            assert!(seen.insert(Call { number: 0, len: 1001, ..call }.packed()));
        }
        assert_eq!(Call::unpacked((u64::MAX, 0)).kind, Kind::Other);
    }

    #[test]
    fn calls_are_named_in_words() {
        let call = |kind| Call { number: 1, kind, len: 1000 }.to_string();
        assert_eq!(call(Kind::AllReduce { op: ReduceOp::Sum, size: 4 }), "all_reduce sum of 1000 f32");
        let shared = call(Kind::AllReduceShared { op: ReduceOp::Avg, page: 3 });
        assert_eq!(shared, "all_reduce average of 1000 f32 in shared memory at page 3");
        assert_eq!(call(Kind::Barrier), "barrier");
        assert_eq!(call(Kind::Broadcast { root: 2 }), "broadcast of 1000 bytes from rank 2");
    }
}
