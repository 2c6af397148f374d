//! Double DQN (van Hasselt, Guez and Silver 2016) over n-step returns (Sutton 1988; Hessel et al. 2018), learned in
//! data parallel.
//!
//! For a transition (S, A, R, D, S'), R the n-step return and D = gamma^k, or 0 where the task ended:
//!
//! ```text
//! (1)  a* = argmax_a Q(S', a; theta)                the online network chooses,
//! (2)  Y  = R + D Q(S', a*; theta-)                 the target network values;
//! (3)  delta = Y - Q(S, A; theta)
//! (4)  L  = sum over rows of H(delta),              H(x) = x^2/2 if |x| < 1, else |x| - 1/2
//! (5)  dL/dQ(S, A) = -max(-1, min(1, delta))
//! (6)  g  = (sum over shards of dL/dtheta) / rows of the whole batch
//! (7)  theta <- AdamW(theta, g min(1, c / |g|))
//! ```
//!
//! Without `double`, a* in (1) is the target network's choice (Mnih et al. 2015).

use super::TrainError;
use super::collect::greedy;
use super::stepper::Stepper;
use crate::collectives::{Collective, Solo};
use crate::networks::QNetwork;
use crate::optimizer::{AdamWSettings, Moments};
use crate::parallel::{FlatGradients, Layout, Shards, sum_shards, weights};
use crate::seed::Streams;
use candle_core::{DType, Device, Tensor, Var};
use foxlaunch_shared::config::Config;
use foxlaunch_shared::ids::{Rank, WorldSize};
use std::ops::Range;

/// What a learner is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnerSettings {
    /// Values in an observation.
    pub observation: usize,
    /// Actions to choose from.
    pub actions: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// f32 or f64.
    pub dtype: DType,
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
        LearnerSettings {
            observation,
            actions,
            hidden: config.network.widths(),
            dtype: DType::F32,
            double: config.dqn.double,
            optimizer: AdamWSettings::new(config.dqn.learning_rate, &config.optimizer),
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
}

impl Update {
    /// L over all shards.
    pub fn loss_sum(&self) -> f64 {
        self.losses.iter().sum()
    }
}

/// Scalars that ride behind the gradients: rows, Q and |delta| summed, then for each shard its loss and its largest
/// Q. A shard writes only its own two, and the sum with the others' zeros carries them to all.
const SUMS: usize = 3;

/// Both networks and the optimiser.
pub struct Learner {
    settings: LearnerSettings,
    shards: Shards,
    online: QNetwork,
    target: QNetwork,
    layout: Layout,
    variables: Vec<Var>,
    optimizer: Stepper,
    parts: Vec<FlatGradients>,
    sum: FlatGradients,
}

impl Learner {
    /// A fresh learner whose weights `streams` decide, for the rank that owns its part of `shards`.
    pub fn new(
        settings: LearnerSettings,
        shards: Shards,
        device: &Device,
        streams: &Streams,
    ) -> Result<Learner, TrainError> {
        let s = &settings;
        let network = || QNetwork::new(s.observation, &s.hidden, s.actions, s.dtype, device, streams);
        let (online, target) = (network()?, network()?);
        let layout = Layout::of(online.parameters());
        let buffer = || FlatGradients::zeros(&layout, SUMS + 2 * shards.count(), s.dtype, device);
        let optimizer = Stepper::new(layout.total(), s.dtype, s.optimizer.clone(), device)?;
        Ok(Learner {
            parts: shards.owned().map(|_| buffer()).collect::<Result<_, _>>()?,
            sum: buffer()?,
            variables: online.variables(),
            shards,
            online,
            target,
            optimizer,
            layout,
            settings,
        })
    }

    /// What it is set to.
    pub fn settings(&self) -> &LearnerSettings {
        &self.settings
    }

    /// The network that acts and learns.
    pub fn online(&self) -> &QNetwork {
        &self.online
    }

