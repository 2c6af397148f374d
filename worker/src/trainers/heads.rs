//! What a row of a batch costs, for each kind of value, and the slope of that cost by the network's outputs.
//!
//! For a transition (S, A, R, D, S') of weight w, and the action a* that was chosen in S':
//!
//! ```text
//! value        (1)  delta = R + D Q(S', a*; theta-) - Q(S, A; theta)          l = H(delta), Huber's loss
//! categorical  (2)  m = projection of R + D z, z ~ p(S', a*; theta-)          l = cross entropy of m and p(S, A; theta)
//! quantile     (3)  delta_ij = R + D Z_j(S', a*; theta-) - Z_i(S, A; theta)   l = sum_i mean_j rho_i(delta_ij)
//! all          (4)  L = w (l + alpha (log sum exp_a Q(S, a; theta) - Q(S, A; theta)))
//! ```
//!
//! Q is the mean of a distribution. l without w is the priority of the row; for plain values |delta| is.

use crate::kernels::categorical::{Support, cross_entropy};
use crate::kernels::softmax::softmax;
use crate::kernels::{Scalar, conservative, quantile, td};
use crate::networks::Head;

/// What a head is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadSettings {
    /// What stands for a value.
    pub head: Head,
    /// The lowest and the highest atom.
    pub support: (f64, f64),
    /// Where the quantile loss turns from a square into a line.
    pub kappa: f64,
    /// Weight of the conservative penalty.
    pub conservative: f64,
}

/// Computes values and costs from a network's outputs.
#[derive(Clone, Debug)]
pub struct ValueHead<T> {
    head: Head,
    actions: usize,
    support: Support<T>,
    kappa: T,
    conservative: T,
    /// Probabilities of all actions' atoms, then what is projected.
    probabilities: Vec<T>,
    next: Vec<T>,
    target: Vec<T>,
    means: Vec<T>,
    slopes: Vec<T>,
}

/// One row of a batch, as the networks see it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a, T> {
    /// The online network's outputs for S.
    pub now: &'a [T],
    /// The levels at which they are quantiles.
    pub levels: &'a [T],
    /// The target network's outputs for S'.
    pub next: &'a [T],
    /// Q(S', .) by which a* is chosen.
    pub choice: &'a [T],
    /// A.
    pub action: usize,
    /// R.
    pub reward: T,
    /// D.
    pub discount: T,
    /// w.
    pub weight: T,
}

/// What a row cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost<T> {
    /// L.
    pub loss: T,
    /// How wrong the row was, unweighted.
    pub priority: T,
    /// The target's mean less Q(S, A).
    pub delta: T,
    /// Q(S, A).
    pub q: T,
}

impl<T: Scalar> ValueHead<T> {
    /// For so many actions.
    pub fn new(settings: &HeadSettings, actions: usize) -> ValueHead<T> {
        let atoms = settings.head.atoms();
        ValueHead {
            head: settings.head,
            actions,
            support: Support { low: T::of(settings.support.0), high: T::of(settings.support.1), atoms },
            kappa: T::of(settings.kappa),
            conservative: T::of(settings.conservative),
            probabilities: vec![T::ZERO; actions * atoms],
            next: vec![T::ZERO; atoms],
            target: vec![T::ZERO; atoms],
            means: vec![T::ZERO; actions],
            slopes: vec![T::ZERO; actions],
        }
    }

    /// Q of all actions, `[rows][actions]`, from the outputs of `rows` rows.
    pub fn means(&mut self, outputs: &[T], rows: usize, q: &mut Vec<T>) {
        q.resize(rows * self.actions, T::ZERO);
        let width = outputs.len() / rows.max(1);
        for (outputs, q) in outputs.chunks_exact(width.max(1)).zip(q.chunks_exact_mut(self.actions)) {
            self.mean(outputs, q);
        }
    }

