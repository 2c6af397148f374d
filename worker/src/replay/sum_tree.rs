//! Masses in a binary tree of sums: to change one or to find whose mass a number falls into takes one walk.
//!
//! Parents are the sums of their children, computed anew at each change, never moved by a difference: so no error builds
//! up, and the sums are the same bits whatever the order of the changes.

/// Masses by index.
#[derive(Clone, Debug, PartialEq)]
pub struct SumTree {
    /// The root at 1, the children of node i at 2i and 2i + 1, the masses from `leaves` on.
    nodes: Vec<f64>,
    leaves: usize,
}

impl SumTree {
    /// `len` masses of 0.
    pub fn new(len: usize) -> SumTree {
        let leaves = len.max(1).next_power_of_two();
        SumTree { nodes: vec![0.0; 2 * leaves], leaves }
    }

    /// The tree of `masses`.
    pub fn of(masses: &[f64]) -> SumTree {
        let mut tree = SumTree::new(masses.len());
        tree.nodes[tree.leaves..tree.leaves + masses.len()].copy_from_slice(masses);
        for node in (1..tree.leaves).rev() {
            tree.nodes[node] = tree.nodes[2 * node] + tree.nodes[2 * node + 1];
        }
        tree
    }

    /// All sums: the root at 1, the children of node i at 2i and 2i + 1, the masses in the second half.
    pub fn into_nodes(self) -> Vec<f64> {
        self.nodes
    }

    /// The mass at `index`.
    pub fn get(&self, index: usize) -> f64 {
        self.nodes[self.leaves + index]
    }

    /// Makes room for at least `len` masses. The sums stay as they are: what is new weighs nothing.
    pub fn reserve(&mut self, len: usize) {
        if len > self.leaves {
            let mut masses = self.nodes[self.leaves..].to_vec();
            masses.resize(len.next_power_of_two(), 0.0);
            *self = SumTree::of(&masses);
        }
    }

    /// Sets the mass at `index`, for which there is room, to `mass`, 0 or more.
    pub fn set(&mut self, index: usize, mass: f64) {
        let mut node = self.leaves + index;
        self.nodes[node] = mass;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1];
        }
    }

    /// All masses together.
    pub fn total(&self) -> f64 {
        self.nodes[1]
    }

    /// The first index whose mass and those before it are together more than `mass`, from 0 to below the total. Never one
    /// without mass, also where rounding takes `mass` to the total or beyond, unless none has any.
    pub fn find(&self, mass: f64) -> usize {
        let (mut node, mut mass) = (1, mass);
        while node < self.leaves {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            if mass < left || right <= 0.0 {
                node *= 2;
            } else {
                mass -= left;
                node = 2 * node + 1;
            }
        }
        node - self.leaves
    }

    /// The first place where a parent is not the sum of its children.
    pub fn fault(&self) -> Option<usize> {
        (1..self.leaves).find(|&node| self.nodes[node] != self.nodes[2 * node] + self.nodes[2 * node + 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Streams, below, uniform};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_finds_what_a_walk_over_all_finds(
            masses in proptest::collection::vec(prop_oneof![Just(0.0), 0.0..10.0f64], 1..70), at in 0.0..1.0f64,
        ) {
            let tree = SumTree::of(&masses);
            let mut one_by_one = SumTree::new(masses.len());
            masses.iter().enumerate().rev().for_each(|(i, mass)| one_by_one.set(i, *mass));
            prop_assert_eq!(&tree, &one_by_one);
            prop_assert_eq!(tree.fault(), None);
            prop_assume!(tree.total() > 0.0);
            let found = tree.find(at * tree.total());
            prop_assert!(masses[found] > 0.0);
            // sums in another order are other bits: what is found stands where the walk stands, up to rounding
            let before: f64 = masses[..found].iter().sum();
            let mass = at * tree.total();
            let slack = 1e-9 * tree.total();
            prop_assert!(before <= mass + slack && mass < before + masses[found] + slack);
        }

        #[test]
        fn the_end_of_the_mass_is_the_last_that_has_some(masses in proptest::collection::vec(0.0..2.0f64, 1..40)) {
            let mut tree = SumTree::of(&masses);
            let total = tree.total();
            tree.reserve(1000);
            prop_assert_eq!(tree.total().to_bits(), total.to_bits());
            prop_assert_eq!(tree.fault(), None);
            let last = masses.iter().rposition(|mass| *mass > 0.0);
            prop_assume!(last.is_some());
            for mass in [tree.total(), tree.total() * (1.0 + 1e-9), f64::MAX] {
                prop_assert_eq!(Some(tree.find(mass)), last);
            }
        }
    }

    #[test]
    fn a_million_changes_leave_it_exact() {
        let len = 5000;
        let mut tree = SumTree::new(len);
        let mut draw = Streams::new(1).draw("masses", 0, 0);
        for _ in 0..1_000_000 {
            // of very different sizes: a tree of differences would drift
            let mass = 10f64.powf(12.0 * uniform(&mut draw) - 6.0);
            tree.set(below(&mut draw, len), mass);
        }
        assert_eq!(tree.fault(), None);
        let masses: Vec<f64> = (0..len).map(|i| tree.get(i)).collect();
        assert_eq!(tree, SumTree::of(&masses));
        // and what is left of a large mass that goes is nothing
        (0..len).for_each(|i| tree.set(i, 0.0));
        assert_eq!(tree.total(), 0.0);
    }
}
