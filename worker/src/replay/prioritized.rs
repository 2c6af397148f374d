//! Priorities of transitions (Schaul et al. 2016), proportional form.
//!
//! ```text
//! (1)  P(i) = p_i^alpha / sum over k of p_k^alpha,      p_i = |delta_i| + eps; new rows get the largest p so far
//!      w_i  = (N P(i))^-beta / the largest w of the batch
//! ```
//!
//! A batch is drawn in as many strata of equal mass as it has rows, one from each. |delta| is what the row was wrong by
//! before it was weighted.

use super::SumTree;
use crate::kernels::exact::power;
use serde::{Deserialize, Serialize};

/// The priorities of what a replay memory holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct Priorities {
    alpha: f64,
    eps: f64,
    largest: f64,
    len: usize,
    tree: SumTree,
}

impl PartialEq for Priorities {
    // a tree with more room holds the same
    fn eq(&self, other: &Priorities) -> bool {
        let masses = |p: &Priorities| (0..p.len).map(|i| p.tree.get(i)).collect::<Vec<_>>();
        (self.alpha, self.eps, self.largest) == (other.alpha, other.eps, other.largest) && masses(self) == masses(other)
    }
}

/// What a checkpoint holds of it: sums are made anew.
#[derive(Clone, Serialize, Deserialize)]
struct Saved {
    alpha: f64,
    eps: f64,
    largest: f64,
    masses: Vec<f64>,
}

impl From<Saved> for Priorities {
    fn from(saved: Saved) -> Priorities {
        let Saved { alpha, eps, largest, masses } = saved;
        Priorities { alpha, eps, largest, len: masses.len(), tree: SumTree::of(&masses) }
    }
}

impl From<Priorities> for Saved {
    fn from(p: Priorities) -> Saved {
        let masses = (0..p.len).map(|i| p.tree.get(i)).collect();
        Saved { alpha: p.alpha, eps: p.eps, largest: p.largest, masses }
    }
}

impl Priorities {
    /// No priorities yet.
    pub fn new(alpha: f64, eps: f64) -> Priorities {
        Priorities { alpha, eps, largest: 1.0, len: 0, tree: SumTree::new(0) }
    }

    /// Priorities with these masses, as they were kept elsewhere.
    pub fn restored(alpha: f64, eps: f64, largest: f64, masses: &[f64]) -> Priorities {
        Priorities { alpha, eps, largest, len: masses.len(), tree: SumTree::of(masses) }
    }

    /// The sums of a tree with `leaves` leaves, a power of two and enough: see [`SumTree`].
    pub fn nodes(&self, leaves: usize) -> Vec<f64> {
        let mut masses: Vec<f64> = (0..self.len).map(|i| self.tree.get(i)).collect();
        masses.resize(leaves.max(self.len), 0.0);
        SumTree::of(&masses).into_nodes()
    }

    /// How many rows have one.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A new row stands at `index`, perhaps in place of an old one.
    pub fn insert(&mut self, index: usize) {
        self.tree.reserve(index + 1);
        self.tree.set(index, power(self.largest, self.alpha));
        self.len = self.len.max(index + 1);
    }

    /// The row at `index`, which was inserted, was wrong by `error`.
    pub fn update(&mut self, index: usize, error: f64) {
        let priority = error.abs() + self.eps;
        self.largest = self.largest.max(priority);
        self.tree.set(index, power(priority, self.alpha));
    }

    /// p^alpha of the row at `index`.
    pub fn mass(&self, index: usize) -> f64 {
        self.tree.get(index)
    }

    /// The sum of all masses.
    pub fn total(&self) -> f64 {
        self.tree.total()
    }

    /// The largest priority so far, which new rows get.
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// One row from each of as many strata of equal mass as there are `places`; a place from 0 to below 1 says where
    /// within its stratum. There must be rows.
    pub fn draw(&self, places: &[f64]) -> Vec<usize> {
        let share = self.total() / places.len() as f64;
        let find = |(k, u): (usize, &f64)| self.tree.find((k as f64 + u) * share).min(self.len.saturating_sub(1));
        places.iter().enumerate().map(find).collect()
    }

