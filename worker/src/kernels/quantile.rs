//! Quantiles of the return (Dabney et al. 2018): the embedding of their levels, and the loss of IQN.
//!
//! ```text
//! (3)  delta_ij = (r + D Z_tau'_j(s', a*)) - Z_tau_i(s, a)
//!      L = sum over i of the mean over j of |tau_i - 1{delta_ij < 0}| H_kappa(delta_ij) / kappa
//! (4)  phi_j(tau) = relu(sum over i of cos(pi i tau) w_ij + b_j)
//! ```

use super::Scalar;
use super::exact::cos_turns;

/// cos(pi i tau) for i = `first`, `first` + 1, ... for each of `levels`: `[levels][count]`. The paper begins with i = 0.
///
/// By cos((i + 1) x) = 2 cos(x) cos(i x) - cos((i - 1) x) in 64 bits: one cosine for each level, and none of a large angle
/// that 32 bits would have rounded.
pub fn cosines<T: Scalar>(levels: &[T], count: usize, first: usize, out: &mut [T]) {
    for (tau, row) in levels.iter().zip(out.chunks_exact_mut(count.max(1))) {
        // in whole turns
        let half = 0.5 * tau.wide();
        let twice = 2.0 * cos_turns(half);
        let cosine = |factor: f64| cos_turns(half * factor - (half * factor).floor());
        let (mut before, mut now) = (cosine(first as f64 - 1.0), cosine(first as f64));
        for c in row {
            *c = T::of(now);
            (before, now) = (now, twice * now - before);
        }
    }
}

/// L of one row, and its gradient by `theta` times `scale` added to `gradient`. `theta` are the quantiles at `levels`,
/// `target` samples of what they should be.
pub fn huber<T: Scalar>(theta: &[T], target: &[T], levels: &[T], kappa: T, scale: T, gradient: &mut [T]) -> T {
    let share = T::ONE / T::of(target.len() as f64);
    let half = T::of(0.5);
    let mut loss = T::ZERO;
    for ((theta, tau), g) in theta.iter().zip(levels).zip(gradient) {
        let (mut sum, mut slope) = (T::ZERO, T::ZERO);
        for target in target {
            let delta = *target - *theta;
            let weight = if delta < T::ZERO { T::ONE - *tau } else { *tau };
            let size = delta.abs();
            let cost = if size <= kappa { half * delta * delta } else { kappa * (size - half * kappa) };
            sum += weight * cost;
            // the weight counts as constant: the step has no slope
            slope += weight * delta.max(-kappa).min(kappa);
        }
        loss += sum * share / kappa;
        *g -= scale * slope * share / kappa;
    }
    loss
}
