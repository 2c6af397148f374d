//! Who owns which part of the batch, and sums that do not depend on it.
//!
//! The global batch is split into V *virtual shards*, fixed for the whole run. Each rank owns some of them, and
//! all gradients of shards are added in one order, `((s0 + s1) + s2) + ...`. So any number of ranks from 1 to V
//! ends with the same bits, also when it changes in the middle of a run.

use super::{FlatGradients, ParallelError, Values};
use crate::collectives::Collective;
use foxlaunch_shared::ids::{Rank, WorldSize};
use std::ops::{AddAssign, Range};

/// Elements of one shard that are gathered at a time: bounds the memory that a sum needs.
const BLOCK: usize = 1 << 18;

/// The shards of one world, as one rank sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    shards: usize,
    world: WorldSize,
    rank: Rank,
}

impl Shards {
    /// `shards` virtual shards for the ranks of `world`, of which this is `rank`.
    pub fn new(shards: usize, world: WorldSize, rank: Rank) -> Result<Shards, ParallelError> {
        let ranks = world.0 as usize;
        if shards < ranks {
            return Err(ParallelError::TooFewShards { shards, ranks });
        }
        if rank.0 >= world.0 {
            return Err(ParallelError::Unlike(format!("rank {rank} in a world of {world}")));
        }
        Ok(Shards { shards, world, rank })
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.shards
    }

    /// Whether each rank owns one shard: their gradients are then summed by one all-reduce.
    pub fn is_one_each(&self) -> bool {
        self.shards == self.world.0 as usize
    }

    /// The shards that this rank owns.
    pub fn owned(&self) -> Range<usize> {
        self.owned_by(self.rank)
    }

    /// The shards that `rank` owns: neighbours, as evenly as can be, the first ranks having one more.
    pub fn owned_by(&self, rank: Rank) -> Range<usize> {
        part(self.shards, self.world.0 as usize, rank.0 as usize)
    }

    /// The rows of shard `shard` in a batch of `total` rows; may be none.
    pub fn rows(&self, shard: usize, total: usize) -> Range<usize> {
        part(total, self.shards, shard)
    }

    /// The rows of all shards of this rank in a batch of `total` rows.
    pub fn owned_rows(&self, total: usize) -> Range<usize> {
        let owned = self.owned();
        self.rows(owned.start, total).start..self.rows(owned.end - 1, total).end
    }
}

/// Part `at` of `total` things split into `parts`.
fn part(total: usize, parts: usize, at: usize) -> Range<usize> {
    let (each, more) = (total / parts, total % parts);
    let start = at * each + at.min(more);
    start..start + each + usize::from(at < more)
}

/// Adds the buffers of all shards, `parts` being those of this rank's shards in order, into `out`, in the order of
/// the shards. All ranks get the same bits, whatever the number of ranks.
pub fn sum_shards(
    collective: &mut dyn Collective,
    shards: &Shards,
    parts: &[FlatGradients],
    out: &mut FlatGradients,
) -> Result<(), ParallelError> {
    if parts.len() != shards.owned().len() {
        let (given, owned) = (parts.len(), shards.owned().len());
        return Err(ParallelError::Unlike(format!("{given} parts given by a rank that owns {owned} shards")));
    }
    out.copy_from(&parts[0])?;
    if shards.world == WorldSize(1) {
        return parts[1..].iter().try_for_each(|part| add(out.values_mut(), part.values()));
    }
    if shards.count() == shards.world.0 as usize {
        return out.sum(collective);
    }
    match out.values_mut() {
        Values::F32(out) => gathered(collective, shards, &slices(parts, as_f32)?, out),
        Values::F64(out) => gathered(collective, shards, &slices(parts, as_f64)?, out),
        #[cfg(feature = "cuda")]
        Values::CudaF32(_) => super::gradients_cuda::sum_shards(collective, shards, parts, out),
    }
}

fn as_f32(values: &Values) -> Option<&[f32]> {
    if let Values::F32(values) = values { Some(values) } else { None }
}

