//! What every collective must do, whatever it runs over. Each rank runs the same check with the same seed and
//! computes what all ranks give by itself, so that results are compared with a plain loop in rank order.

use super::{Buffer, Collective, CollectiveError, ReduceOp};
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::Transport;
use std::ops::{Add, Div};

/// Sizes in elements: none, one, odd ones, and some around the limits of cache lines, pages and chunks.
pub const SIZES: [usize; 10] = [0, 1, 2, 31, 33, 1000, 4097, 8193, 65_537, 300_007];

/// How f32 numbers in host memory are reduced: directly, or by way of a device.
pub type Reduce<'a> = dyn FnMut(&mut dyn Collective, &mut [f32], ReduceOp) -> Result<(), CollectiveError> + 'a;

/// Checks every operation on host memory, bit for bit. All ranks must call it with the same `seed`.
pub fn check(collective: &mut dyn Collective, seed: u64) -> Result<(), String> {
    for (at, size) in SIZES.into_iter().enumerate() {
        let seed = seed.wrapping_add(1000 * at as u64);
        for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max] {
            reduce_f32(collective, seed, size, op, None, &mut directly)?;
            reduce_f64(collective, seed ^ 1, size, op)?;
            check_shared(collective, seed ^ 2, size, op)?;
        }
        bytes(collective, seed, size)?;
    }
    counted(collective)
}

/// As [`check`], for transports of device memory: f32 numbers go through `reduce`, and may differ from the sum in
/// rank order by `tolerance`, relative to the sum of magnitudes. All ranks must still hold the same bits.
pub fn check_on_device(
    collective: &mut dyn Collective,
    seed: u64,
    tolerance: f64,
    reduce: &mut Reduce<'_>,
) -> Result<(), String> {
    for (at, size) in SIZES.into_iter().enumerate() {
        let seed = seed.wrapping_add(1000 * at as u64);
        for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max] {
            reduce_f32(collective, seed, size, op, Some(tolerance), reduce)?;
        }
        bytes(collective, seed, size)?;
    }
    counted(collective)
}

/// Checks one all-reduce of `size` f32 numbers, bit for bit.
pub fn check_size(collective: &mut dyn Collective, seed: u64, size: usize, op: ReduceOp) -> Result<(), String> {
    reduce_f32(collective, seed, size, op, None, &mut directly)
}

/// Checks two all-reduces of `size` f32 numbers that the collective lends, if it does, bit for bit; the second of
/// numbers written after the first.
pub fn check_shared(collective: &mut dyn Collective, seed: u64, size: usize, op: ReduceOp) -> Result<(), String> {
    let Some(mut lent) = collective.shared(size) else { return Ok(()) };
    if lent.len() != size || lent.iter().any(|number| number.to_bits() != 0) {
        return Err(format!("{size} zeros were asked for, but {} other numbers lent", lent.len()));
    }
    for seed in [seed, seed ^ 4] {
        reduce_f32(collective, seed, size, op, None, &mut |collective, data, op| {
            lent.copy_from_slice(data);
            collective.all_reduce_shared(&mut lent, op)?;
            data.copy_from_slice(&lent);
            Ok(())
        })
        .map_err(|e| format!("shared {e}"))?;
    }
    Ok(())
}

/// Checks that ranks in different calls are told so, all of them, with both calls named. The collective is of no
/// use afterwards. Means nothing in a world of one.
pub fn check_mismatch(collective: &mut dyn Collective) -> Result<(), String> {
    let (rank, world) = (collective.rank(), collective.world_size());
    let mut data = vec![1f32; 1000];
    let odd = rank.0 % 2 == 1;
    let result = if odd { collective.barrier() } else { collective.all_reduce(Buffer::F32(&mut data), ReduceOp::Sum) };
    match result {
        Err(CollectiveError::Mismatch { here, there, other, .. }) => {
            let (mine, theirs) = if odd { ("barrier", "1000") } else { ("1000", "barrier") };
            if here.contains(mine) && there.contains(theirs) && other.0 < world.0 && other.0 % 2 != rank.0 % 2 {
                Ok(())
            } else {
                Err(format!("rank {rank} was told: here {here}, rank {other} in {there}"))
            }
        }
        other => Err(format!("rank {rank} got {other:?} from calls that do not fit")),
    }
}

