//! Temporal differences of plain values: the target and what a difference costs.
//!
//! ```text
//! y = R + D Q(S', a*; theta-),   a* = argmax_a Q(S', a; theta)     double (van Hasselt, Guez and Silver 2016)
//!                                a* = argmax_a Q(S', a; theta-)    plain (Mnih et al. 2015)
//! ```

use super::Scalar;

/// The first of the largest of `values`, which are not empty.
pub fn greedy<T: Scalar>(values: &[T]) -> usize {
    (1..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}

/// y for the action that is best by `choose`, worth what `value` says.
pub fn target<T: Scalar>(reward: T, discount: T, choose: &[T], value: &[T]) -> T {
    reward + discount * value[greedy(choose)]
}

/// Huber's loss of `delta` with threshold 1, and its slope: x^2 / 2 where |x| < 1, else |x| - 1/2.
pub fn huber<T: Scalar>(delta: T) -> (T, T) {
    let size = delta.abs();
    if size < T::ONE {
        (T::of(0.5) * delta * delta, delta)
    } else {
        (size - T::of(0.5), delta.max(-T::ONE).min(T::ONE))
    }
}

/// The square of `delta`, and its slope.
pub fn square<T: Scalar>(delta: T) -> (T, T) {
    (delta * delta, delta + delta)
}
