//! What Rainbow (Hessel et al. 2018), IQN and CQL learn in one update, in data parallel.
//!
//! For each row of the batch, (S, A, R, D, S') with R the n-step return and D = gamma^k, or 0 where the task ended:
//!
//! ```text
//! (1)  a* = argmax_a Q(S', a; theta, e)        double: the online network chooses; else the target network does
//! (2)  L  = what `heads` says of the row: target by (theta-, e-), value by (theta, e)
//! (3)  g  = (sum over shards of dL/dtheta) / rows of the whole batch
//! (4)  theta <- AdamW(theta, g min(1, c / |g|))
//! ```
//!
//! e and e- are samples of noise, new in each update, the same for all rows and on all ranks. Levels of quantiles are
//! drawn for each row; actions are chosen by the mean over even levels, tau_k = (k + 1/2) / K, in place of K random ones.

use super::TrainError;
use super::device_replay::DeviceReplay;
use super::heads::{HeadSettings, Row, ValueHead};
use super::model::{Float, Model, ModelPass};
use super::stepper::Stepper;
use crate::collectives::{Collective, Solo};
use crate::kernels::td::greedy;
use crate::networks::{Head, Levels, Noise, QSettings};
use crate::optimizer::{AdamWSettings, Moments};
use crate::parallel::{FlatGradients, Layout, Shards, sum_shards};
use crate::seed::{Streams, uniform};
use candle_core::Device;
use foxlaunch_shared::config::{Config, HeadConfig};
use foxlaunch_shared::ids::{Rank, WorldSize};
use std::ops::Range;
use std::sync::Arc;

/// What a learner is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnerSettings {
    /// The networks.
    pub network: QSettings,
    /// What their outputs mean.
    pub head: HeadSettings,
    /// Levels drawn for each row of a quantile head: of the loss, of the target; and even ones to choose by.
    pub levels: (usize, usize, usize),
    /// Whether the online network chooses the action that the target network values.
    pub double: bool,
    /// The optimiser's settings.
    pub optimizer: AdamWSettings,
    /// Largest global norm of the gradient; 0 for no clip.
    pub max_grad_norm: f64,
}

impl LearnerSettings {
    /// As `config` has them, for observations and actions of an environment.
    pub fn new(config: &Config, observation: usize, actions: usize) -> LearnerSettings {
        let dqn = &config.dqn;
        let head = match dqn.head {
            HeadConfig::Value => Head::Value,
            HeadConfig::Categorical => Head::Categorical(dqn.atoms),
            HeadConfig::Quantile => Head::Quantile { cosines: dqn.cosines, first: dqn.first_cosine },
        };
        LearnerSettings {
            network: QSettings {
                observation,
                actions,
                hidden: config.network.widths(),
                head,
                dueling: dqn.dueling,
                noise: dqn.noisy.then_some(dqn.noisy_sigma),
            },
            head: HeadSettings {
                head,
                support: (dqn.v_min, dqn.v_max),
                kappa: dqn.kappa,
                conservative: dqn.conservative,
            },
            levels: (dqn.quantiles, dqn.target_quantiles, dqn.choice_quantiles),
            double: dqn.double,
            optimizer: AdamWSettings::new(dqn.learning_rate, &config.optimizer),
            max_grad_norm: config.optimizer.max_grad_norm,
        }
    }
}

/// Rows of a batch, row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// S: `[rows][observation]`.
    pub observations: Vec<f32>,
    /// A: `[rows]`.
    pub actions: Vec<u32>,
    /// R: `[rows]`.
    pub rewards: Vec<f64>,
    /// D: `[rows]`.
    pub discounts: Vec<f64>,
    /// S': `[rows][observation]`.
    pub next_observations: Vec<f32>,
    /// w: `[rows]`; empty where all are 1.
    pub weights: Vec<f64>,
}

/// A row as a replay memory on a device takes it.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRow<'a> {
    /// S.
    pub now: &'a [f32],
    /// A.
    pub action: u32,
    /// R.
    pub reward: f64,
    /// D.
    pub discount: f64,
    /// S'.
    pub next: &'a [f32],
}

/// What one update was, over all rows that took part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// L of each shard; the sum over its rows. Shards that took no part here are 0.
    pub losses: Vec<f64>,
    /// Rows that took part.
    pub rows: f64,
    /// Sum of Q(S, A).
    pub q_sum: f64,
    /// Sum of |delta|.
    pub td_sum: f64,
    /// The largest Q(S, A) of each shard that took part.
    pub q_max: f64,
    /// |g| before the clip.
    pub grad_norm: f64,
    /// How wrong each row of the batch was, unweighted; 0 for rows that took no part here.
    pub priorities: Vec<f64>,
}

