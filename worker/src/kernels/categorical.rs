//! Distributions over fixed atoms (Bellemare, Dabney and Munos 2017): C51.
//!
//! ```text
//! z_j = v_min + j d,  d = (v_max - v_min) / (N - 1)
//! (7)  Tz_j = clip(r + D z_j),  b_j = (Tz_j - v_min) / d,  l = floor(b_j): its mass goes to l and l + 1, as near as it is
//!      L = - sum over j of m_j log softmax(logits)_j
//! ```

use super::Scalar;
use super::softmax::softmax;

/// Atoms z_0 to z_(N-1), evenly from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Support<T> {
    /// v_min.
    pub low: T,
    /// v_max.
    pub high: T,
    /// N, at least 2.
    pub atoms: usize,
}

impl<T: Scalar> Support<T> {
    /// d, from atom to atom.
    pub fn gap(&self) -> T {
        (self.high - self.low) / T::of((self.atoms - 1) as f64)
    }

    /// z_j.
    pub fn atom(&self, j: usize) -> T {
        self.low + self.gap() * T::of(j as f64)
    }

    /// The mean of a distribution.
    pub fn mean(&self, probabilities: &[T]) -> T {
        let gap = self.gap();
        let atom = |j: usize| self.low + gap * T::of(j as f64);
        probabilities.iter().enumerate().map(|(j, p)| *p * atom(j)).sum()
    }

    /// Adds to `logits` the gradient of a function of the mean, whose slope is `slope`: p_j (z_j - mean).
    pub fn mean_backward(&self, probabilities: &[T], mean: T, slope: T, logits: &mut [T]) {
        let gap = self.gap();
        for (j, (g, p)) in logits.iter_mut().zip(probabilities).enumerate() {
            *g += slope * *p * (self.low + gap * T::of(j as f64) - mean);
        }
    }

    /// (7): the distribution of `reward + discount z`, z as `next` has it, on the atoms. `discount` is 0 where nothing
    /// follows. All mass stays, also what lies outside; a reward that is no finite number has no place, and leaves masses
    /// that are none.
    pub fn project(&self, reward: T, discount: T, next: &[T], out: &mut [T]) {
        let (gap, last) = (self.gap(), self.atoms - 1);
        if !reward.wide().is_finite() {
            return out.fill(T::of(f64::NAN));
        }
        out.fill(T::ZERO);
        for (j, p) in next.iter().enumerate() {
            let target = within(reward + discount * (self.low + gap * T::of(j as f64)), self.low, self.high);
            // rounding can leave b a little above the last atom
            let b = within((target - self.low) / gap, T::ZERO, T::of(last as f64));
            let lower = b.floor();
            let upper_share = b - lower;
            // a target that is no number has no place, and makes a loss that is none either
            let at = if lower >= T::ZERO { lower.wide() as usize } else { 0 };
            out[at] += *p * (T::ONE - upper_share);
            out[(at + 1).min(last)] += *p * upper_share;
        }
    }
}

/// `x`, not below `low` nor above `high`; what is no number stays none.
fn within<T: Scalar>(x: T, low: T, high: T) -> T {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// The cross entropy of `target` and softmax(`logits`), and its gradient by the logits times `scale` added to
/// `gradient`; `probabilities` is left holding the softmax.
pub fn cross_entropy<T: Scalar>(
    logits: &[T],
    target: &[T],
    scale: T,
    probabilities: &mut [T],
    gradient: &mut [T],
) -> T {
    let level = softmax(logits, probabilities);
    let mut mass = T::ZERO;
    let mut loss = T::ZERO;
    for (m, x) in target.iter().zip(logits) {
        mass += *m;
        loss += *m * (level - *x);
    }
    for ((g, p), m) in gradient.iter_mut().zip(probabilities.iter()).zip(target) {
        *g += scale * (*p * mass - *m);
    }
    loss
}
