//! One metric record = one line of JSON in `metrics.jsonl`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was measured at one point of training.
///
/// Nothing in a record depends on when or where it was measured, so two runs that compute the same write
/// the same bytes; rates and times go to the launcher's events and to the screen instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Which fold was trained, from 0.
    pub fold: u32,
    /// Optimiser updates of this fold so far.
    pub update: u64,
    /// Environment steps of this fold so far.
    pub step: u64,
    /// Name -> value, in the order of the names. A value that is not finite is written as null.
    pub values: BTreeMap<String, Option<f64>>,
}

impl Metric {
    /// A record of `values`.
    pub fn new<'a>(fold: u32, update: u64, step: u64, values: impl IntoIterator<Item = (&'a str, f64)>) -> Metric {
        let values =
            values.into_iter().map(|(name, value)| (name.to_owned(), value.is_finite().then_some(value))).collect();
        Metric { fold, update, step, values }
    }
}
