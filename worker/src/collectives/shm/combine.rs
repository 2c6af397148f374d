//! The inner loops: adding numbers of several ranks, always in the order of the ranks.

use super::copy::stream;
use crate::collectives::ReduceOp;
use std::mem::MaybeUninit;

/// Elements combined at a time, so that what is written stays in the nearest cache until it is complete.
const BLOCK: usize = 2048;

/// A number type that can be combined.
pub(super) trait Number: Copy + PartialOrd + std::ops::Add<Output = Self> + 'static {
    /// This number divided by `ranks`.
    fn divided(self, ranks: u32) -> Self;
    /// This number times `factor`.
    fn times(self, factor: f64) -> Self;
}

impl Number for f32 {
    fn divided(self, ranks: u32) -> f32 {
        self / ranks as f32
    }

    fn times(self, factor: f64) -> f32 {
        self * factor as f32
    }
}

impl Number for f64 {
    fn divided(self, ranks: u32) -> f64 {
        self / f64::from(ranks)
    }

    fn times(self, factor: f64) -> f64 {
        self * factor
    }
}

/// The larger of two; a NaN wins, the first one, so that it is not hidden.
#[inline(always)]
pub(super) fn larger<T: PartialOrd + Copy>(a: T, b: T) -> T {
    // the first comparison is false for NaN only
    #[allow(clippy::eq_op)]
    if a != a || a >= b { a } else { b }
}

/// Combines `len` elements of each of `sources`, which are those of rank 0, 1, ..., and puts the result into all of
/// `near`, through the caches, and of `far`, past them.
///
/// # Safety
/// Each source is valid for reading and each target for writing `len` elements, all aligned, and nobody else writes to
/// any of them or reads a target meanwhile. A target overlaps no other, and no source unless it is exactly that.
pub(super) unsafe fn combine<T: Number>(
    sources: &[*const T],
    len: usize,
    op: ReduceOp,
    near: &[*mut T],
    far: &[*mut T],
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it, and the caller vouches for the rest.
        return unsafe { combine_wide(sources, len, op, near, far) };
    }
    // SAFETY: the caller vouches for all of it.
    unsafe { combine_any(sources, len, op, near, far) }
}

/// The same in wider vectors. No operation is contracted or reordered, so the bits are the same.
///
/// # Safety
/// As for [`combine`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn combine_wide<T: Number>(sources: &[*const T], len: usize, op: ReduceOp, near: &[*mut T], far: &[*mut T]) {
    // SAFETY: the caller vouches for all of it.
    unsafe { combine_any(sources, len, op, near, far) }
}

/// # Safety
/// As for [`combine`].
#[inline(always)]
unsafe fn combine_any<T: Number>(sources: &[*const T], len: usize, op: ReduceOp, near: &[*mut T], far: &[*mut T]) {
    let mut block = [const { MaybeUninit::<T>::uninit() }; BLOCK];
    let block: *mut T = block.as_mut_ptr().cast();
    for start in (0..len).step_by(BLOCK) {
        let now = BLOCK.min(len - start);
        // SAFETY: `start + now <= len`, the caller vouches for `len` elements, and the block is our own.
        unsafe {
            match op {
                ReduceOp::Sum => fold(block, sources, start, now, |a, b| a + b),
                ReduceOp::Max => fold(block, sources, start, now, larger),
                ReduceOp::Avg => {
                    fold(block, sources, start, now, |a, b| a + b);
                    divide(block, now, Divisor::of(sources.len()));
                }
            }
            for to in near {
                std::ptr::copy_nonoverlapping(block.cast_const(), to.add(start), now);
            }
            for to in far {
                stream(block.cast_const().cast(), to.add(start).cast(), now * size_of::<T>());
            }
        }
    }
}

/// As [`combine`] of `ranks` into all of them, in fewer passes.
///
/// # Safety
/// All are valid for reading and writing `len` elements, aligned, overlap no other, and nobody else reads or writes
/// there meanwhile.
pub(super) unsafe fn combine_in_place<T: Number>(ranks: &[*mut T], len: usize, op: ReduceOp) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it, and the caller vouches for the rest.
        return unsafe { combine_in_place_wide(ranks, len, op) };
    }
    // SAFETY: the caller vouches for all of it.
    unsafe { combine_in_place_any(ranks, len, op) }
}

