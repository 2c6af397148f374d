//! One update of [`learner`](super::learner) wholly on a CUDA device: the batch goes up in one copy, a score of launches
//! follow, and what the host needs comes back in one; or, where the replay memory is on the device, nothing goes up or
//! comes back. After a few updates they are captured as one CUDA graph, the all-reduce included.
//!
//! ```text
//! input      noise of both networks | for each owned shard: S, S', rewards, discounts, weights, actions, levels of the
//!            loss and of the target: brought up, or drawn by the device, rows from its replay memory
//! forward    online (S, and S' where it chooses) beside target (S'), level by level
//! loss       costs and slopes of all rows, then the gradient by all parameters
//! average    over all ranks, divided by the rows of the whole batch; norm, clip, AdamW
//! finish     with a replay memory: new priorities, and a record of the update for the host to read some time
//! ```

use super::TrainError;
use super::device_model::driver;
use super::device_replay::DeviceReplay;
use super::device_slots::DeviceUpdate;
use super::learner::{LEVELS, LEVELS_TARGET, Learner, NOISE_ONLINE, NOISE_TARGET, Rows, SUMS, Update};
use super::model::{Float, Model};
use super::stepper::Stepper;
use crate::collectives::{Collective, Solo};
use crate::kernels::layers::address;
use crate::kernels::losses::extras;
use crate::kernels::replay::ReplaySettings;
use crate::parallel::recorder::{agree, record};
use crate::parallel::{Shards, Values, sum_shards};
use cudarc::driver::CudaGraph;
use foxlaunch_shared::ids::{Rank, WorldSize};
use std::ops::Range;
use std::sync::Arc;

/// Updates before the capture: the first forms what NCCL and the driver form at their first call.
const WARM_UP: u64 = 3;
/// `q_extras` in losses.cu writes rows, Q and |delta| before what each shard has.
const _: () = assert!(SUMS == 3);

/// Where the rows of an update come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Up from the host; `alone` for no word to the other ranks.
    Host { alone: bool },
    /// The replay memory on the device.
    Replay,
}

impl<T: Float> Learner<T> {
    /// The levels of the loss or of the target for the rows `range`; none where the network knows none.
    fn flat_levels(&self, number: u64, range: &Range<usize>, of_target: bool) -> Vec<f32> {
        let (samples, targets, _) = self.settings.levels;
        let (purpose, count) = if of_target { (LEVELS_TARGET, targets) } else { (LEVELS, samples) };
        self.drawn_levels(purpose, number, range, count).iter().map(|x| x.wide() as f32).collect()
    }

    /// Whether updates are computed by our own kernels on a device.
    pub(super) fn is_on_device(&self) -> bool {
        matches!(self.online, Model::Device(_))
    }

    /// [`Learner::update`], or with `alone` [`Learner::update_alone`], on the device.
    pub(super) fn update_on_device(
        &mut self,
        collective: &mut dyn Collective,
        number: u64,
        rows: &mut dyn FnMut(Range<usize>) -> Rows,
        alone: bool,
    ) -> Result<Update, TrainError> {
        let mut device = match self.device.take() {
            Some(device) => device,
            None => Box::new(DeviceUpdate::new(self)?),
        };
        let flat = |model: &Model<T>, purpose: &str| match (self.noise(purpose, number), model) {
            (Some(noise), Model::Device(model)) => model.network.flat_noise(&noise),
            _ => Vec::new(),
        };
        let noise = [flat(&self.online, NOISE_ONLINE), flat(&self.target, NOISE_TARGET)];
        device.upload(noise, rows, &mut |range, of_target| self.flat_levels(number, range, of_target))?;
        let done = self.take_on_device(&mut device, collective, Source::Host { alone });
        device.taken += 1;
        self.device = Some(device);
        done?;
        let extras = self.sum.extras()?;
        let grad_norm = match &self.optimizer {
            Stepper::Device(adam) => adam.last_clip()?.0,
            Stepper::Host(_) => f64::NAN,
        };
        let from = if alone { self.shards.owned() } else { 0..self.shards.count() };
        let mut update = self.summary(&extras, from);
        if update.rows > 0.0 {
            update.grad_norm = grad_norm;
        }
        Ok(update)
    }

    /// Keeps the replay memory on the device, if updates are computed there; says whether they are. `records` updates may
    /// pass between two reads.
    pub fn keep_replay(&mut self, settings: ReplaySettings) -> Result<bool, TrainError> {
        let Model::Device(online) = &self.online else { return Ok(false) };
        self.replay = Some(DeviceReplay::new(&online.stream, settings, &self.streams)?);
        // what was captured knows no memory
        self.device = None;
        Ok(true)
    }

    /// Update `number` of the run, on a batch that the device draws from its replay memory, where `length` rows are and
    /// `beta` weighs them. Returns when it is enqueued; [`DeviceReplay::read`] gives what it was. All ranks end with the
    /// same bits.
    pub fn update_from_replay(
        &mut self,
        collective: &mut dyn Collective,
        number: u64,
        length: usize,
        beta: f64,
    ) -> Result<(), TrainError> {
        self.replay.as_mut().ok_or_else(elsewhere)?.begin(number, length, beta)?;
        let mut device = match self.device.take() {
            Some(device) => device,
            None => Box::new(DeviceUpdate::new(self)?),
        };
        let done = self.take_on_device(&mut device, collective, Source::Replay);
        device.taken += 1;
        self.device = Some(device);
        done
    }

