//! Proximal policy optimisation (Schulman et al. 2017), in data parallel. A round, until the steps are done:
//!
//! ```text
//! (1)  every stream takes T steps by pi and V as they are: s, a, log pi_old(a), V_old, r
//! (2)  A, R by generalised advantage estimation           kernels::advantage
//! (3)  epochs times: shuffle all T x streams rows; for each batch B of them, over all ranks
//! (4)     A_B <- (A - mean_B A) / (std_B A + 1e-8)
//! (5)     dL/dtheta, L = L_pi + c_V L_V - c_H H           kernels::policy
//! (6)     g = (sum over shards of dL/dtheta) / |B|;  the round ends if mean_B KL > its target
//! (7)     theta <- AdamW(theta, g min(1, c / |g|))
//! ```
//!
//! All ranks know all rows and shuffle them alike; each computes (5) for the rows of its own shards. Moments of (4) are those
//! of the whole batch, and KL, like the losses, rides in the sum of (6): so all ranks take the same branch.

use super::TrainError;
use super::agent::{Agent, Batch, SUMS};
use super::model::Model;
use super::normalizer::{Observations, Rewards};
use super::rollout::{Actor, Rollout, Rollouts};
use super::run::{Algorithm, Counters};
use super::schedule::linear;
use super::stepper::Stepper;
use crate::checkpoint::{self, Loaded};
use crate::environments::{Action, Environment};
use crate::kernels::advantage::{Steps, gae};
use crate::kernels::linear::Activation;
use crate::kernels::moments::{Spread, standardize};
use crate::kernels::policy::Clipping;
use crate::metrics::Meter;
use crate::networks::ActorCriticSettings;
use crate::networks::actor_critic::LOG_STD;
use crate::optimizer::AdamWSettings;
use crate::parallel::{FlatGradients, Layout, Shards, sum_shards};
use crate::seed::{Streams, below};
use crate::world::World;
use candle_core::DType;
use foxlaunch_shared::config::{ActivationConfig, Config};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Names of the view of observations in the file of weights.
const VIEW: [&str; 2] = ["normalizer.mean", "normalizer.scale"];

/// PPO in one fold.
pub struct Ppo<'a, E: Environment> {
    env: &'a E,
    config: &'a Config,
    fold: u32,
    draws: Streams,
    shards: Shards,
    agent: Agent<E::Action>,
    layout: Layout,
    /// With the view of observations.
    saved: Layout,
    optimizer: Stepper,
    parts: Vec<FlatGradients>,
    sum: FlatGradients,
    rollout: Rollout,
    batch: Batch,
    memory: Memory<E::State>,
}

/// All that is the same on every rank and goes into `state.bin`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Memory<S> {
    updates: u64,
    epochs: u64,
    steps: u64,
    optimizer_steps: u64,
    rollouts: Rollouts<S>,
    observations: Observations,
    rewards: Rewards,
    meter: Meter,
}

/// What one update was, as means over its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Update {
    rows: f64,
    policy: f64,
    value: f64,
    entropy: f64,
    kl: f64,
    clipped: f64,
    /// |g| before the clip; none if KL was above its target and so no step taken.
    grad_norm: Option<f64>,
}

