//! What a replay memory on a device is set to, and what its updates say. The memory itself is in `device_replay`.

/// What a memory is set to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplaySettings {
    /// Rows that it holds.
    pub capacity: usize,
    /// Values of an observation.
    pub width: usize,
    /// Rows of a batch, over all ranks.
    pub batch: usize,
    /// Shards that a batch is split into.
    pub shards: usize,
    /// alpha and eps of priorities; none where rows are drawn uniformly.
    pub priorities: Option<(f64, f64)>,
    /// Updates whose records are kept.
    pub records: usize,
}

impl ReplaySettings {
    /// Bytes that the memory takes, the small tables left out.
    pub fn bytes(&self) -> usize {
        let tree = self.priorities.map_or(0, |_| 2 * self.capacity.next_power_of_two() * size_of::<f64>());
        self.capacity * (2 * self.width + 3) * size_of::<f32>() + tree
    }
}

/// What one update said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The norm of the gradient before the clip.
    pub norm: f64,
    /// Errors of the batch's rows, summed, and the largest, at least 0.
    pub errors: (f64, f64),
    /// Weights of the batch's rows, summed; 0 without priorities.
    pub weights: f64,
    /// What rode behind the gradients: rows, Q, |delta| summed, for each shard its loss, then its largest Q.
    pub extras: Vec<f64>,
}