    /// Q of all actions of one row; for a categorical head also all probabilities.
    fn mean(&mut self, outputs: &[T], q: &mut [T]) {
        match self.head {
            Head::Value => q.copy_from_slice(outputs),
            Head::Categorical(atoms) => {
                let all = outputs.chunks_exact(atoms).zip(self.probabilities.chunks_exact_mut(atoms));
                for ((logits, probabilities), q) in all.zip(q) {
                    softmax(logits, probabilities);
                    *q = self.support.mean(probabilities);
                }
            }
            Head::Quantile { .. } => {
                let levels = outputs.len() / self.actions;
                q.fill(T::ZERO);
                for level in outputs.chunks_exact(self.actions) {
                    q.iter_mut().zip(level).for_each(|(q, z)| *q += *z);
                }
                let share = T::ONE / T::of(levels as f64);
                q.iter_mut().for_each(|q| *q *= share);
            }
        }
    }

    /// (1) to (4) for one row. `gradient`, which lies as the row's outputs do, is set to dL by them.
    pub fn cost(&mut self, row: &Row<'_, T>, gradient: &mut [T]) -> Cost<T> {
        gradient.fill(T::ZERO);
        let best = td::greedy(row.choice);
        let cost = match self.head {
            Head::Value => {
                let q = row.now[row.action];
                let delta = row.reward + row.discount * row.next[best] - q;
                let (loss, slope) = td::huber(delta);
                gradient[row.action] = -row.weight * slope;
                Cost { loss, priority: delta.abs(), delta, q }
            }
            Head::Categorical(atoms) => {
                let of = |action: usize| action * atoms..(action + 1) * atoms;
                softmax(&row.next[of(best)], &mut self.next);
                self.support.project(row.reward, row.discount, &self.next, &mut self.target);
                let (logits, probabilities) = (&row.now[of(row.action)], &mut self.next);
                let slope = &mut gradient[of(row.action)];
                let loss = cross_entropy(logits, &self.target, row.weight, probabilities, slope);
                let q = self.support.mean(probabilities);
                Cost { loss, priority: loss, delta: self.support.mean(&self.target) - q, q }
            }
            Head::Quantile { .. } => {
                let samples = row.levels.len();
                // theta, then its slope
                self.next.clear();
                self.next.extend(row.now.chunks_exact(self.actions).map(|level| level[row.action]));
                self.target.clear();
                let follows = row.next.chunks_exact(self.actions).map(|level| row.reward + row.discount * level[best]);
                self.target.extend(follows);
                self.probabilities.clear();
                self.probabilities.resize(samples, T::ZERO);
                let slopes = &mut self.probabilities;
                let loss = quantile::huber(&self.next, &self.target, row.levels, self.kappa, row.weight, slopes);
                let levels = gradient.chunks_exact_mut(self.actions);
                levels.zip(slopes.iter()).for_each(|(level, slope)| level[row.action] = *slope);
                let mean = |values: &[T]| values.iter().copied().sum::<T>() / T::of(values.len() as f64);
                let q = mean(&self.next);
                Cost { loss, priority: loss, delta: mean(&self.target) - q, q }
            }
        };
        if self.conservative == T::ZERO {
            return Cost { loss: row.weight * cost.loss, ..cost };
        }
        let penalty = self.conserve(row, gradient);
        Cost { loss: row.weight * (cost.loss + self.conservative * penalty), ..cost }
    }