fn as_f64(values: &Values) -> Option<&[f64]> {
    if let Values::F64(values) = values { Some(values) } else { None }
}

fn slices<T>(parts: &[FlatGradients], get: fn(&Values) -> Option<&[T]>) -> Result<Vec<&[T]>, ParallelError> {
    let slices: Option<Vec<_>> = parts.iter().map(|part| get(part.values())).collect();
    slices.ok_or_else(|| ParallelError::Unlike("gradient buffers of different kinds".into()))
}

/// Adds `from` to `to`.
fn add(to: &mut Values, from: &Values) -> Result<(), ParallelError> {
    match (to, from) {
        (Values::F32(to), Values::F32(from)) if to.len() == from.len() => add_slice(to, from),
        (Values::F64(to), Values::F64(from)) if to.len() == from.len() => add_slice(to, from),
        #[cfg(feature = "cuda")]
        (Values::CudaF32(to), Values::CudaF32(from)) if to.len() == from.len() => {
            super::gradients_cuda::add_slice(to, from)?;
        }
        _ => return Err(ParallelError::Unlike("gradient buffers of different kinds or sizes".into())),
    }
    Ok(())
}

fn add_slice<T: Copy + AddAssign>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
}

/// Gathers all shards, block by block, and adds them in order.
pub(super) fn gathered<T: Copy + AddAssign + bytemuck::Pod>(
    collective: &mut dyn Collective,
    shards: &Shards,
    parts: &[&[T]],
    out: &mut [T],
) -> Result<(), ParallelError> {
    // rank 0 owns as many as any; the others send as many, the last of theirs without meaning
    let slots = shards.owned_by(Rank(0)).len();
    if parts.iter().any(|part| part.len() != out.len()) {
        return Err(ParallelError::Unlike("gradient buffers of different sizes".into()));
    }
    let block = BLOCK.min(out.len());
    let mut mine = vec![T::zeroed(); slots * block];
    let mut all = vec![T::zeroed(); mine.len() * shards.world.0 as usize];
    for start in (0..out.len()).step_by(block.max(1)) {
        let now = block.min(out.len() - start);
        for (slot, part) in mine.chunks_exact_mut(block).zip(parts) {
            slot[..now].copy_from_slice(&part[start..start + now]);
        }
        collective.all_gather(bytemuck::cast_slice(&mine), bytemuck::cast_slice_mut(&mut all))?;
        let to = &mut out[start..start + now];
        let mut first = true;
        for rank in shards.world.ranks() {
            let sent = &all[rank.0 as usize * mine.len()..][..mine.len()];
            for shard in sent.chunks_exact(block).take(shards.owned_by(rank).len()) {
                if std::mem::take(&mut first) {
                    to.copy_from_slice(&shard[..now]);
                } else {
                    add_slice(to, &shard[..now]);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(total: usize, world: u32) -> Vec<usize> {
        let ranks = WorldSize(world).ranks();
        ranks.map(|rank| Shards::new(total, WorldSize(world), rank).unwrap().owned().len()).collect()
    }

    #[test]
    fn shards_are_owned_as_evenly_as_can_be() {
        assert_eq!(sizes(4, 3), [2, 1, 1]);
        assert_eq!(sizes(4, 4), [1, 1, 1, 1]);
        assert_eq!(sizes(7, 3), [3, 2, 2]);
        assert!(matches!(
            Shards::new(3, WorldSize(4), Rank(0)),
            Err(ParallelError::TooFewShards { shards: 3, ranks: 4 })
        ));
    }

    use super::super::Layout;
    use crate::collectives::{Shm, shm::tests::world_of};
    use candle_core::{DType, Device};

    /// The gradient buffer of one shard: numbers of very different sizes, so that the order of a sum shows.
    fn shard(shard: usize, len: usize, dtype: DType) -> FlatGradients {
        let layout = Layout::from_named([("w".to_owned(), vec![len], dtype)]);
        let mut part = FlatGradients::zeros(&layout, 1, dtype, &Device::Cpu).unwrap();
        let number = |at: usize| ((at * 7 + shard * 13) as f64).sin() * 10f64.powi((at + shard * 5) as i32 % 7);
        match part.values_mut() {
            Values::F32(values) => values.iter_mut().enumerate().for_each(|(at, x)| *x = number(at) as f32),
            Values::F64(values) => values.iter_mut().enumerate().for_each(|(at, x)| *x = number(at)),
            #[cfg(feature = "cuda")]
            Values::CudaF32(_) => panic!("on the host"),
        }
        part
    }

    fn bits(gradients: &FlatGradients) -> Vec<u64> {
        match gradients.values() {
            Values::F32(values) => values.iter().map(|x| u64::from(x.to_bits())).collect(),
            Values::F64(values) => values.iter().map(|x| x.to_bits()).collect(),
            #[cfg(feature = "cuda")]
            Values::CudaF32(_) => panic!("on the host"),
        }
    }

    #[test]
    fn any_number_of_ranks_sums_shards_to_the_same_bits() {
        for (count, len, dtype) in [(4, 1000, DType::F32), (5, BLOCK + 3, DType::F32), (4, 17, DType::F64)] {
            let mut seen: Option<Vec<u64>> = None;
            for ranks in 1..=4 {
                let bytes = Shm::arena_bytes(WorldSize(ranks));
                let sums = world_of(ranks, bytes, std::time::Duration::from_secs(20), |mut shm| {
                    let shards = Shards::new(count, shm.world_size(), shm.rank()).unwrap();
                    let parts: Vec<_> = shards.owned().map(|at| shard(at, len, dtype)).collect();
                    let mut out = shard(99, len, dtype);
                    sum_shards(&mut shm, &shards, &parts, &mut out).unwrap();
                    bits(&out)
                });
                for sum in sums {
                    assert!(*seen.get_or_insert_with(|| sum.clone()) == sum, "{ranks} ranks, {count} shards of {len}");
                }
            }
        }
    }

    #[test]
    fn a_sum_of_one_shard_a_rank_moves_into_shared_memory_and_stays_right() {
        let len = 50_000;
        let run = |bytes: u64, ranks: u32| {
            world_of(ranks, bytes, std::time::Duration::from_secs(20), |mut shm| {
                let shards = Shards::new(2, shm.world_size(), shm.rank()).unwrap();
                let mut out = shard(99, len, DType::F32);
                let mut sums = Vec::new();
                for step in 0..3 {
                    let parts: Vec<_> = shards.owned().map(|at| shard(at + 10 * step, len, DType::F32)).collect();
                    sum_shards(&mut shm, &shards, &parts, &mut out).unwrap();
                    sums.push(bits(&out));
                }
                let shared = matches!(out.values(), Values::F32(values) if values.is_shared());
                (shared, sums)
            })
        };
        let alone = run(Shm::arena_bytes(WorldSize(1)), 1).remove(0).1;
        for (bytes, expected) in [(Shm::arena_bytes(WorldSize(2)), true), (1 << 20, false)] {
            for (shared, sums) in run(bytes, 2) {
                assert_eq!(shared, expected, "in an arena of {bytes} bytes");
                assert!(sums == alone, "other sums than one rank's, in an arena of {bytes} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn every_row_has_one_owner(total in 0usize..500, shards in 1usize..20, world in 1u32..20) {
            prop_assume!(shards >= world as usize);
            let mut next = 0;
            for rank in WorldSize(world).ranks() {
                let shards = Shards::new(shards, WorldSize(world), rank).unwrap();
                prop_assert_eq!(shards.owned_rows(total).start, next);
                for shard in shards.owned() {
                    let rows = shards.rows(shard, total);
                    prop_assert_eq!(rows.start, next);
                    prop_assert!(rows.len().abs_diff(total / shards.count()) <= 1);
                    next = rows.end;
                }
                prop_assert_eq!(shards.owned_rows(total).end, next);
            }
            prop_assert_eq!(next, total);
        }
    }
}
