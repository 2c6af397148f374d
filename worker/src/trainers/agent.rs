//! A policy and a value that act and learn: what PPO's rounds are made with.

use super::TrainError;
use super::model::{Model, ModelPass};
use super::normalizer::View;
use super::rollout::{Actor, Rollout};
use super::stepper::Stepper;
use crate::environments::Action;
use crate::kernels::policy::{Clipping, Kind, Policy, Rows, Sums, clipped_loss};
use crate::networks::Levels;
use crate::parallel::{FlatGradients, Layout};
use crate::seed::{Draw, normal, uniform};
use std::ops::Range;

/// Scalars that ride behind the gradients: rows, then the sums of [`crate::kernels::policy::Sums`]. Each shard's loss
/// follows.
pub(super) const SUMS: usize = 6;

/// The network, and what it said last.
pub(super) struct Agent<A: Action> {
    pub(super) model: Model<f32>,
    /// What observations are seen through.
    pub(super) view: View,
    pass: ModelPass<f32>,
    learning: ModelPass<f32>,
    seen: Vec<f32>,
    space: A::Space,
    /// Where the logarithms of deviations lie among the parameters, and what they are.
    deviations: Option<Range<usize>>,
    log_std: Vec<f32>,
}

impl<A: Action> Agent<A> {
    /// An agent by `model`, for observations of `width` values and actions of `space`.
    pub(super) fn new(
        model: Model<f32>,
        deviations: Option<Range<usize>>,
        space: A::Space,
        width: usize,
    ) -> Result<Agent<A>, TrainError> {
        let (pass, learning) = (model.pass(), model.pass());
        let view = View::plain(width);
        let mut agent = Agent { model, view, pass, learning, seen: Vec::new(), space, deviations, log_std: Vec::new() };
        agent.read_deviations()?;
        Ok(agent)
    }

    fn read_deviations(&mut self) -> Result<(), TrainError> {
        if let Some(place) = &self.deviations {
            self.log_std = self.model.part(place.clone())?;
        }
        Ok(())
    }

    /// Sets all parameters.
    pub(super) fn set(&mut self, values: &[f32]) -> Result<(), TrainError> {
        self.model.set_values(values)?;
        self.read_deviations()
    }

    /// One step of `stepper` along `gradients` of norm `norm`, clipped to `max_norm`.
    pub(super) fn step(
        &mut self,
        stepper: &mut Stepper,
        gradients: &mut FlatGradients,
        norm: f64,
        max_norm: f64,
    ) -> Result<(), TrainError> {
        self.model.step(stepper, gradients, norm, max_norm)?;
        self.read_deviations()
    }

    /// The likeliest action for `row` of what was looked at last.
    pub(super) fn best(&self, row: usize) -> A {
        let mut stored = vec![0.0; A::WIDTH];
        policy_of::<A>(&self.log_std).mode(self.outputs(row), &mut stored);
        self.action(&stored)
    }

    fn outputs(&self, row: usize) -> &[f32] {
        let width = A::outputs(&self.space);
        &self.pass.output(0)[row * width..(row + 1) * width]
    }
}

fn policy_of<A: Action>(log_std: &[f32]) -> Policy<'_, f32> {
    if A::CONTINUOUS { Policy::Gaussian { log_std } } else { Policy::Categorical }
}

impl<A: Action> Actor<A> for Agent<A> {
    fn look(&mut self, observations: &[f32], rows: usize) -> Result<(), TrainError> {
        self.seen.clear();
        self.seen.extend_from_slice(observations);
        self.view.apply(&mut self.seen);
        self.model.forward(&mut self.pass, &self.seen, rows, Levels::None, false)
    }

    fn choose(&mut self, row: usize, draw: &mut Draw, action: &mut [f32]) -> f32 {
        let (policy, outputs) = (policy_of::<A>(&self.log_std), self.outputs(row));
        policy.sample(outputs, action, &mut |kind| match kind {
            Kind::Uniform => uniform(draw),
            Kind::Normal => normal(draw),
        });
        policy.log_prob(outputs, action)
    }

    fn action(&self, stored: &[f32]) -> A {
        A::load(stored).within(&self.space)
    }

