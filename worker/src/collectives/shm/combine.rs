//! The inner loops: adding numbers of several ranks, always in the order of the ranks.

use crate::collectives::ReduceOp;

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

/// Combines `len` elements of each of `sources`, which are those of rank 0, 1, ..., into `to`, and copies them to
/// `also`, if there is one, while they are in the nearest cache.
///
/// # Safety
/// Each source is valid for reading and `to` and `also` for writing `len` elements, all aligned; nobody else writes
/// to them meanwhile; `to` overlaps no other; `also` overlaps no source, or is exactly one of them.
pub(super) unsafe fn combine<T: Number>(
    to: *mut T,
    also: Option<*mut T>,
    sources: &[*const T],
    len: usize,
    op: ReduceOp,
) {
    for start in (0..len).step_by(BLOCK) {
        let now = BLOCK.min(len - start);
        // SAFETY: `start + now <= len`, and the caller vouches for `len` elements.
        unsafe {
            let to = to.add(start);
            match op {
                ReduceOp::Sum => fold(to, sources, start, now, |a, b| a + b),
                ReduceOp::Max => fold(to, sources, start, now, larger),
                ReduceOp::Avg => {
                    fold(to, sources, start, now, |a, b| a + b);
                    divide(to, now, sources.len() as u32);
                }
            }
            if let Some(also) = also {
                std::ptr::copy_nonoverlapping(to.cast_const(), also.add(start), now);
            }
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
unsafe fn divide<T: Number>(to: *mut T, len: usize, ranks: u32) {
    // for a power of two both give the same bits, and one is much faster
    let factor = ranks.is_power_of_two().then(|| 1. / f64::from(ranks));
    for at in 0..len {
        // SAFETY: `at < len`.
        unsafe {
            let value = to.add(at);
            *value = match factor {
                Some(factor) => (*value).times(factor),
                None => (*value).divided(ranks),
            };
        }
    }
}
