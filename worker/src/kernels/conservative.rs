//! The conservative penalty CQL(H) (Kumar et al. 2020, equation 4, discrete actions): what is not in the data shall not
//! look better than what is.
//!
//! ```text
//! P = log sum exp over a of Q(s, a) - Q(s, a_data)       dP/dQ(s, a) = softmax(Q(s, .))_a - 1{a = a_data}
//! ```

use super::Scalar;
use super::softmax::softmax;

/// P of one row, and its gradient by `q` times `scale` written into `gradient`.
pub fn penalty<T: Scalar>(q: &[T], action: usize, scale: T, gradient: &mut [T]) -> T {
    let level = softmax(q, gradient);
    gradient[action] -= T::ONE;
    gradient.iter_mut().for_each(|g| *g *= scale);
    level - q[action]
}