    fn value(&self, row: usize) -> f32 {
        self.pass.output(1)[row]
    }
}

/// Rows of a rollout that are learned from together, and room for their gradients.
#[derive(Debug, Default)]
pub(super) struct Batch {
    observations: Vec<f32>,
    actions: Vec<f32>,
    old_log_probs: Vec<f32>,
    old_values: Vec<f32>,
    advantages: Vec<f32>,
    returns: Vec<f32>,
    by_outputs: Vec<f32>,
    by_values: Vec<f32>,
    by_log_std: Vec<f32>,
    sums: Sums,
    rows: usize,
}

impl Batch {
    /// Begins a shard's rows.
    pub(super) fn begin(&mut self) {
        self.by_log_std.fill(0.0);
        (self.sums, self.rows) = (Sums::default(), 0);
    }

    /// Ends them: the gradient by the logarithms of deviations goes into `part`. Rows and sums, in the order of [`SUMS`].
    pub(super) fn end<A: Action>(
        &mut self,
        agent: &Agent<A>,
        layout: &Layout,
        part: &mut FlatGradients,
    ) -> Result<[f64; SUMS], TrainError> {
        if let (Some(place), true) = (&agent.deviations, self.rows > 0) {
            agent.model.add_slope(layout, place.clone(), &self.by_log_std, part)?;
        }
        let Sums { policy, value, entropy, kl, clipped } = self.sums;
        Ok([self.rows as f64, policy, value, entropy, kl, clipped])
    }

    /// Takes the rows `batch[here]` of `rollout`, seen as `seen`, whose normalised advantages are `standard[here]`.
    pub(super) fn fill(
        &mut self,
        rollout: &Rollout,
        seen: &[f32],
        returns: &[f32],
        batch: &[u32],
        standard: &[f32],
        here: Range<usize>,
    ) {
        let rows = rollout.rows();
        let (width, action) = (seen.len() / rows, rollout.actions.len() / rows);
        let lists = [
            (seen, width, &mut self.observations),
            (&rollout.actions[..], action, &mut self.actions),
            (&rollout.log_probs[..], 1, &mut self.old_log_probs),
            (&rollout.values[..], 1, &mut self.old_values),
            (returns, 1, &mut self.returns),
        ];
        for (from, width, to) in lists {
            to.clear();
            for row in &batch[here.clone()] {
                let row = *row as usize;
                to.extend_from_slice(&from[row * width..(row + 1) * width]);
            }
        }
        self.advantages.clear();
        self.advantages.extend_from_slice(&standard[here]);
    }

    /// The gradients of the rows' summed loss, into `part`, or with `add` added to what is there: in the order of rows, so
    /// that a shard in parts has the bits of the whole.
    pub(super) fn gradients<A: Action>(
        &mut self,
        agent: &mut Agent<A>,
        layout: &Layout,
        how: Clipping<f32>,
        add: bool,
        part: &mut FlatGradients,
    ) -> Result<(), TrainError> {
        let rows = self.advantages.len();
        let Agent { model, learning, log_std, .. } = agent;
        model.forward(learning, &self.observations, rows, Levels::None, true)?;
        let of = Rows {
            outputs: learning.output(0),
            values: learning.output(1),
            actions: &self.actions,
            old_log_probs: &self.old_log_probs,
            old_values: &self.old_values,
            advantages: &self.advantages,
            returns: &self.returns,
        };
        self.by_outputs.resize(of.outputs.len(), 0.0);
        self.by_values.resize(rows, 0.0);
        self.by_log_std.resize(log_std.len(), 0.0);
        let policy = policy_of::<A>(log_std);
        let (by_outputs, by_values) = (&mut self.by_outputs[..], &mut self.by_values[..]);
        clipped_loss(policy, of, how, by_outputs, by_values, &mut self.by_log_std, &mut self.sums);
        self.rows += rows;
        learning.output_and_gradient(0).1.copy_from_slice(by_outputs);
        learning.output_and_gradient(1).1.copy_from_slice(by_values);
        model.backward(layout, learning, part, add)
    }
}