impl Update {
    /// L over all shards.
    pub fn loss_sum(&self) -> f64 {
        self.losses.iter().sum()
    }
}

/// Scalars that ride behind the gradients: rows, Q and |delta| summed, for each shard its loss and its largest Q, for
/// each row its priority. A shard writes only its own, and the sum with the others' zeros carries them to all.
pub(super) const SUMS: usize = 3;

/// Purposes of the noise of an update.
pub(super) const NOISE_ONLINE: &str = "noise-online";
pub(super) const NOISE_TARGET: &str = "noise-target";
/// And of its levels of quantiles.
pub(super) const LEVELS: &str = "levels";
pub(super) const LEVELS_TARGET: &str = "levels-target";

/// Both networks and the optimiser.
pub struct Learner<T = f32> {
    /// The updates on a device, once the first is planned: dropped before what they work on.
    #[cfg(feature = "cuda")]
    pub(super) device: Option<Box<super::device_slots::DeviceUpdate>>,
    /// The replay memory, where it is on the device.
    pub(super) replay: Option<DeviceReplay>,
    pub(super) settings: LearnerSettings,
    pub(super) streams: Streams,
    pub(super) shards: Shards,
    pub(super) batch: usize,
    pub(super) online: Model<T>,
    pub(super) target: Model<T>,
    pub(super) layout: Layout,
    pub(super) optimizer: Stepper,
    head: ValueHead<T>,
    pub(super) parts: Vec<FlatGradients>,
    pub(super) sum: FlatGradients,
    now: ModelPass<T>,
    next: ModelPass<T>,
    choosing: ModelPass<T>,
    q: Vec<T>,
}

impl<T: Float> Learner<T> {
    /// A fresh learner whose weights `streams` decide, for the rank that owns its part of `shards`, and batches of
    /// `batch` rows.
    pub fn new(
        settings: LearnerSettings,
        shards: Shards,
        batch: usize,
        device: &Device,
        streams: &Streams,
    ) -> Result<Learner<T>, TrainError> {
        let network = Arc::new(settings.network.network());
        let (online, target) =
            (Model::of_values(network.clone(), device, streams)?, Model::of_values(network.clone(), device, streams)?);
        let layout = Model::<T>::layout(&network);
        let buffer = || FlatGradients::zeros(&layout, SUMS + 2 * shards.count() + batch, T::DTYPE, device);
        Ok(Learner {
            optimizer: Stepper::new(layout.total(), T::DTYPE, settings.optimizer.clone(), device)?,
            head: ValueHead::new(&settings.head, settings.network.actions),
            parts: shards.owned().map(|_| buffer()).collect::<Result<_, _>>()?,
            sum: buffer()?,
            now: online.pass(),
            next: online.pass(),
            choosing: online.pass(),
            q: Vec::new(),
            streams: streams.clone(),
            shards,
            batch,
            online,
            target,
            layout,
            settings,
            replay: None,
            #[cfg(feature = "cuda")]
            device: None,
        })
    }

    /// The replay memory, where it is on the device.
    pub fn replay(&mut self) -> Option<&mut DeviceReplay> {
        self.replay.as_mut()
    }

    /// What it is set to.
    pub fn settings(&self) -> &LearnerSettings {
        &self.settings
    }

    /// The network that acts and learns.
    pub fn online(&self) -> &Model<T> {
        &self.online
    }

    /// The network that acts and learns, to be changed.
    pub fn online_mut(&mut self) -> &mut Model<T> {
        &mut self.online
    }

    /// The network that values what comes next.
    pub fn target(&self) -> &Model<T> {
        &self.target
    }

    /// The network that values what comes next, to be changed.
    pub fn target_mut(&mut self) -> &mut Model<T> {
        &mut self.target
    }

    /// The order of the parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The optimiser's state.
    pub fn optimizer(&self) -> &Stepper {
        &self.optimizer
    }

    /// Goes on from a saved optimiser.
    pub fn set_optimizer(&mut self, moments: Moments, steps: u64) -> Result<(), TrainError> {
        self.optimizer.restore(moments, steps)
    }

    /// Acts from now on under sample `number` of noise, which explores; `None` for no noise. Without noisy weights
    /// nothing changes.
    pub fn explore(&mut self, number: Option<u64>) -> Result<(), TrainError> {
        let noise = number.and_then(|number| self.noise("noise-act", number));
        self.online.set_noise(noise)
    }