    /// Enqueues the update, launch by launch or as a graph.
    fn take_on_device(
        &mut self,
        device: &mut DeviceUpdate,
        collective: &mut dyn Collective,
        source: Source,
    ) -> Result<(), TrainError> {
        let alone = source == Source::Host { alone: true };
        let world = collective.world_size().0 as usize;
        let fits = !alone && (world == 1 || self.shards.is_one_each()) && !collective.checks_calls();
        if device.graph.is_none() && device.capture && fits && device.taken >= WARM_UP {
            self.capture(device, collective, source)?;
        }
        if alone || device.graph.is_none() {
            return self.enqueue(device, collective, source);
        }
        let Stepper::Device(adam) = &mut self.optimizer else { return Err(elsewhere()) };
        let Model::Device(online) = &self.online else { return Err(elsewhere()) };
        adam.prepare_flat(online.network.values())?;
        if world > 1 {
            collective.replayed(1)?;
        }
        device.graph.as_ref().map_or(Ok(()), CudaGraph::launch).map_err(driver)?;
        adam.replayed();
        Ok(())
    }

    /// Records the launches. All ranks must be able to, or none replays.
    fn capture(
        &mut self,
        device: &mut DeviceUpdate,
        collective: &mut dyn Collective,
        source: Source,
    ) -> Result<(), TrainError> {
        let stream = Arc::clone(&device.stream);
        let before = self.optimizer.steps();
        let graph = record(&stream, || self.enqueue(device, collective, source));
        if let Stepper::Device(adam) = &mut self.optimizer
            && adam.steps() > before
        {
            adam.recorded();
        }
        let (graph, mine) = match graph {
            Ok(graph) => (Some(graph), Ok(())),
            Err(why) => (None, Err(why)),
        };
        let agreed = agree(collective, mine)?;
        if let Err(why) = &agreed {
            tracing::warn!(%why, "updates are not captured");
        }
        device.capture = agreed.is_ok();
        device.graph = graph.filter(|_| device.capture);
        Ok(())
    }

    /// The launches of one update.
    fn enqueue(
        &mut self,
        device: &mut DeviceUpdate,
        collective: &mut dyn Collective,
        source: Source,
    ) -> Result<(), TrainError> {
        let stream = Arc::clone(&device.stream);
        let (len, shards) = (self.layout.total(), self.shards.count());
        let width = self.settings.network.observation;
        let mut replay = self.replay.as_mut().filter(|_| source == Source::Replay);
        if let Some(replay) = &mut replay {
            replay.draw(&device.noise_plan, &mut device.input)?;
        }
        for (at, slot) in device.slots.iter_mut().enumerate() {
            let part = if device.direct { &mut self.sum } else { &mut self.parts[at] };
            let rows = slot.range.len();
            if rows == 0 {
                part.clear()?;
                continue;
            }
            if let Some(replay) = &replay {
                let places = [0, rows * width, 2 * rows * width];
                let to = places.map(|behind| address(&device.input, slot.start + behind, &stream));
                // SAFETY: three parts of the input, of the sizes that it was made with; it lives as long as `device`.
                unsafe { replay.gather(slot.range.clone(), to) }?;
            }
            // SAFETY: the plans were made of the networks, the gradients and the input of this learner, which live as
            // long as `device`, whose graph is dropped before them; one stream orders all that reads and writes them.
            unsafe { slot.forward.enqueue(&stream) }?;
            slot.launch_loss(&stream, &device.loss, &device.input, width)?;
            // SAFETY: as above.
            unsafe { slot.backward.enqueue(&stream) }?;
            let Values::CudaF32(part) = part.values_mut() else { return Err(elsewhere()) };
            extras(&stream, &slot.costs, &mut part.slice_mut(len..), rows, (slot.shard, shards), slot.range.start)?;
        }
        let alone = source == Source::Host { alone: true };
        match (device.direct, alone) {
            (true, true) => {}
            (true, false) => self.sum.sum(collective)?,
            (false, true) => {
                let own = Shards::new(self.parts.len(), WorldSize(1), Rank(0))?;
                sum_shards(&mut Solo::new(), &own, &self.parts, &mut self.sum)?;
            }
            (false, false) => sum_shards(collective, &self.shards, &self.parts, &mut self.sum)?,
        }
        let Values::CudaF32(sum) = self.sum.values_mut() else { return Err(elsewhere()) };
        let Stepper::Device(adam) = &mut self.optimizer else { return Err(elsewhere()) };
        let Model::Device(online) = &mut self.online else { return Err(elsewhere()) };
        let halted = replay.as_ref().map_or(0, |replay| replay.halted());
        // SAFETY: the word is the replay memory's, which lives as long as the learner.
        unsafe { adam.step_mean_flat(online.network.values_mut(), sum, self.settings.max_grad_norm, halted) }?;
        match replay {
            Some(replay) => replay.finish(&sum.slice(len..), adam.last_clip_there()),
            None => Ok(()),
        }
    }
}

fn elsewhere() -> TrainError {
    TrainError::Unsupported("networks, gradients and optimiser are not on one device".into())
}
