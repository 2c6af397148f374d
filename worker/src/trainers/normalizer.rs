//! Running moments of what comes from the environments: observations brought to mean 0 and deviation 1, rewards divided by
//! the deviation of discounted returns (Engstrom et al. 2020).
//!
//! Moments change between rounds only, from what all ranks collected, in the order of steps and streams: they are the same
//! on every rank, and all steps of a round are seen through the same ones. Evaluation leaves them as they are.

use crate::kernels::moments::Spread;
use serde::{Deserialize, Serialize};

/// Added to variances.
const EPS: f64 = 1e-8;
/// No normalised number is further from 0.
const MOST: f32 = 10.0;

/// What observations are seen through: rounded once, so that a model's file holds exactly what acted.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// What is subtracted.
    pub mean: Vec<f32>,
    /// What is multiplied by then.
    pub scale: Vec<f32>,
}

impl View {
    /// One that changes nothing.
    pub fn plain(width: usize) -> View {
        View { mean: vec![0.0; width], scale: vec![1.0; width] }
    }

    /// Normalises row-major observations in place.
    pub fn apply(&self, observations: &mut [f32]) {
        for row in observations.chunks_exact_mut(self.mean.len()) {
            for ((x, mean), scale) in row.iter_mut().zip(&self.mean).zip(&self.scale) {
                *x = ((*x - mean) * scale).clamp(-MOST, MOST);
            }
        }
    }
}

/// Moments of each column of observations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    columns: Vec<Spread>,
}

impl Observations {
    /// Of none yet.
    pub fn new(width: usize) -> Observations {
        Observations { columns: vec![Spread::default(); width] }
    }

    /// Adds row-major `observations`.
    pub fn add(&mut self, observations: &[f32]) {
        let width = self.columns.len();
        for (i, column) in self.columns.iter_mut().enumerate() {
            *column = column.merged(Spread::of(observations.iter().skip(i).step_by(width).copied()));
        }
    }

    /// What is seen through them.
    pub fn view(&self) -> View {
        if self.columns.iter().all(|c| c.count == 0.0) {
            return View::plain(self.columns.len());
        }
        View {
            mean: self.columns.iter().map(|c| c.mean as f32).collect(),
            scale: self.columns.iter().map(|c| (1.0 / (c.variance() + EPS).sqrt()) as f32).collect(),
        }
    }
}

/// Moments of discounted returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rewards {
    gamma: f64,
    /// Of each stream, of the running episode.
    returned: Vec<f64>,
    spread: Spread,
}

impl Rewards {
    /// Of none yet.
    pub fn new(streams: usize, gamma: f64) -> Rewards {
        Rewards { gamma, returned: vec![0.0; streams], spread: Spread::default() }
    }

    /// Adds rewards `[steps][streams]`, where episodes ended as `done` says, and then divides them.
    pub fn normalize(&mut self, rewards: &mut [f64], done: impl Fn(usize) -> bool) {
        let streams = self.returned.len();
        let mut seen = Vec::with_capacity(rewards.len());
        for (i, reward) in rewards.iter().enumerate() {
            let returned = &mut self.returned[i % streams];
            *returned = self.gamma * *returned + reward;
            seen.push(*returned);
            if done(i) {
                *returned = 0.0;
            }
        }
        self.spread = self.spread.merged(Spread::of(seen.iter().copied()));
        let scale = 1.0 / (self.spread.variance() + EPS).sqrt();
        rewards.iter_mut().for_each(|r| *r = (*r * scale).clamp(-f64::from(MOST), f64::from(MOST)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn moments_of_rounds_are_those_of_all_rows(
            rows in prop::collection::vec(prop::array::uniform2(-1e3f32..1e3), 2..60), cut: prop::sample::Index,
        ) {
            let flat: Vec<f32> = rows.iter().flatten().copied().collect();
            let cut = 2 * cut.index(rows.len());
            let (mut whole, mut parts) = (Observations::new(2), Observations::new(2));
            whole.add(&flat);
            parts.add(&flat[..cut]);
            parts.add(&flat[cut..]);
            for (a, b) in whole.columns.iter().zip(&parts.columns) {
                prop_assert!((a.mean - b.mean).abs() < 1e-9 * (1.0 + a.mean.abs()));
                prop_assert!((a.squares - b.squares).abs() < 1e-9 * (1.0 + a.squares));
            }
            let mut seen = flat.clone();
            whole.view().apply(&mut seen);
            let spread = Spread::of(seen.iter().step_by(2).copied());
            prop_assert!(spread.mean.abs() < 1e-2, "{spread:?}");
            prop_assert!(spread.variance() < 1.001, "{spread:?}");
        }
    }

    #[test]
    fn nothing_seen_yet_changes_nothing_and_outliers_are_cut() {
        let mut observations = Observations::new(1);
        let mut x = [3.0, -4.0];
        observations.view().apply(&mut x);
        assert_eq!(x, [3.0, -4.0]);
        observations.add(&[0.0, 1.0, 0.0, 1.0]);
        let mut x = [1e9, 0.5, f32::NEG_INFINITY];
        observations.view().apply(&mut x);
        assert_eq!(x, [10.0, 0.0, -10.0]);
    }

    #[test]
    fn rewards_are_divided_by_the_deviation_of_returns_not_of_rewards() {
        // a constant reward has no deviation of its own; its discounted returns 1, 1.5, 1.75 do, and 1 after an end
        let mut rewards = Rewards::new(1, 0.5);
        let mut values = [1.0, 1.0, 1.0, 1.0];
        rewards.normalize(&mut values, |i| i == 2);
        let returns = [1.0, 1.5, 1.75, 1.0];
        let scale = 1.0 / (Spread::of(returns.into_iter()).variance() + EPS).sqrt();
        assert!(values.iter().all(|v| (v - scale).abs() < 1e-12), "{values:?} {scale}");
        assert_eq!(rewards.returned, [1.0]);
    }
}
