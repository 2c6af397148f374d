//! What an update on a device is planned as: its input, and for each owned shard the passes, losses and launches. See
//! `device_update`, which enqueues them.

use super::TrainError;
use super::device_model::driver;
use super::learner::{LEVELS, LEVELS_TARGET, Learner, NOISE_ONLINE, NOISE_TARGET, Rows};
use super::model::{Float, Model};
use crate::kernels::device_quantile::QuantileLoss;
use crate::kernels::device_replay::{Drawn, Key, NoisePlan};
use crate::kernels::layers::address;
use crate::kernels::losses::{Outputs, QLoss};
use crate::networks::Head;
use crate::networks::device::{DevicePass, LevelCount};
use crate::networks::device_plan::Launches;
use crate::parallel::Values;
use cudarc::driver::{CudaGraph, CudaSlice, CudaStream};
use std::ops::Range;
use std::sync::Arc;

/// Rewards, discounts, weights and actions; also loss, Q, delta and priority of a row.
const META: usize = 4;

/// What an update on the device is made of. Its graph goes first when it is dropped.
pub(super) struct DeviceUpdate {
    pub(super) graph: Option<CudaGraph>,
    pub(super) capture: bool,
    pub(super) taken: u64,
    pub(super) stream: Arc<CudaStream>,
    pub(super) loss: Loss,
    /// As the page of `device_update` draws it.
    pub(super) input: CudaSlice<f32>,
    staging: Vec<f32>,
    noise: usize,
    /// How the device draws noise and levels itself.
    pub(super) noise_plan: NoisePlan,
    /// Whether the one owned shard's gradient is made where the sum is.
    pub(super) direct: bool,
    pub(super) slots: Vec<Slot>,
    /// The levels that actions are chosen by.
    _even: CudaSlice<f32>,
}

/// Which loss, of no rows yet.
#[derive(Clone, Copy)]
pub(super) enum Loss {
    Plain {
        loss: QLoss,
        /// Whether the online network chooses, which then sees S' behind S.
        double: bool,
    },
    Quantile(QuantileLoss),
}

/// One owned shard.
pub(super) struct Slot {
    pub(super) shard: usize,
    pub(super) range: Range<usize>,
    /// Where its part of the input begins.
    pub(super) start: usize,
    online: DevicePass,
    target: DevicePass,
    /// Of a network of quantiles: S' at the levels that actions are chosen by.
    choosing: Option<DevicePass>,
    pub(super) forward: Launches,
    pub(super) backward: Launches,
    pub(super) costs: CudaSlice<f32>,
}

impl DeviceUpdate {
    /// Plans the updates of `learner`, whose networks are on a device.
    pub(super) fn new<T: Float>(learner: &mut Learner<T>) -> Result<DeviceUpdate, TrainError> {
        let (Model::Device(online), Model::Device(target)) = (&learner.online, &learner.target) else {
            return Err(elsewhere());
        };
        let settings = &learner.settings;
        let (width, atoms) = (settings.network.observation, settings.network.head.atoms());
        let is_quantile = matches!(settings.head.head, Head::Quantile { .. });
        let (samples, targets, choices) = if is_quantile { settings.levels } else { (0, 0, 0) };
        let each = 2 * width + META + samples + targets;
        let stream = Arc::clone(&online.stream);
        let noise = if settings.network.noise.is_some() { online.network.noise_len() } else { 0 };
        let ranges: Vec<_> =
            learner.shards.owned().map(|shard| (shard, learner.shards.rows(shard, learner.batch))).collect();
        let len = 2 * noise + ranges.iter().map(|(_, range)| range.len() * each).sum::<usize>();
        let input = stream.alloc_zeros::<f32>(len.max(1)).map_err(driver)?;
        let even: Vec<f32> = learner.even_levels().iter().map(|x| x.wide() as f32).chain([0.0]).collect();
        let even = stream.clone_htod(&even).map_err(driver)?;
        let at = |element: usize| address(&input, element, &stream);
        let noise_at = |start: usize| (noise > 0).then(|| at(start));
        let key = |purpose: &str| Key::from(learner.streams.purpose(purpose).key());
        let mut drawn = Vec::new();
        for (model, purpose, from) in [(online, NOISE_ONLINE, 0), (target, NOISE_TARGET, noise)] {
            let of = model.network.noise_parts().filter(|_| noise > 0);
            drawn.extend(of.map(|(op, at)| Drawn::noise(key(purpose), op, from + at.start..from + at.end)));
        }
        let direct = learner.shards.is_one_each();
        let mut start = 2 * noise;
        let mut slots = Vec::new();
        for ((shard, range), part) in ranges.into_iter().zip(&learner.parts) {
            let rows = range.len();
            let own = |count: usize| if is_quantile { LevelCount::Own(count) } else { LevelCount::None };
            let levels = start + rows * (2 * width + META);
            let target_levels = levels + rows * samples;
            // the online network sees S' too where it chooses, at the same levels if it knows none
            let seen = if settings.double && !is_quantile { 2 * rows } else { rows };
            let mut now = online.network.pass_at(seen, own(samples), at(levels))?;
            let mut next = target.network.pass_at(rows, own(targets), at(target_levels))?;
            now.observe_at(at(start));
            next.observe_at(at(start + rows * width));
            let mut forward =
                online.network.forward(&now, noise_at(0)).beside(target.network.forward(&next, noise_at(noise)));
            let mut choosing = None;
            if is_quantile {
                let (model, sample) = if settings.double { (online, 0) } else { (target, noise) };
                let count = LevelCount::Shared(choices);
                let mut pass = model.network.pass_at(rows, count, address(&even, 0, &stream))?;
                pass.observe_at(at(start + rows * width));
                forward = forward.beside(model.network.forward(&pass, noise_at(sample)));
                choosing = Some(pass);
                let first = [range.start * samples, range.start * targets];
                let ends = [levels..target_levels, target_levels..target_levels + rows * targets];
                for ((purpose, first), place) in [LEVELS, LEVELS_TARGET].into_iter().zip(first).zip(ends) {
                    drawn.push(Drawn::levels(key(purpose), first, place));
                }
            }
            let Values::CudaF32(gradient) = (if direct { learner.sum.values() } else { part.values() }) else {
                return Err(elsewhere());
            };
            let backward = online.network.backward(&mut now, rows, gradient, noise_at(0))?;
            slots.push(Slot {
                shard,
                range,
                start,
                forward: forward.ready(),
                backward: backward.ready(),
                online: now,
                target: next,
                choosing,
                costs: stream.alloc_zeros((META * rows).max(1)).map_err(driver)?,
            });
            start += rows * each;
        }
        let (low, high) = settings.head.support;
        let (actions, conservative) = (settings.network.actions, settings.head.conservative as f32);
        let loss = if is_quantile {
            let (levels, kappa) = (settings.levels, settings.head.kappa as f32);
            Loss::Quantile(QuantileLoss { rows: 0, actions, levels, kappa, conservative })
        } else {
            let support = (low as f32, high as f32);
            Loss::Plain { loss: QLoss { rows: 0, actions, atoms, support, conservative }, double: settings.double }
        };
        Ok(DeviceUpdate {
            graph: None,
            capture: true,
            taken: 0,
            loss,
            input,
            staging: vec![0.0; len],
            noise,
            noise_plan: NoisePlan::new(&stream, &drawn)?,
            direct,
            slots,
            _even: even,
            stream,
        })
    }