    /// Q(s, ·) of `rows` row-major observations, row-major.
    pub fn values(&mut self, observations: &[f32], rows: usize) -> Result<Vec<f32>, TrainError> {
        let even = self.even_levels();
        self.online.forward(&mut self.choosing, observations, rows, shared(&even), false)?;
        self.head.means(self.choosing.output(0), rows, &mut self.q);
        Ok(self.q.iter().map(|q| q.wide() as f32).collect())
    }

    /// The greedy action for each of `rows` row-major observations.
    pub fn greedy(&mut self, observations: &[f32], rows: usize) -> Result<Vec<usize>, TrainError> {
        let actions = self.settings.network.actions;
        Ok(self.values(observations, rows)?.chunks_exact(actions).map(greedy).collect())
    }

    /// Update `number` of the run, on a batch of which `rows` gives ranges: synchronous data parallel. All ranks end with
    /// the same bits.
    pub fn update(
        &mut self,
        collective: &mut dyn Collective,
        number: u64,
        rows: &mut dyn FnMut(Range<usize>) -> Rows,
    ) -> Result<Update, TrainError> {
        #[cfg(feature = "cuda")]
        if self.is_on_device() {
            return self.update_on_device(collective, number, rows, false);
        }
        self.own_gradients(number, rows)?;
        sum_shards(collective, &self.shards, &self.parts, &mut self.sum)?;
        self.step(0..self.shards.count())
    }

    /// Update `number` of the run, on this rank's rows alone: local SGD between two [`Learner::synchronise`]. Makes no
    /// collective call.
    pub fn update_alone(
        &mut self,
        number: u64,
        rows: &mut dyn FnMut(Range<usize>) -> Rows,
    ) -> Result<Update, TrainError> {
        #[cfg(feature = "cuda")]
        if self.is_on_device() {
            return self.update_on_device(&mut Solo::new(), number, rows, true);
        }
        self.own_gradients(number, rows)?;
        let own = Shards::new(self.parts.len(), WorldSize(1), Rank(0))?;
        sum_shards(&mut Solo::new(), &own, &self.parts, &mut self.sum)?;
        self.step(self.shards.owned())
    }

    /// Averages parameters and moments over all ranks.
    pub fn synchronise(&mut self, collective: &mut dyn Collective) -> Result<(), TrainError> {
        if collective.world_size() == WorldSize(1) {
            return Ok(());
        }
        self.online.average(&self.layout, collective)?;
        self.optimizer.average(collective)
    }

    /// theta- <- (1 - tau) theta- + tau theta.
    pub fn update_target(&mut self, tau: f64) -> Result<(), TrainError> {
        self.target.follow(&self.online, tau)
    }

    /// (1) and (2) for each owned shard, under new noise.
    fn own_gradients(&mut self, number: u64, rows: &mut dyn FnMut(Range<usize>) -> Rows) -> Result<(), TrainError> {
        self.online.set_noise(self.noise(NOISE_ONLINE, number))?;
        self.target.set_noise(self.noise(NOISE_TARGET, number))?;
        for (slot, shard) in self.shards.owned().enumerate() {
            let range = self.shards.rows(shard, self.batch);
            self.parts[slot].clear()?;
            if !range.is_empty() {
                self.own_gradient(number, slot, shard, range.clone(), &rows(range))?;
            }
        }
        Ok(())
    }