fn directly(collective: &mut dyn Collective, data: &mut [f32], op: ReduceOp) -> Result<(), CollectiveError> {
    collective.all_reduce(Buffer::F32(data), op)
}

/// What rank `rank` gives as element `at`: of either sign, over 16 powers of two, so that the order of a sum shows;
/// now and then a zero of either sign.
fn given(seed: u64, rank: Rank, at: usize) -> f64 {
    let mut x = seed ^ (u64::from(rank.0) << 40) ^ (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // the finaliser of splitmix64 (Steele, Lea and Flood 2014)
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^= x >> 31;
    let sign = if x & 1 == 0 { 1. } else { -1. };
    if x >> 1 & 31 == 0 {
        return 0. * sign;
    }
    let power = (x >> 6 & 15) as i32 - 8;
    sign * 2f64.powi(power) * (1. + (x >> 12) as f64 / (1u64 << 52) as f64)
}

fn given_f32(seed: u64, rank: Rank, size: usize) -> Vec<f32> {
    (0..size).map(|at| given(seed, rank, at) as f32).collect()
}

fn given_f64(seed: u64, rank: Rank, size: usize) -> Vec<f64> {
    (0..size).map(|at| given(seed, rank, at)).collect()
}

/// The plain loop: all ranks' numbers combined in rank order.
fn reference<T>(world: WorldSize, op: ReduceOp, ranks: T, given: impl Fn(Rank) -> Vec<T>) -> Vec<T>
where
    T: Copy + PartialOrd + Add<Output = T> + Div<Output = T>,
{
    let mut result = given(Rank(0));
    for rank in world.ranks().skip(1) {
        for (to, from) in result.iter_mut().zip(given(rank)) {
            *to = match op {
                ReduceOp::Sum | ReduceOp::Avg => *to + from,
                ReduceOp::Max => {
                    if from > *to {
                        from
                    } else {
                        *to
                    }
                }
            };
        }
    }
    if op == ReduceOp::Avg {
        result.iter_mut().for_each(|x| *x = *x / ranks);
    }
    result
}

fn reduce_f32(
    collective: &mut dyn Collective,
    seed: u64,
    size: usize,
    op: ReduceOp,
    tolerance: Option<f64>,
    reduce: &mut Reduce<'_>,
) -> Result<(), String> {
    let (rank, world) = (collective.rank(), collective.world_size());
    let call = format!("all_reduce {op:?} of {size} f32");
    let mut data = given_f32(seed, rank, size);
    reduce(collective, &mut data, op).map_err(|e| format!("{call}: {e}"))?;
    let expected = reference(world, op, world.0 as f32, |rank| given_f32(seed, rank, size));
    for (at, (got, expected)) in data.iter().zip(&expected).enumerate() {
        let right = match tolerance {
            None => got.to_bits() == expected.to_bits(),
            Some(tolerance) => {
                let magnitude: f64 = world.ranks().map(|rank| given(seed, rank, at).abs()).sum();
                f64::from(got - expected).abs() <= tolerance * magnitude
            }
        };
        if !right {
            return Err(format!("{call}: element {at} is {got:?}, should be {expected:?} (rank {rank})"));
        }
    }
    if tolerance.is_some() {
        equal_everywhere(collective, bytemuck::cast_slice(&data), &call)?;
    }
    Ok(())
}

fn reduce_f64(collective: &mut dyn Collective, seed: u64, size: usize, op: ReduceOp) -> Result<(), String> {
    let (rank, world) = (collective.rank(), collective.world_size());
    let call = format!("all_reduce {op:?} of {size} f64");
    let mut data = given_f64(seed, rank, size);
    collective.all_reduce(Buffer::F64(&mut data), op).map_err(|e| format!("{call}: {e}"))?;
    let expected = reference(world, op, f64::from(world.0), |rank| given_f64(seed, rank, size));
    match data.iter().zip(&expected).position(|(got, expected)| got.to_bits() != expected.to_bits()) {
        None => Ok(()),
        Some(at) => Err(format!("{call}: element {at} is {:?}, should be {:?}", data[at], expected[at])),
    }
}

/// Whether all ranks hold the same `bytes`.
fn equal_everywhere(collective: &mut dyn Collective, bytes: &[u8], call: &str) -> Result<(), String> {
    let mut all = vec![0; bytes.len() * collective.world_size().index()];
    collective.all_gather(bytes, &mut all).map_err(|e| format!("all_gather after {call}: {e}"))?;
    match all.chunks_exact(bytes.len().max(1)).position(|other| other != bytes) {
        None => Ok(()),
        Some(other) => Err(format!("{call}: rank {other} has other bits than rank {}", collective.rank())),
    }
}

/// Broadcast, gather and barrier.
fn bytes(collective: &mut dyn Collective, seed: u64, size: usize) -> Result<(), String> {
    let (rank, world) = (collective.rank(), collective.world_size());
    let given = |rank: Rank| -> Vec<u8> {
        (0..size).map(|at| (given(seed, rank, at).to_bits() >> 32) as u8 ^ rank.0 as u8).collect()
    };
    for root in [Rank(0), Rank(world.0 - 1)] {
        let call = format!("broadcast of {size} bytes from rank {root}");
        let mut data = given(rank);
        collective.broadcast(&mut data, root).map_err(|e| format!("{call}: {e}"))?;
        if data != given(root) {
            return Err(format!("{call}: rank {rank} has something else"));
        }
    }
    let mut all = vec![0xAA; size * world.index()];
    collective.all_gather(&given(rank), &mut all).map_err(|e| format!("all_gather of {size} bytes: {e}"))?;
    for other in world.ranks() {
        if all[other.index() * size..][..size] != given(other) {
            return Err(format!("all_gather of {size} bytes: rank {rank} has something else for rank {other}"));
        }
    }
    collective.barrier().map_err(|e| format!("barrier: {e}"))
}

/// What does not depend on data: counted calls, refused arguments, and that refusals do no harm.
fn counted(collective: &mut dyn Collective) -> Result<(), String> {
    let world = collective.world_size();
    let solo = collective.transport() == Transport::Solo;
    if solo && world != WorldSize(1) {
        return Err(format!("{:?} in a world of {world}", collective.transport()));
    }
    let before = collective.calls();
    collective.barrier().map_err(|e| format!("barrier: {e}"))?;
    if collective.calls() != before + 1 {
        return Err(format!("{} calls were counted where 1 was made", collective.calls() - before));
    }
    if collective.broadcast(&mut [0; 4], Rank(world.0)).is_ok() {
        return Err("a broadcast from a rank that does not exist was accepted".into());
    }
    if collective.all_gather(&[0; 4], &mut vec![0; 4 * world.index() + 1]).is_ok() {
        return Err("an all_gather into a buffer of the wrong size was accepted".into());
    }
    collective.barrier().map_err(|e| format!("barrier after refused calls: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::Solo;

    #[test]
    fn solo_keeps_the_law() {
        check(&mut Solo::new(), 1).unwrap();
    }

    /// A collective that forgets the last element.
    struct Forgetful(Solo);

    impl Collective for Forgetful {
        fn rank(&self) -> Rank {
            Rank(0)
        }
        fn world_size(&self) -> WorldSize {
            WorldSize(1)
        }
        fn transport(&self) -> Transport {
            Transport::Solo
        }
        fn all_reduce(&mut self, data: Buffer<'_>, _op: ReduceOp) -> Result<(), CollectiveError> {
            if let Buffer::F32([.., last]) = data {
                *last += 1.;
            }
            Ok(())
        }
        fn broadcast(&mut self, data: &mut [u8], root: Rank) -> Result<(), CollectiveError> {
            self.0.broadcast(data, root)
        }
        fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), CollectiveError> {
            self.0.all_gather(mine, all)
        }
        fn barrier(&mut self) -> Result<(), CollectiveError> {
            self.0.barrier()
        }
        fn calls(&self) -> u64 {
            self.0.calls()
        }
    }

    #[test]
    fn the_law_sees_one_wrong_element() {
        let error = check(&mut Forgetful(Solo::new()), 1).unwrap_err();
        assert!(error.starts_with("all_reduce Sum of 1 f32: element 0"), "{error}");
    }
}