    /// Brings noise, rows and levels up. `levels` gives those of a shard's rows: of the loss, or of the target.
    pub(super) fn upload(
        &mut self,
        noise: [Vec<f32>; 2],
        rows: &mut dyn FnMut(Range<usize>) -> Rows,
        levels: &mut dyn FnMut(&Range<usize>, bool) -> Vec<f32>,
    ) -> Result<(), TrainError> {
        let staging = &mut self.staging;
        for (part, sample) in staging.chunks_exact_mut(self.noise.max(1)).zip(noise.iter().filter(|s| !s.is_empty())) {
            part.copy_from_slice(sample);
        }
        for slot in self.slots.iter().filter(|slot| !slot.range.is_empty()) {
            let batch = rows(slot.range.clone());
            let n = slot.range.len();
            let mut rest = &mut staging[slot.start..];
            let mut put = |values: &mut dyn ExactSizeIterator<Item = f32>| {
                let (to, behind) = std::mem::take(&mut rest).split_at_mut(values.len());
                to.iter_mut().zip(values).for_each(|(to, from)| *to = from);
                rest = behind;
            };
            put(&mut batch.observations.iter().copied());
            put(&mut batch.next_observations.iter().copied());
            put(&mut batch.rewards.iter().map(|x| *x as f32));
            put(&mut batch.discounts.iter().map(|x| *x as f32));
            match batch.weights.is_empty() {
                true => put(&mut vec![1.0; n].into_iter()),
                false => put(&mut batch.weights.iter().map(|x| *x as f32)),
            }
            // exact: an action is far below 2^24
            put(&mut batch.actions.iter().map(|x| *x as f32));
            put(&mut levels(&slot.range, false).into_iter());
            put(&mut levels(&slot.range, true).into_iter());
        }
        if staging.is_empty() {
            return Ok(());
        }
        self.stream.memcpy_htod(staging.as_slice(), &mut self.input).map_err(driver)
    }
}

impl Slot {
    /// Enqueues the loss of the shard's rows, with its slopes.
    pub(super) fn launch_loss(
        &mut self,
        stream: &CudaStream,
        loss: &Loss,
        input: &CudaSlice<f32>,
        width: usize,
    ) -> Result<(), TrainError> {
        let rows = self.range.len();
        let behind = self.start + 2 * rows * width;
        let meta = input.slice(behind..behind + rows * META);
        let next = self.target.output().as_view();
        let (output, gradient) = self.online.output_and_gradient();
        let gradient = gradient.as_mut().ok_or_else(elsewhere)?;
        match loss {
            Loss::Plain { loss, double } => {
                let values = rows * loss.actions * loss.atoms;
                let chosen = if *double { output.slice(values..2 * values) } else { next.slice(..) };
                let outputs = Outputs { now: &output.slice(..values), choice: &chosen, next: &next };
                QLoss { rows, ..*loss }.launch(stream, &outputs, &meta, gradient, &mut self.costs)?;
            }
            Loss::Quantile(loss) => {
                let chosen = self.choosing.as_ref().ok_or_else(elsewhere)?.output().as_view();
                let levels = input.slice(behind + rows * META..behind + rows * (META + loss.levels.0));
                let outputs = Outputs { now: &output.as_view(), choice: &chosen, next: &next };
                let loss = QuantileLoss { rows, ..*loss };
                loss.launch(stream, &outputs, (&levels, &meta), gradient, &mut self.costs)?;
            }
        }
        Ok(())
    }
}

fn elsewhere() -> TrainError {
    TrainError::Unsupported("networks, gradients and replay memory are not on one device".into())
}
