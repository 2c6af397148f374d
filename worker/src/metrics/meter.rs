//! Sums between two records.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Named means and maxima over what was fed in since the last record. Part of a checkpoint, so that a resumed run
/// writes the record it would have written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    means: BTreeMap<String, (f64, f64)>,
    maxima: BTreeMap<String, f64>,
}

impl Meter {
    /// Adds `sum` over `weight` things to the mean `name`.
    pub fn mean(&mut self, name: &str, sum: f64, weight: f64) {
        // looked up by &str first: a name is allocated once, not with every value
        match self.means.get_mut(name) {
            Some((s, w)) => (*s, *w) = (*s + sum, *w + weight),
            None => drop(self.means.insert(name.to_owned(), (sum, weight))),
        }
    }

    /// Feeds `value` to the maximum `name`.
    pub fn max(&mut self, name: &str, value: f64) {
        match self.maxima.get_mut(name) {
            Some(max) => *max = max.max(value),
            None => drop(self.maxima.insert(name.to_owned(), value)),
        }
    }

    /// The mean `name` so far, if anything was fed to it.
    pub fn mean_of(&self, name: &str) -> Option<f64> {
        self.means.get(name).filter(|(_, weight)| *weight > 0.0).map(|(sum, weight)| sum / weight)
    }

    /// All values, after which the meter is empty.
    pub fn take(&mut self) -> Vec<(String, f64)> {
        let Meter { means, maxima } = std::mem::take(self);
        let means = means.into_iter().filter(|(_, (_, weight))| *weight > 0.0);
        means.map(|(name, (sum, weight))| (name, sum / weight)).chain(maxima).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_weighted_and_taking_empties() {
        let mut meter = Meter::default();
        meter.mean("loss", 6.0, 2.0);
        meter.mean("loss", 4.0, 8.0);
        meter.mean("return", 0.0, 0.0);
        meter.max("q_max", -3.0);
        meter.max("q_max", -2.0);
        assert_eq!(meter.mean_of("loss"), Some(1.0));
        assert_eq!(meter.mean_of("return"), None);
        assert_eq!(meter.take(), [("loss".to_owned(), 1.0), ("q_max".to_owned(), -2.0)]);
        assert_eq!(meter.take(), []);
    }
}