impl<'a, E: Environment> Ppo<'a, E> {
    /// A fresh agent for `env` in fold `fold`, whose draws all come from `draws`.
    pub fn new(
        env: &'a E,
        config: &'a Config,
        fold: u32,
        draws: Streams,
        shards: Shards,
        world: &mut World,
    ) -> Result<Ppo<'a, E>, TrainError> {
        let (ppo, width, streams) = (&config.ppo, env.observation_len(), config.environment.streams);
        let outputs = E::Action::outputs(&env.actions());
        let network = Arc::new(settings(config, width, outputs, E::Action::CONTINUOUS).network());
        let deviations = network.parameter(LOG_STD).map(|p| p.place.clone());
        let layout = Model::<f32>::layout(&network);
        layout.agree(world.collective())?;
        let view = ppo.normalize_observation.then(|| VIEW.map(|name| (name.to_owned(), vec![width], DType::F32)));
        let named = layout.entries().iter().map(|e| (e.name.clone(), e.shape.clone(), e.dtype));
        let saved = Layout::from_named(named.chain(view.into_iter().flatten()));
        let device = world.device();
        let buffer = || FlatGradients::zeros(&layout, SUMS + shards.count(), DType::F32, device);
        let adam = AdamWSettings { eps: ppo.eps, ..AdamWSettings::new(ppo.learning_rate, &config.optimizer) };
        Ok(Ppo {
            agent: Agent::new(Model::new(network, device, &draws)?, deviations, env.actions(), width)?,
            parts: shards.owned().map(|_| buffer()).collect::<Result<_, _>>()?,
            sum: buffer()?,
            optimizer: Stepper::new(layout.total(), DType::F32, adam, device)?,
            rollout: Rollout::default(),
            batch: Batch::default(),
            memory: Memory {
                updates: 0,
                epochs: 0,
                steps: 0,
                optimizer_steps: 0,
                rollouts: Rollouts::new(env, streams, &draws),
                observations: Observations::new(width),
                rewards: Rewards::new(streams, ppo.gamma),
                meter: Meter::default(),
            },
            env,
            config,
            fold,
            draws,
            shards,
            layout,
            saved,
        })
    }

    /// Share of the steps that are done.
    fn progress(&self) -> f64 {
        (self.memory.steps as f64 / self.config.train.steps as f64).min(1.0)
    }

    fn learning_rate(&self) -> f64 {
        let ppo = &self.config.ppo;
        linear(ppo.learning_rate, ppo.learning_rate_end, 1.0, self.progress())
    }

    /// (1)
    fn collect(&mut self, world: &mut World) -> Result<(), TrainError> {
        let (steps, draws) = (self.config.ppo.rollout_steps, &self.draws);
        let rollouts = &mut self.memory.rollouts;
        rollouts.collect(self.env, world, &self.shards, &mut self.agent, steps, draws, &mut self.rollout)?;
        self.memory.steps += self.rollout.rows() as u64;
        for episode in &self.rollout.episodes {
            self.memory.meter.mean("return", episode.returned, 1.0);
            self.memory.meter.mean("episode_length", episode.length as f64, 1.0);
        }
        self.measure_actions();
        Ok(())
    }

    /// How often each action was taken; of numbers, each one's mean.
    fn measure_actions(&mut self) {
        let (rows, actions) = (self.rollout.rows() as f64, &self.rollout.actions);
        let sums: Vec<f64> = if E::Action::CONTINUOUS {
            let width = E::Action::WIDTH;
            (0..width).map(|i| actions.iter().skip(i).step_by(width).map(|a| f64::from(*a)).sum()).collect()
        } else {
            let mut counts = vec![0.0; E::Action::outputs(&self.env.actions())];
            actions.iter().for_each(|action| counts[*action as usize] += 1.0);
            counts
        };
        for (i, sum) in sums.into_iter().enumerate() {
            self.memory.meter.mean(&format!("action_{i}"), sum, rows);
        }
    }

    /// (2), for all rows: advantages and returns in 32 bits, from sums in 64.
    fn judge(&mut self) -> (Vec<f32>, Vec<f32>) {
        let (ppo, rollout) = (&self.config.ppo, &self.rollout);
        let mut rewards: Vec<f64> = rollout.rewards.iter().map(|r| r * self.config.environment.reward_scale).collect();
        if ppo.normalize_reward {
            self.memory.rewards.normalize(&mut rewards, |i| rollout.terminated[i] || rollout.truncated[i]);
        }
        let wide = |list: &[f32]| -> Vec<f64> { list.iter().map(|x| f64::from(*x)).collect() };
        let (values, next_values) = (wide(&rollout.values), wide(&rollout.next_values));
        let steps = Steps {
            streams: rollout.streams,
            rewards: &rewards,
            values: &values,
            next_values: &next_values,
            terminated: &rollout.terminated,
            truncated: &rollout.truncated,
        };
        let (mut advantages, mut returns) = (vec![0.0; rollout.rows()], vec![0.0; rollout.rows()]);
        gae(steps, ppo.gamma, ppo.lambda, &mut advantages, &mut returns);
        // how much of the returns the values foresaw
        let all = Spread::of(returns.iter().copied()).variance();
        if all > 0.0 {
            let left = Spread::of(advantages.iter().copied()).variance();
            self.memory.meter.mean("explained_variance", 1.0 - left / all, 1.0);
        }
        let narrow = |list: Vec<f64>| list.into_iter().map(|x| x as f32).collect();
        (narrow(advantages), narrow(returns))
    }

    /// (3)
    fn learn(&mut self, world: &mut World) -> Result<(), TrainError> {
        let (advantages, returns) = self.judge();
        let mut seen = std::mem::take(&mut self.rollout.observations);
        if self.config.ppo.normalize_observation {
            // the policy saw them through the moments of before this round
            self.memory.observations.add(&seen);
            self.agent.view.apply(&mut seen);
        }
        let rows = self.rollout.rows();
        let mut order: Vec<u32> = (0..rows as u32).collect();
        let mut all = Update::default();
        let (mut steps, mut norms) = (0.0, 0.0);
        'round: for _ in 0..self.config.ppo.epochs {
            let mut draw = self.draws.draw("shuffle", self.memory.epochs, 0);
            self.memory.epochs += 1;
            (1..rows).rev().for_each(|i| order.swap(i, below(&mut draw, i + 1)));
            for batch in order.chunks(self.config.ppo.batch_size) {
                let update = self.update(world, batch, &seen, &advantages, &returns)?;
                all.add(&update);
                let Some(norm) = update.grad_norm else { break 'round };
                (steps, norms) = (steps + 1.0, norms + norm);
            }
        }
        self.rollout.observations = seen;
        if self.config.ppo.normalize_observation {
            self.agent.view = self.memory.observations.view();
        }
        let ppo = &self.config.ppo;
        let loss = all.policy + ppo.value_coefficient * all.value - ppo.entropy_coefficient * all.entropy;
        let meter = &mut self.memory.meter;
        for (name, sum) in [
            ("loss", loss),
            ("policy_loss", all.policy),
            ("value_loss", all.value),
            ("entropy", all.entropy),
            ("kl", all.kl),
            ("clip_fraction", all.clipped),
        ] {
            meter.mean(name, sum, all.rows);
        }
        meter.mean("grad_norm", norms, steps);
        Ok(())
    }

    /// (4) to (7) for the rows `batch`.
    fn update(
        &mut self,
        world: &mut World,
        batch: &[u32],
        seen: &[f32],
        advantages: &[f32],
        returns: &[f32],
    ) -> Result<Update, TrainError> {
        let ppo = &self.config.ppo;
        let mut standard: Vec<f32> = batch.iter().map(|i| advantages[*i as usize]).collect();
        if ppo.normalize_advantage && standard.len() > 1 {
            let spread = Spread::of(standard.iter().copied());
            standardize(&mut standard, spread, 1e-8); // (4)
        }
        let how = Clipping {
            clip: linear(ppo.clip, ppo.clip_end, 1.0, self.progress()) as f32,
            value_clip: (ppo.value_clip > 0.0).then_some(ppo.value_clip as f32),
            value_coefficient: ppo.value_coefficient as f32,
            entropy_coefficient: ppo.entropy_coefficient as f32,
        };
        for (slot, shard) in self.shards.owned().enumerate() {
            let rows = self.shards.rows(shard, batch.len());
            let part = &mut self.parts[slot];
            part.clear()?;
            let micro = if ppo.micro_batch_rows == 0 { rows.len() } else { ppo.micro_batch_rows };
            self.batch.begin();
            for start in rows.clone().step_by(micro.max(1)) {
                let here = start..(start + micro).min(rows.end);
                self.batch.fill(&self.rollout, seen, returns, batch, &standard, here);
                self.batch.gradients(&mut self.agent, &self.layout, how, start > rows.start, part)?; // (5)
            }
            let sums = self.batch.end(&self.agent, &self.layout, part)?;
            let mut extras = vec![0.0; SUMS + self.shards.count()];
            extras[..SUMS].copy_from_slice(&sums);
            let [_, policy, value, entropy, ..] = sums;
            extras[SUMS + shard] = policy + ppo.value_coefficient * value - ppo.entropy_coefficient * entropy;
            part.set_extras(&extras)?;
        }
        sum_shards(world.collective(), &self.shards, &self.parts, &mut self.sum)?;
        let extras = self.sum.extras()?;
        let rows = extras[0];
        self.sum.scale(1.0 / rows)?; // (6)
        let [rows, policy, value, entropy, kl, clipped]: [f64; SUMS] =
            extras[..SUMS].try_into().expect("as many as were sent");
        let mut update = Update { rows, policy, value, entropy, kl, clipped, grad_norm: None };
        if ppo.target_kl > 0.0 && kl / rows > ppo.target_kl {
            return Ok(update);
        }
        let norm = self.optimizer.norm(&self.sum, ppo.max_grad_norm)?;
        self.require_finite(&extras[SUMS..], norm, world, batch, (seen, advantages, returns))?;
        self.optimizer.set_learning_rate(self.learning_rate());
        self.agent.step(&mut self.optimizer, &mut self.sum, norm, ppo.max_grad_norm)?; // (7)
        self.memory.updates += 1;
        update.grad_norm = Some(norm);
        Ok(update)
    }

    fn require_finite(
        &self,
        losses: &[f64],
        norm: f64,
        world: &World,
        batch: &[u32],
        (seen, advantages, returns): (&[f32], &[f32], &[f32]),
    ) -> Result<(), TrainError> {
        let bad = losses.iter().position(|loss| !loss.is_finite());
        if bad.is_none() && norm.is_finite() {
            return Ok(());
        }
        let owner = |shard: usize| world.world_size().ranks().find(|r| self.shards.owned_by(*r).contains(&shard));
        let (what, value) = match bad {
            Some(shard) => ("the loss", losses[shard]),
            None => ("the norm of the gradient", norm),
        };
        let rows = bad.map_or(0..batch.len(), |shard| self.shards.rows(shard, batch.len()));
        Err(TrainError::NotFinite {
            rank: bad.and_then(owner).unwrap_or(world.rank()),
            seen_by: world.rank(),
            fold: self.fold,
            update: self.memory.updates + 1,
            what,
            value,
            batch: Box::new(self.told(seen, advantages, returns, &batch[rows.clone()])),
            indices: batch[rows].iter().map(|i| *i as usize).collect(),
            saved: None,
        })
    }

    /// Rows of the round, as JSON, for a person to look at.
    fn told(&self, seen: &[f32], advantages: &[f32], returns: &[f32], rows: &[u32]) -> serde_json::Value {
        let rollout = &self.rollout;
        let (width, action) = (seen.len() / rollout.rows(), rollout.actions.len() / rollout.rows());
        let row = |i: &u32| {
            let i = *i as usize;
            serde_json::json!({
                "observation": &seen[i * width..(i + 1) * width],
                "action": &rollout.actions[i * action..(i + 1) * action],
                "log_prob": rollout.log_probs[i],
                "value": rollout.values[i],
                "reward": rollout.rewards[i],
                "advantage": advantages[i],
                "return": returns[i],
            })
        };
        rows.iter().map(row).collect()
    }
}

