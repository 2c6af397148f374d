//! Softmax and its logarithm, finite for logits of any finite size.

use super::Scalar;

/// log sum exp of `logits`, which are not empty.
pub fn log_sum_exp<T: Scalar>(logits: &[T]) -> T {
    let largest = logits.iter().copied().fold(logits[0], T::max);
    largest + logits.iter().map(|x| (*x - largest).exp()).sum::<T>().ln()
}

/// Writes exp(logit) / sum into `probabilities`, and gives log sum exp of `logits`, which are not empty.
pub fn softmax<T: Scalar>(logits: &[T], probabilities: &mut [T]) -> T {
    let largest = logits.iter().copied().fold(logits[0], T::max);
    let mut sum = T::ZERO;
    for (p, x) in probabilities.iter_mut().zip(logits) {
        *p = (*x - largest).exp();
        sum += *p;
    }
    let share = T::ONE / sum;
    probabilities.iter_mut().for_each(|p| *p *= share);
    largest + sum.ln()
}