    /// The weights of the rows at `indices`, the largest of which is 1.
    pub fn weights(&self, indices: &[usize], beta: f64) -> Vec<f64> {
        let probabilities: Vec<f64> = indices.iter().map(|i| self.mass(*i) / self.total()).collect();
        normalised(&importance(&probabilities, self.len, beta))
    }
}

/// (N P)^-beta for each of `probabilities`, N being `rows`.
pub fn importance(probabilities: &[f64], rows: usize, beta: f64) -> Vec<f64> {
    probabilities.iter().map(|p| power(rows as f64 * p, -beta)).collect()
}

/// `weights` divided by the largest of them.
pub fn normalised(weights: &[f64]) -> Vec<f64> {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    weights.iter().map(|w| w / largest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_new_row_gets_the_largest_priority_seen() {
        let mut p = Priorities::new(0.5, 0.0);
        p.insert(0);
        p.update(0, -10.0);
        p.insert(1);
        assert_eq!(p.mass(1), 10f64.powf(0.5));
        p.update(0, 0.5);
        p.insert(2);
        assert_eq!((p.mass(2), p.largest(), p.len()), (10f64.powf(0.5), 10.0, 3));
    }

    #[test]
    fn the_last_place_is_a_row_with_mass() {
        let mut p = Priorities::new(1.0, 0.0);
        for (i, error) in [3.0, 1.0, 0.0].into_iter().enumerate() {
            p.insert(i);
            p.update(i, error);
        }
        let almost_one = 1.0 - f64::EPSILON / 2.0;
        assert_eq!(p.draw(&[almost_one]), [1]);
        assert!(p.weights(&[0, 1], 1.0).iter().all(|w| w.is_finite()));
    }

    proptest! {
        #[test]
        fn priorities_that_were_kept_elsewhere_draw_the_same(
            masses in proptest::collection::vec(0.001..9.0f64, 1..70), more in 0u32..3, places in proptest::collection::vec(0.0..1.0f64, 1..9),
        ) {
            let p = Priorities::restored(0.6, 1e-6, 9.0, &masses);
            let leaves = masses.len().next_power_of_two() << more;
            let nodes = p.nodes(leaves);
            prop_assert_eq!(nodes.len(), 2 * leaves);
            // as a device finds rows in them: with more leaves than rows the sums are the same bits
            prop_assert_eq!(nodes[1].to_bits(), p.total().to_bits());
            prop_assert_eq!(&nodes[leaves..leaves + masses.len()], masses.as_slice());
            let again = Priorities::restored(0.6, 1e-6, 9.0, &nodes[leaves..leaves + masses.len()]);
            prop_assert_eq!(p.draw(&places), again.draw(&places));
        }

        #[test]
        fn saved_priorities_go_on_as_they_would_have(
            errors in proptest::collection::vec(0.0..100.0f64, 1..50), places in proptest::collection::vec(0.0..1.0f64, 1..20),
        ) {
            let mut p = Priorities::new(0.6, 1e-6);
            for (i, error) in errors.iter().enumerate() {
                p.insert(i);
                p.update(i, *error);
            }
            let form = bincode::config::standard();
            let bytes = bincode::serde::encode_to_vec(&p, form).unwrap();
            let (read, _): (Priorities, usize) = bincode::serde::decode_from_slice(&bytes, form).unwrap();
            prop_assert_eq!(&p, &read);
            let indices = p.draw(&places);
            prop_assert_eq!(&indices, &read.draw(&places));
            prop_assert!(indices.iter().all(|i| *i < errors.len() && p.mass(*i) > 0.0));
            let weights = p.weights(&indices, 0.4);
            prop_assert!(weights.iter().all(|w| *w > 0.0 && *w <= 1.0) && weights.contains(&1.0));
        }
    }
}
