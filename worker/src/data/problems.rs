//! How many problems of each kind were met.

use foxlaunch_shared::config::Problem;
use std::collections::BTreeMap;

/// Counts by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(BTreeMap<Problem, u64>);

impl Problems {
    /// Counts `many` more of `problem`.
    pub fn add(&mut self, problem: Problem, many: u64) {
        if many > 0 {
            *self.0.entry(problem).or_default() += many;
        }
    }

    /// Counts all that `other` counted.
    pub fn absorb(&mut self, other: &Problems) {
        other.0.iter().for_each(|(problem, many)| self.add(*problem, *many));
    }

    /// How many of `problem` there were.
    pub fn of(&self, problem: Problem) -> u64 {
        self.0.get(&problem).copied().unwrap_or(0)
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// By name, those that were met.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(problem, many)| (problem.name().to_owned(), *many)).collect()
    }
}