    /// The gradient of L over the rows `range`, those of `shard`, and what rides behind it.
    fn own_gradient(
        &mut self,
        number: u64,
        slot: usize,
        shard: usize,
        range: Range<usize>,
        batch: &Rows,
    ) -> Result<(), TrainError> {
        let (rows, actions) = (range.len(), self.settings.network.actions);
        let is_quantile = matches!(self.settings.head.head, Head::Quantile { .. });
        let (samples, targets, _) = self.settings.levels;
        let levels = self.drawn_levels(LEVELS, number, &range, samples);
        let target_levels = self.drawn_levels(LEVELS_TARGET, number, &range, targets);
        let even = self.even_levels();

        let own = |levels, count| if is_quantile { Levels::Own(levels, count) } else { Levels::None };
        let next = &batch.next_observations;
        self.target.forward(&mut self.next, next, rows, own(&target_levels, targets), false)?;
        // (1)
        if self.settings.double {
            self.online.forward(&mut self.choosing, next, rows, shared(&even), false)?;
        } else if is_quantile {
            self.target.forward(&mut self.choosing, next, rows, shared(&even), false)?;
        }
        let by = if self.settings.double || is_quantile { &self.choosing } else { &self.next };
        self.head.means(by.output(0), rows, &mut self.q);
        self.online.forward(&mut self.now, &batch.observations, rows, own(&levels, samples), true)?;

        // (2)
        let shards = self.shards.count();
        let mut extras = vec![0.0; SUMS + 2 * shards + self.batch];
        let (mut loss, mut q_sum, mut td_sum, mut q_max) = (0.0, 0.0, 0.0, f64::NEG_INFINITY);
        let (outputs, gradient) = self.now.output_and_gradient(0);
        let (width, next_width) = (outputs.len() / rows, self.next.output(0).len() / rows);
        for (row, gradient) in gradient.chunks_exact_mut(width).enumerate() {
            let levels = if is_quantile { &levels[row * samples..][..samples] } else { &[] };
            let seen = Row {
                now: &outputs[row * width..][..width],
                levels,
                next: &self.next.output(0)[row * next_width..][..next_width],
                choice: &self.q[row * actions..][..actions],
                action: batch.actions[row] as usize,
                reward: T::of(batch.rewards[row]),
                discount: T::of(batch.discounts[row]),
                weight: batch.weights.get(row).map_or(T::ONE, |w| T::of(*w)),
            };
            let cost = self.head.cost(&seen, gradient);
            loss += cost.loss.wide();
            q_sum += cost.q.wide();
            td_sum += cost.delta.wide().abs();
            q_max = f64::max(q_max, cost.q.wide());
            extras[SUMS + 2 * shards + range.start + row] = cost.priority.wide();
        }
        extras[..SUMS].copy_from_slice(&[rows as f64, q_sum, td_sum]);
        extras[SUMS + shard] = loss;
        extras[SUMS + shards + shard] = q_max;
        self.online.backward(&self.layout, &mut self.now, &mut self.parts[slot], false)?;
        Ok(self.parts[slot].set_extras(&extras)?)
    }

    /// (3) and (4), from the buffer summed over the shards `from`.
    fn step(&mut self, from: Range<usize>) -> Result<Update, TrainError> {
        let extras = self.sum.extras()?;
        let mut update = self.summary(&extras, from);
        if update.rows == 0.0 {
            // this rank had no rows, and steps alone: it waits for the next sync point
            return Ok(update);
        }
        self.sum.scale(1.0 / update.rows)?;
        let max_norm = self.settings.max_grad_norm;
        update.grad_norm = self.optimizer.norm(&self.sum, max_norm)?;
        if !update.loss_sum().is_finite() || !update.grad_norm.is_finite() {
            // not a step: what made it can still be looked at
            return Ok(update);
        }
        self.online.step(&mut self.optimizer, &mut self.sum, update.grad_norm, max_norm)?;
        Ok(update)
    }

    /// What rode behind the gradients, of the shards `from`; the norm is not there yet.
    pub(super) fn summary(&self, extras: &[f64], from: Range<usize>) -> Update {
        let shards = self.shards.count();
        // a shard without rows has no largest value
        let with_rows = from.filter(|shard| !self.shards.rows(*shard, self.batch).is_empty());
        let q_max = with_rows.map(|shard| extras[SUMS + shards + shard]).fold(f64::NEG_INFINITY, f64::max);
        Update {
            losses: extras[SUMS..SUMS + shards].to_vec(),
            priorities: extras[SUMS + 2 * shards..].to_vec(),
            rows: extras[0],
            q_sum: extras[1],
            td_sum: extras[2],
            q_max,
            grad_norm: 0.0,
        }
    }

    pub(super) fn noise(&self, purpose: &str, number: u64) -> Option<Noise<T>> {
        let network = self.online.network();
        self.settings.network.noise.map(|_| Noise::draw(network, &self.streams, purpose, number))
    }

    /// `count` levels for each of the rows `range`, which the rows' places in the batch decide.
    pub(super) fn drawn_levels(&self, purpose: &str, number: u64, range: &Range<usize>, count: usize) -> Vec<T> {
        if !matches!(self.settings.head.head, Head::Quantile { .. }) {
            return Vec::new();
        }
        let mut draw = self.streams.draw(purpose, number, 0);
        // a uniform number takes two words
        draw.set_word_pos(2 * (range.start * count) as u128);
        (0..range.len() * count).map(|_| T::of(uniform(&mut draw))).collect()
    }

    /// The middles of equal parts of 0 to 1; none where the network knows no levels.
    pub(super) fn even_levels(&self) -> Vec<T> {
        let count = if matches!(self.settings.head.head, Head::Quantile { .. }) { self.settings.levels.2 } else { 0 };
        (0..count).map(|k| T::of((k as f64 + 0.5) / count as f64)).collect()
    }
}

fn shared<T>(levels: &[T]) -> Levels<'_, T> {
    if levels.is_empty() { Levels::None } else { Levels::Shared(levels) }
}
