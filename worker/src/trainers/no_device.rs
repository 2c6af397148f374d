//! Without CUDA there is no replay memory on a device: the type has no value, so none of this is ever called.

use super::TrainError;
use super::learner::{Learner, ReplayRow};
use super::model::Float;
use crate::collectives::Collective;
use crate::kernels::replay::{Record, ReplaySettings};
use crate::replay::Priorities;

/// A replay memory on a device.
pub enum DeviceReplay {}

#[allow(missing_docs)] // as in device_replay.rs
impl DeviceReplay {
    pub fn push(&mut self, _place: usize, _row: &ReplayRow<'_>) -> Result<(), TrainError> {
        match *self {}
    }

    pub fn unread(&self, _next: u64) -> u64 {
        match *self {}
    }

    pub fn read(&mut self, _next: u64) -> Result<Vec<(u64, Record)>, TrainError> {
        match *self {}
    }

    pub fn priorities(&mut self, _rows: usize) -> Result<Option<Priorities>, TrainError> {
        match *self {}
    }

    pub fn fill<'a>(
        &mut self,
        _rows: &mut dyn Iterator<Item = ReplayRow<'a>>,
        _priorities: Option<&Priorities>,
        _next: u64,
    ) -> Result<(), TrainError> {
        match *self {}
    }

    pub fn drawn(&self) -> Result<(Vec<u32>, Vec<f64>), TrainError> {
        match *self {}
    }

    pub fn row(&self, _place: usize) -> Result<[Vec<f32>; 3], TrainError> {
        match *self {}
    }
}

impl<T: Float> Learner<T> {
    /// Keeps the replay memory on the device, if updates are computed there; says whether they are.
    pub fn keep_replay(&mut self, _settings: ReplaySettings) -> Result<bool, TrainError> {
        Ok(false)
    }

    /// An update on a batch that the device draws.
    pub fn update_from_replay(
        &mut self,
        _collective: &mut dyn Collective,
        _number: u64,
        _length: usize,
        _beta: f64,
    ) -> Result<(), TrainError> {
        match self.replay() {
            Some(replay) => match *replay {},
            None => Err(TrainError::Unsupported("there is no replay memory on a device".into())),
        }
    }
}