impl Update {
    fn add(&mut self, other: &Update) {
        self.rows += other.rows;
        self.policy += other.policy;
        self.value += other.value;
        self.entropy += other.entropy;
        self.kl += other.kl;
        self.clipped += other.clipped;
    }
}

/// What the network of `config` is made of, for observations of `observation` values and `outputs` logits, or means if
/// `continuous`.
pub fn settings(config: &Config, observation: usize, outputs: usize, continuous: bool) -> ActorCriticSettings {
    let (policy_hidden, value_hidden) = config.network.actor_critic_widths(&config.ppo);
    ActorCriticSettings {
        observation,
        outputs,
        log_std: continuous.then_some(config.ppo.log_std),
        policy_hidden,
        value_hidden,
        activation: match config.ppo.activation {
            ActivationConfig::Tanh => Activation::Tanh,
            ActivationConfig::Relu => Activation::Relu,
        },
    }
}

impl<E: Environment> Algorithm for Ppo<'_, E> {
    type Action = E::Action;

    fn iterate(&mut self, world: &mut World) -> Result<bool, TrainError> {
        self.collect(world)?;
        self.learn(world)?;
        Ok(self.rollout.stop)
    }

    fn counters(&self) -> Counters {
        let (memory, all) = (&self.memory, self.config.train.steps);
        Counters { updates: memory.updates, steps: memory.steps, synced: true, done: memory.steps >= all }
    }

    fn shown(&self) -> Vec<(String, f64)> {
        let mean = |name: &str| self.memory.meter.mean_of(name).map(|value| (name.to_owned(), value));
        ["loss", "return", "entropy", "kl"].into_iter().filter_map(mean).collect()
    }

    fn measured(&mut self) -> Vec<(String, f64)> {
        let rate = self.learning_rate();
        let mut values = self.memory.meter.take();
        values.push(("learning_rate".to_owned(), rate));
        values
    }

    fn act(&mut self, observations: &[f32], rows: usize) -> Result<Vec<E::Action>, TrainError> {
        self.agent.look(observations, rows)?;
        Ok((0..rows).map(|row| self.agent.best(row)).collect())
    }

    fn weights(&self) -> Result<Vec<u8>, TrainError> {
        let values = self.agent.model.values()?;
        let mut flat = Vec::with_capacity(self.saved.total());
        for entry in self.saved.entries() {
            match self.layout.entry(&entry.name) {
                Some(own) => flat.extend_from_slice(&values[own.offset..own.offset + own.len]),
                None if entry.name == VIEW[0] => flat.extend_from_slice(&self.agent.view.mean),
                None => flat.extend_from_slice(&self.agent.view.scale),
            }
        }
        Ok(checkpoint::flat_bytes(&self.saved, &flat)?)
    }

    fn set_weights(&mut self, bytes: &[u8]) -> Result<(), TrainError> {
        let mut flat = vec![0f32; self.saved.total()];
        checkpoint::load_flat(bytes, &self.saved, &mut flat)?;
        let mut values = vec![0f32; self.layout.total()];
        for entry in self.saved.entries() {
            let there = &flat[entry.offset..entry.offset + entry.len];
            match self.layout.entry(&entry.name) {
                Some(own) => values[own.offset..own.offset + own.len].copy_from_slice(there),
                None if entry.name == VIEW[0] => self.agent.view.mean.copy_from_slice(there),
                None => self.agent.view.scale.copy_from_slice(there),
            }
        }
        self.agent.set(&values)
    }

    fn save(&mut self) -> Result<Vec<(String, Vec<u8>)>, TrainError> {
        self.memory.optimizer_steps = self.optimizer.steps();
        Ok(vec![
            (checkpoint::OPTIMIZER.to_owned(), checkpoint::moments_bytes(&*self.optimizer.moments()?)?),
            (checkpoint::STATE.to_owned(), checkpoint::encode(checkpoint::STATE, &self.memory)?),
        ])
    }

    fn restore(&mut self, loaded: &Loaded) -> Result<(), TrainError> {
        let memory: Memory<E::State> = checkpoint::decode(checkpoint::STATE, loaded.file(checkpoint::STATE)?)?;
        if memory.rollouts.len() != self.memory.rollouts.len() {
            let (there, here) = (memory.rollouts.len(), self.memory.rollouts.len());
            return Err(TrainError::Settings(format!("the checkpoint has {there} streams, the settings {here}")));
        }
        let moments = checkpoint::moments(loaded.file(checkpoint::OPTIMIZER)?, self.layout.total())?;
        self.optimizer.restore(moments, memory.optimizer_steps)?;
        self.memory = memory;
        Ok(())
    }
}
