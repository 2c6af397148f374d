//! Value and advantages become values of actions (Wang et al. 2016, equation 9), for each atom by itself (Hessel et al.
//! 2018):
//!
//! ```text
//! Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a')
//! ```
//!
//! Atoms are 1 for plain values; rows may be samples of quantiles as well.

use super::Scalar;

/// Q, `[rows][actions][atoms]`, of V, `[rows][atoms]`, and A, `[rows][actions][atoms]`.
pub fn forward<T: Scalar>(value: &[T], advantage: &[T], actions: usize, atoms: usize, q: &mut [T]) {
    let width = (actions * atoms).max(1);
    let share = T::ONE / T::of(actions as f64);
    let rows = value.chunks_exact(atoms.max(1)).zip(advantage.chunks_exact(width)).zip(q.chunks_exact_mut(width));
    for ((value, advantage), q) in rows {
        for (atom, value) in value.iter().enumerate() {
            let sum: T = (0..actions).map(|a| advantage[a * atoms + atom]).sum();
            let level = *value - sum * share;
            (0..actions).map(|a| a * atoms + atom).for_each(|at| q[at] = level + advantage[at]);
        }
    }
}

/// The gradients by V and A from that by Q; set, or with `add` added to what is there.
pub fn backward<T: Scalar>(
    gradient: &[T],
    actions: usize,
    atoms: usize,
    add: bool,
    value: &mut [T],
    advantage: &mut [T],
) {
    let width = (actions * atoms).max(1);
    let share = T::ONE / T::of(actions as f64);
    let set = |to: &mut T, x: T| *to = if add { *to + x } else { x };
    let rows = gradient.chunks_exact(width).zip(value.chunks_exact_mut(atoms.max(1)));
    for ((gradient, value), advantage) in rows.zip(advantage.chunks_exact_mut(width)) {
        for (atom, value) in value.iter_mut().enumerate() {
            let sum: T = (0..actions).map(|a| gradient[a * atoms + atom]).sum();
            set(value, sum);
            (0..actions).map(|a| a * atoms + atom).for_each(|at| set(&mut advantage[at], gradient[at] - sum * share));
        }
    }
}
