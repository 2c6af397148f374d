//! Softmax and its logarithm, finite for logits of any finite size.

use super::{Scalar, widest};

/// log sum exp of `logits`, which are not empty.
pub fn log_sum_exp<T: Scalar>(logits: &[T]) -> T {
    let largest = largest(logits);
    largest + logits.iter().map(|x| (*x - largest).exp()).sum::<T>().ln()
}

/// Partial results of a row. Fixed, since their number decides the rounding.
const LANES: usize = 8;

/// The largest of `values`, which are not empty; one that is no number is passed over.
#[inline(always)]
fn largest<T: Scalar>(values: &[T]) -> T {
    let mut all = [values[0]; LANES];
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks.iter().map(|block| &block[..]).chain([rest]) {
        all.iter_mut().zip(block).for_each(|(most, x)| *most = if *x > *most { *x } else { *most });
    }
    all.into_iter().fold(all[0], T::max)
}

/// The sum of `values`, in an order that depends on their number alone.
#[inline(always)]
fn sum<T: Scalar>(values: &[T]) -> T {
    let mut all = [T::ZERO; LANES];
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks.iter().map(|block| &block[..]).chain([rest]) {
        all.iter_mut().zip(block).for_each(|(sum, x)| *sum += *x);
    }
    all.into_iter().sum()
}

/// Writes exp(logit) / sum into `probabilities`, and gives log sum exp of `logits`, which are not empty.
pub fn softmax<T: Scalar>(logits: &[T], probabilities: &mut [T]) -> T {
    widest(|| {
        let largest = largest(logits);
        probabilities.iter_mut().zip(logits).for_each(|(p, x)| *p = *x - largest);
        T::exp_all(probabilities);
        let sum = sum(probabilities);
        let share = T::ONE / sum;
        probabilities.iter_mut().for_each(|p| *p *= share);
        largest + sum.ln()
    })
}