    /// The penalty in (4), and its slope added to `gradient`.
    fn conserve(&mut self, row: &Row<'_, T>, gradient: &mut [T]) -> T {
        let (mut q, mut slopes) = (std::mem::take(&mut self.means), std::mem::take(&mut self.slopes));
        if let Head::Categorical(atoms) = self.head {
            self.probabilities.resize(self.actions * atoms, T::ZERO);
        }
        self.mean(row.now, &mut q);
        let penalty = conservative::penalty(&q, row.action, row.weight * self.conservative, &mut slopes);
        match self.head {
            Head::Value => gradient.iter_mut().zip(&slopes).for_each(|(g, slope)| *g += *slope),
            Head::Categorical(atoms) => {
                let all = self.probabilities.chunks_exact(atoms).zip(gradient.chunks_exact_mut(atoms));
                for ((probabilities, gradient), (q, slope)) in all.zip(q.iter().zip(&slopes)) {
                    self.support.mean_backward(probabilities, *q, *slope, gradient);
                }
            }
            Head::Quantile { .. } => {
                let share = T::ONE / T::of(row.levels.len() as f64);
                for level in gradient.chunks_exact_mut(self.actions) {
                    level.iter_mut().zip(&slopes).for_each(|(g, slope)| *g += *slope * share);
                }
            }
        }
        (self.means, self.slopes) = (q, slopes);
        penalty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// dL by the outputs is the slope of L, for every head, with and without the penalty.
    #[test]
    fn the_gradient_is_the_slope_of_the_cost() {
        let number = |seed: usize, i: usize| ((i * 7919 + seed * 104_729) as f64).sin() * 1.3;
        let actions = 3;
        for head in [Head::Value, Head::Categorical(5), Head::Quantile { cosines: 4, first: 0 }] {
            for conservative in [0.0, 0.7] {
                let settings = HeadSettings { head, support: (-2.0, 2.0), kappa: 1.0, conservative };
                let width = if head.atoms() == 1 && head != Head::Value { 4 * actions } else { head.atoms() * actions };
                let levels = [0.2, 0.4, 0.7, 0.95];
                let now: Vec<f64> = (0..width).map(|i| number(1, i)).collect();
                let next: Vec<f64> = (0..width).map(|i| number(2, i)).collect();
                let choice: Vec<f64> = (0..actions).map(|i| number(3, i)).collect();
                let mut value = ValueHead::<f64>::new(&settings, actions);
                let mut cost = |now: &[f64], gradient: &mut [f64]| {
                    let (levels, next, choice) = (&levels[..], &next[..], &choice[..]);
                    let row = Row { now, levels, next, choice, action: 1, reward: 0.3, discount: 0.9, weight: 0.6 };
                    value.cost(&row, gradient)
                };
                let mut gradient = vec![9.0; width];
                let whole = cost(&now, &mut gradient);
                assert!(whole.priority > 0.0 && whole.loss > 0.0);
                if conservative == 0.0 && head != Head::Value {
                    assert!((whole.loss - 0.6 * whole.priority).abs() < 1e-12, "the priority has no weight");
                }
                for i in 0..width {
                    let mut moved = |by: f64| {
                        let mut now = now.clone();
                        now[i] += by;
                        cost(&now, &mut vec![0.0; width]).loss
                    };
                    let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                    assert!((slope - gradient[i]).abs() < 1e-7, "{head:?} {conservative} {i}: {slope} {}", gradient[i]);
                }
            }
        }
    }

    #[test]
    fn outputs_of_two_hundred_cost_a_finite_number() {
        for head in [Head::Value, Head::Categorical(5), Head::Quantile { cosines: 4, first: 0 }] {
            let settings = HeadSettings { head, support: (-2.0, 2.0), kappa: 1.0, conservative: 1.0 };
            let width = if head == Head::Categorical(5) { 15 } else { 3 };
            let outputs: Vec<f32> = (0..width).map(|i| if i % 2 == 0 { 200.0 } else { -200.0 }).collect();
            let mut gradient = vec![0.0; width];
            let mut value = ValueHead::<f32>::new(&settings, 3);
            let row = Row {
                now: &outputs,
                levels: &[0.5],
                next: &outputs,
                choice: &[0.0, 1.0, 0.0],
                action: 2,
                reward: 1.0,
                discount: 0.9,
                weight: 1.0,
            };
            let cost = value.cost(&row, &mut gradient);
            assert!(cost.loss.is_finite() && gradient.iter().all(|g| g.is_finite()), "{head:?} {cost:?}");
        }
    }
}