/// # Safety
/// As for [`combine_in_place`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn combine_in_place_wide<T: Number>(ranks: &[*mut T], len: usize, op: ReduceOp) {
    // SAFETY: the caller vouches for all of it.
    unsafe { combine_in_place_any(ranks, len, op) }
}

/// # Safety
/// As for [`combine_in_place`].
#[inline(always)]
unsafe fn combine_in_place_any<T: Number>(ranks: &[*mut T], len: usize, op: ReduceOp) {
    let [first, ref between @ .., last] = *ranks else { return };
    let divisor = Divisor::of(ranks.len());
    for start in (0..len).step_by(BLOCK) {
        let now = BLOCK.min(len - start);
        // SAFETY: `start + now <= len`, and the caller vouches for `len` elements.
        unsafe {
            let (first, last) = (first.add(start), last.add(start));
            for next in between {
                let next = next.add(start).cast_const();
                match op {
                    ReduceOp::Sum | ReduceOp::Avg => pairwise(first, first.cast_const(), next, now, |a, b| a + b),
                    ReduceOp::Max => pairwise(first, first.cast_const(), next, now, larger),
                }
            }
            match (op, divisor) {
                (ReduceOp::Sum, _) => both(first, last, now, |a, b| a + b),
                (ReduceOp::Max, _) => both(first, last, now, larger),
                (ReduceOp::Avg, Divisor::Times(factor)) => both(first, last, now, |a, b| (a + b).times(factor)),
                (ReduceOp::Avg, Divisor::By(ranks)) => both(first, last, now, |a, b| (a + b).divided(ranks)),
            }
            for next in between {
                std::ptr::copy_nonoverlapping(first.cast_const(), next.add(start), now);
            }
        }
    }
}

/// How to divide by the number of ranks: for a power of two a multiplication gives the same bits, and is much faster.
#[derive(Clone, Copy)]
enum Divisor {
    Times(f64),
    By(u32),
}

impl Divisor {
    fn of(ranks: usize) -> Divisor {
        let ranks = ranks as u32;
        if ranks.is_power_of_two() { Divisor::Times(1. / f64::from(ranks)) } else { Divisor::By(ranks) }
    }
}

/// Combines `a` and `b` into both.
///
/// # Safety
/// Both are valid for reading and writing `len` elements, and do not overlap.
#[inline(always)]
unsafe fn both<T: Number>(a: *mut T, b: *mut T, len: usize, f: impl Fn(T, T) -> T) {
    for at in 0..len {
        // SAFETY: `at < len`.
        unsafe {
            let combined = f(*a.add(at), *b.add(at));
            *a.add(at) = combined;
            *b.add(at) = combined;
        }
    }
}

/// # Safety
/// As for [`combine`], for `len` elements from `start` in each source.
#[inline(always)]
unsafe fn fold<T: Number>(to: *mut T, sources: &[*const T], start: usize, len: usize, f: impl Fn(T, T) -> T + Copy) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        match *sources {
            [] => {}
            [only] => std::ptr::copy_nonoverlapping(only.add(start), to, len),
            [first, second, ref rest @ ..] => {
                pairwise(to, first.add(start), second.add(start), len, f);
                for &next in rest {
                    pairwise(to, to.cast_const(), next.add(start), len, f);
                }
            }
        }
    }
}

/// # Safety
/// `a` and `b` are valid for reading and `to` for writing `len` elements. `to` may be `a`.
#[inline(always)]
unsafe fn pairwise<T: Number>(to: *mut T, a: *const T, b: *const T, len: usize, f: impl Fn(T, T) -> T) {
    for at in 0..len {
        // SAFETY: `at < len`.
        unsafe { *to.add(at) = f(*a.add(at), *b.add(at)) };
    }
}

/// # Safety
/// `to` is valid for reading and writing `len` elements.
#[inline(always)]
unsafe fn divide<T: Number>(to: *mut T, len: usize, divisor: Divisor) {
    for at in 0..len {
        // SAFETY: `at < len`.
        unsafe {
            let value = to.add(at);
            *value = match divisor {
                Divisor::Times(factor) => (*value).times(factor),
                Divisor::By(ranks) => (*value).divided(ranks),
            };
        }
    }
}