    /// The network that values what comes next.
    pub fn target(&self) -> &QNetwork {
        &self.target
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

    /// Q(s, ·) of `rows` row-major observations, row-major.
    pub fn values(&self, observations: &[f32], rows: usize) -> Result<Vec<f32>, TrainError> {
        let q = self.online.forward_detached(&self.tensor(observations, rows)?)?;
        Ok(q.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }

    /// The greedy action for each of `rows` row-major observations.
    pub fn greedy(&self, observations: &[f32], rows: usize) -> Result<Vec<usize>, TrainError> {
        Ok(self.values(observations, rows)?.chunks_exact(self.settings.actions).map(greedy).collect())
    }

    /// One update on a batch of `total` rows over all ranks, of which `rows` gives ranges: synchronous data
    /// parallel. All ranks end with the same bits.
    pub fn update(
        &mut self,
        collective: &mut dyn Collective,
        total: usize,
        rows: &mut dyn FnMut(Range<usize>) -> Rows,
    ) -> Result<Update, TrainError> {
        self.own_gradients(total, rows)?;
        sum_shards(collective, &self.shards, &self.parts, &mut self.sum)?;
        self.step(total, 0..self.shards.count())
    }

    /// One update on this rank's rows alone: local SGD between two [`Learner::synchronise`]. Makes no collective
    /// call.
    pub fn update_alone(
        &mut self,
        total: usize,
        rows: &mut dyn FnMut(Range<usize>) -> Rows,
    ) -> Result<Update, TrainError> {
        self.own_gradients(total, rows)?;
        let own = Shards::new(self.parts.len(), WorldSize(1), Rank(0))?;
        sum_shards(&mut Solo::new(), &own, &self.parts, &mut self.sum)?;
        self.step(total, self.shards.owned())
    }

    /// Averages parameters and moments over all ranks.
    pub fn synchronise(&mut self, collective: &mut dyn Collective) -> Result<(), TrainError> {
        weights::average(&self.layout, self.online.parameters(), collective)?;
        if collective.world_size() == WorldSize(1) {
            return Ok(());
        }
        self.optimizer.average(collective)
    }

    /// theta- <- (1 - tau) theta- + tau theta.
    pub fn update_target(&mut self, tau: f64) -> Result<(), TrainError> {
        Ok(self.target.follow(&self.online, tau)?)
    }

    /// (1) to (5) for each owned shard.
    fn own_gradients(&mut self, total: usize, rows: &mut dyn FnMut(Range<usize>) -> Rows) -> Result<(), TrainError> {
        for (slot, shard) in self.shards.owned().enumerate() {
            let range = self.shards.rows(shard, total);
            self.parts[slot].clear()?;
            if range.is_empty() {
                continue;
            }
            let count = range.len();
            let batch = rows(range);
            let (gradient, extras) = self.loss(&batch, count, shard)?;
            let part = &mut self.parts[slot];
            part.add(&self.layout, self.online.parameters(), &gradient)?;
            part.set_extras(&extras)?;
        }
        Ok(())
    }

    /// The gradient of L over the rows of `shard`, and what rides behind it.
    fn loss(
        &self,
        batch: &Rows,
        rows: usize,
        shard: usize,
    ) -> Result<(candle_core::backprop::GradStore, Vec<f64>), TrainError> {
        let actions = self.settings.actions;
        let host = |q: Tensor| -> candle_core::Result<Vec<f64>> { q.to_dtype(DType::F64)?.flatten_all()?.to_vec1() };
        let next = self.tensor(&batch.next_observations, rows)?;
        let valued = host(self.target.forward_detached(&next)?)?;
        let chosen = if self.settings.double { host(self.online.forward_detached(&next)?)? } else { valued.clone() };
        let q = self.online.forward(&self.tensor(&batch.observations, rows)?)?;
        let values = host(q.detach())?;

        let mut slope = vec![0.0; rows * actions];
        let (mut loss, mut q_sum, mut td_sum, mut q_max) = (0.0, 0.0, 0.0, f64::NEG_INFINITY);
        for row in 0..rows {
            let of_row = row * actions..(row + 1) * actions;
            let best = first_largest(&chosen[of_row.clone()]); // (1)
            let y = batch.rewards[row] + batch.discounts[row] * valued[of_row.start + best]; // (2)
            let taken = of_row.start + batch.actions[row] as usize;
            let delta = y - values[taken]; // (3)
            loss += if delta.abs() < 1.0 { 0.5 * delta * delta } else { delta.abs() - 0.5 }; // (4)
            slope[taken] = -delta.clamp(-1.0, 1.0); // (5)
            q_sum += values[taken];
            td_sum += delta.abs();
            q_max = f64::max(q_max, values[taken]);
        }
        // The derivative of sum(q * slope) by theta, slope held fixed, is the derivative of L: the loss itself
        // need not pass through the graph.
        let slope = Tensor::from_vec(slope, (rows, actions), q.device())?.to_dtype(q.dtype())?;
        let gradient = (q * slope)?.sum_all()?.backward()?;

        let mut extras = vec![0.0; SUMS + 2 * self.shards.count()];
        extras[..SUMS].copy_from_slice(&[rows as f64, q_sum, td_sum]);
        extras[SUMS + shard] = loss;
        extras[SUMS + self.shards.count() + shard] = q_max;
        Ok((gradient, extras))
    }

    /// (6) and (7), from the buffer summed over the shards `from` of a batch of `total` rows.
    fn step(&mut self, total: usize, from: Range<usize>) -> Result<Update, TrainError> {
        let extras = self.sum.extras()?;
        let shards = self.shards.count();
        let losses = extras[SUMS..SUMS + shards].to_vec();
        // a shard without rows has no largest value
        let with_rows = from.filter(|shard| !self.shards.rows(*shard, total).is_empty());
        let q_max = with_rows.map(|shard| extras[SUMS + shards + shard]).fold(f64::NEG_INFINITY, f64::max);
        let rows = extras[0];
        if rows == 0.0 {
            // this rank had no rows, and steps alone: it waits for the next sync point
            return Ok(Update { losses, q_max, ..Update::default() });
        }
        self.sum.scale(1.0 / rows)?;
        let grad_norm = self.optimizer.norm(&self.sum, self.settings.max_grad_norm)?;
        let update = Update { losses, rows, q_sum: extras[1], td_sum: extras[2], q_max, grad_norm };
        if !update.loss_sum().is_finite() || !grad_norm.is_finite() {
            // not a step: what made it can still be looked at
            return Ok(update);
        }
        self.optimizer.step(&self.variables, &mut self.sum, grad_norm, self.settings.max_grad_norm)?;
        Ok(update)
    }

    fn tensor(&self, observations: &[f32], rows: usize) -> candle_core::Result<Tensor> {
        let variable = &self.variables[0];
        let shape = (rows, self.settings.observation);
        Tensor::from_slice(observations, shape, &Device::Cpu)?.to_dtype(variable.dtype())?.to_device(variable.device())
    }
}

fn first_largest(values: &[f64]) -> usize {
    (1..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}
