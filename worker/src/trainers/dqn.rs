//! Rainbow (Hessel et al. 2018) around the learner: act under noise, put what came into the replay memory, draw a batch by
//! priority, update, and give its rows new priorities. With the switches of `[dqn]` it is also plain DQN (Mnih et al.
//! 2015), IQN (Dabney et al. 2018), and either with the conservative penalty (Kumar et al. 2020).
//!
//! ```text
//! (1)  act       a = argmax_a Q(s, a; theta, e), e new in each block; without noisy weights a random action with
//!                probability epsilon, which falls over time
//! (2)  store     R = r_t + ... + gamma^(k-1) r_(t+k-1), D = gamma^k or 0 at the end of the task; priority: the largest so far
//! (3)  draw      one row from each of B strata of the mass p^alpha; without priorities uniformly
//! (4)  weigh     w = (N P)^-beta / the largest w of the whole batch; beta rises to 1 over time
//! (5)  learn     `learner`: target, loss, gradient over all ranks, step
//! (6)  prioritise  p = |error| + eps for each row of the batch, the error unweighted
//! (7)  every so many updates theta- <- theta
//! ```
//!
//! All ranks hold the same replay memory and priorities and draw the same indices; each computes the rows of its own
//! shards, and errors ride back with the gradients. So (4) is over the whole batch without a further message.

use super::TrainError;
use super::collect::{Collected, Collecting};
use super::learner::{Learner, LearnerSettings, Rows, Update};
use super::run::{Algorithm, Counters};
use super::schedule::{due, linear};
use crate::checkpoint::{self, CheckpointError, Loaded};
use crate::collectives::{Buffer, ReduceOp};
use crate::environments::Environment;
use crate::environments::market::MarketState;
use crate::metrics::Meter;
use crate::parallel::Shards;
use crate::replay::{Priorities, Ring, Transition};
use crate::seed::{Streams, uniform};
use crate::world::World;
use foxlaunch_shared::config::Config;
use foxlaunch_shared::ids::{Rank, WorldSize};
use serde::{Deserialize, Serialize};
use serde_json::json;

mod there;

/// The target network's weights in a checkpoint.
const TARGET: &str = "target.safetensors";

/// The agent in one fold.
pub struct Dqn<'a, E: Environment> {
    env: &'a E,
    config: &'a Config,
    fold: u32,
    streams: Streams,
    shards: Shards,
    place: (Rank, WorldSize),
    learner: Learner,
    memory: Memory<E::State>,
    /// What this rank alone measured since the last sync point; always empty with averaged gradients.
    local: Local,
}

/// Reads `bytes` as a run on market bars reads its `state.bin` when it goes on: for trying what damaged bytes do.
pub fn read_state(bytes: &[u8]) -> Result<(), CheckpointError> {
    checkpoint::decode::<Memory<MarketState>>(checkpoint::STATE, bytes).map(drop)
}

/// All that is the same on every rank and goes into `state.bin`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Memory<S> {
    updates: u64,
    steps: u64,
    optimizer_steps: u64,
    /// Updates at the last sync point.
    synced: u64,
    collected: Collected<S>,
    ring: Ring<Transition<S>>,
    /// None where rows are drawn uniformly.
    priorities: Option<Priorities>,
    meter: Meter,
}

#[derive(Clone, Debug, PartialEq)]
struct Local {
    /// Losses, rows, Q, |delta|, |g| and updates, summed.
    sums: [f64; 6],
    q_max: f64,
}

impl Local {
    const EMPTY: Local = Local { sums: [0.0; 6], q_max: f64::NEG_INFINITY };

    fn add(&mut self, update: &Update) {
        let one = [update.loss_sum(), update.rows, update.q_sum, update.td_sum, update.grad_norm, 1.0];
        self.sums.iter_mut().zip(one).for_each(|(sum, x)| *sum += x);
        self.q_max = self.q_max.max(update.q_max);
    }

    /// Puts it into `meter`, and is empty.
    fn measure(&mut self, meter: &mut Meter) {
        let Local { sums: [loss, rows, q, td, norm, updates], q_max } = std::mem::replace(self, Local::EMPTY);
        meter.mean("loss", loss, rows);
        meter.mean("q_mean", q, rows);
        meter.mean("td_abs", td, rows);
        meter.mean("grad_norm", norm, updates);
        meter.max("q_max", q_max);
    }
}

impl<'a, E: Environment<Action = usize>> Dqn<'a, E> {
    /// A fresh agent for `env` in fold `fold`, whose draws all come from `streams`.
    pub fn new(
        env: &'a E,
        config: &'a Config,
        fold: u32,
        streams: Streams,
        shards: Shards,
        world: &mut World,
    ) -> Result<Dqn<'a, E>, TrainError> {
        let settings = LearnerSettings::new(config, env.observation_len(), env.actions());
        let dqn = &config.dqn;
        let mut learner = Learner::new(settings, shards, dqn.batch_size, world.device(), &streams)?;
        learner.layout().agree(world.collective())?;
        if config.parallel.sync_every_n_steps == 1 {
            learner.keep_replay(there::settings(config, env.observation_len(), shards.count()))?;
        }
        let collected = Collected::new(env, config.environment.streams, dqn.n_step, dqn.gamma, &streams);
        let memory = Memory {
            updates: 0,
            steps: 0,
            optimizer_steps: 0,
            synced: 0,
            collected,
            ring: Ring::new(dqn.buffer_size),
            priorities: dqn.prioritized.then(|| Priorities::new(dqn.priority_alpha, dqn.priority_eps)),
            meter: Meter::default(),
        };
        let place = (world.rank(), world.world_size());
        Ok(Dqn { env, config, fold, streams, shards, place, learner, memory, local: Local::EMPTY })
    }

    /// The learner, for a look at its weights.
    pub fn learner(&self) -> &Learner {
        &self.learner
    }

    /// How much of the steps is done.
    fn progress(&self) -> f64 {
        self.memory.steps as f64 / self.config.train.steps as f64
    }

    /// Share of random actions: none where noise explores.
    fn epsilon(&self) -> f64 {
        let dqn = &self.config.dqn;
        if dqn.noisy {
            return 0.0;
        }
        linear(dqn.epsilon_start, dqn.epsilon_end, dqn.epsilon_fraction, self.progress())
    }

    /// (1) and (2).
    fn collect(&mut self, world: &mut World) -> Result<bool, TrainError> {
        let how = Collecting {
            steps: self.config.dqn.train_every / self.config.environment.streams,
            epsilon: self.epsilon(),
            reward_scale: self.config.environment.reward_scale,
        };
        self.learner.explore(Some(self.memory.steps))?;
        let learner = &mut self.learner;
        let mut values = |observations: &[f32], rows: usize| learner.values(observations, rows);
        let (env, shards, streams) = (self.env, &self.shards, &self.streams);
        let memory = &mut self.memory;
        let block = memory.collected.block(env, world, shards, how, streams, &mut values)?;
        memory.steps += self.config.dqn.train_every as u64;
        for transition in block.transitions {
            let index = memory.ring.push(transition);
            if let Some(replay) = self.learner.replay() {
                there::push(env, replay, index, memory.ring.get(index))?;
            } else if let Some(priorities) = &mut memory.priorities {
                priorities.insert(index);
            }
        }
        block.returns.iter().for_each(|r| memory.meter.mean("return", *r, 1.0));
        let taken = block.taken.iter().sum::<u64>() as f64;
        for (action, count) in block.taken.iter().enumerate() {
            memory.meter.mean(&format!("action_{action}"), *count as f64, taken);
        }
        Ok(block.stop)
    }

    /// (3) and (4): where the rows of the next batch stand, and their weights.
    fn draw(&self) -> (Vec<usize>, Vec<f64>) {
        let batch = self.config.dqn.batch_size;
        let mut draw = self.streams.draw("sample", self.memory.updates, 0);
        let Some(priorities) = &self.memory.priorities else {
            return (self.memory.ring.sample(batch, &mut draw), Vec::new());
        };
        let places: Vec<f64> = (0..batch).map(|_| uniform(&mut draw)).collect();
        let indices = priorities.draw(&places);
        let weights = priorities.weights(&indices, self.beta());
        (indices, weights)
    }

    /// How much of the weights of (4) counts.
    fn beta(&self) -> f64 {
        linear(self.config.dqn.priority_beta, 1.0, 1.0, self.progress())
    }

    /// (3) to (7).
    fn learn(&mut self, world: &mut World) -> Result<(), TrainError> {
        let (every, number) = (self.config.parallel.sync_every_n_steps, self.memory.updates);
        if self.learner.replay().is_some() {
            return self.learn_there(world);
        }
        let (indices, weights) = self.draw();
        let (env, ring) = (self.env, &self.memory.ring);
        let mut rows = |range: std::ops::Range<usize>| Rows {
            weights: weights.get(range.clone()).unwrap_or_default().to_vec(),
            ..gather(env, ring, &indices[range])
        };
        let mut update = if every == 1 {
            self.learner.update(world.collective(), number, &mut rows)?
        } else {
            self.learner.update_alone(number, &mut rows)?
        };
        self.memory.updates += 1;
        self.require_finite(&update, self.memory.updates, || self.batch(&indices, &weights))?;
        self.prioritise(world, &indices, &weights, &mut update, every > 1)?;
        self.local.add(&update);
        if every == 1 || self.memory.updates.is_multiple_of(every) || self.is_done() {
            self.synchronise(world, every > 1)?;
        }
        Ok(())
    }

    /// (6). Where ranks update apart, they tell each other their rows' errors first.
    fn prioritise(
        &mut self,
        world: &mut World,
        indices: &[usize],
        weights: &[f64],
        update: &mut Update,
        apart: bool,
    ) -> Result<(), TrainError> {
        let memory = &mut self.memory;
        let Some(priorities) = &mut memory.priorities else { return Ok(()) };
        if apart {
            world.collective().all_reduce(Buffer::F64(&mut update.priorities), ReduceOp::Sum)?;
        }
        for (index, error) in indices.iter().zip(&update.priorities) {
            priorities.update(*index, *error);
        }
        let errors = (update.priorities.iter().sum(), update.priorities.iter().copied().fold(0.0, f64::max));
        measure_draw(&mut memory.meter, indices.len(), errors, weights.iter().sum());
        Ok(())
    }

    /// A sync point: all ranks hold the same from here on. (7)
    fn synchronise(&mut self, world: &mut World, apart: bool) -> Result<(), TrainError> {
        let local = &mut self.local;
        if apart {
            self.learner.synchronise(world.collective())?;
            world.collective().all_reduce(Buffer::F64(&mut local.sums), ReduceOp::Sum)?;
            world.collective().all_reduce(Buffer::F64(std::slice::from_mut(&mut local.q_max)), ReduceOp::Max)?;
        }
        local.measure(&mut self.memory.meter);
        self.follow()
    }

    /// (7)
    fn follow(&mut self) -> Result<(), TrainError> {
        let (dqn, memory) = (&self.config.dqn, &mut self.memory);
        if due(dqn.target_every, memory.synced, memory.updates) {
            self.learner.update_target(dqn.target_tau)?;
        }
        memory.synced = memory.updates;
        Ok(())
    }

    /// Refuses an update, the `number`th, that is no finite one, with the `batch` that made it.
    fn require_finite(
        &self,
        update: &Update,
        number: u64,
        batch: impl FnOnce() -> Result<Batch, TrainError>,
    ) -> Result<(), TrainError> {
        let finite = update.losses.iter().all(|loss| loss.is_finite());
        if finite && update.grad_norm.is_finite() {
            return Ok(());
        }
        let (rank, world) = self.place;
        let bad = update.losses.iter().position(|loss| !loss.is_finite());
        let owner = |shard: usize| world.ranks().find(|r| self.shards.owned_by(*r).contains(&shard));
        let (what, value) = match bad {
            Some(shard) => ("the loss", update.losses[shard]),
            None => ("the norm of the gradient", update.grad_norm),
        };
        let Batch { indices, weights, of } = batch()?;
        let places = bad.map_or(0..indices.len(), |shard| self.shards.rows(shard, indices.len()));
        let width = self.env.observation_len();
        let values = places.start * width..places.end * width;
        let indices = &indices[places.clone()];
        let batch = json!({
            "fold": self.fold,
            "update": number,
            "indices": indices,
            "weights": weights.get(places.clone()).unwrap_or_default(),
            "actions": of.actions[places.clone()],
            "rewards": of.rewards[places.clone()],
            "discounts": of.discounts[places],
            "observations": of.observations[values.clone()],
            "next_observations": of.next_observations[values],
        });
        Err(TrainError::NotFinite {
            rank: bad.and_then(owner).unwrap_or(rank),
            seen_by: rank,
            fold: self.fold,
            update: number,
            what,
            value,
            indices: indices.to_vec(),
            batch: Box::new(batch),
            saved: None,
        })
    }

    fn batch(&self, indices: &[usize], weights: &[f64]) -> Result<Batch, TrainError> {
        let of = gather(self.env, &self.memory.ring, indices);
        Ok(Batch { indices: indices.to_vec(), weights: weights.to_vec(), of })
    }

    fn is_done(&self) -> bool {
        self.memory.steps >= self.config.train.steps
    }
}

/// The rows that an update was made of.
struct Batch {
    indices: Vec<usize>,
    /// Empty where all are 1.
    weights: Vec<f64>,
    of: Rows,
}

/// What a batch drawn by priority was: the errors of its rows summed and the largest, and their weights summed.
fn measure_draw(meter: &mut Meter, rows: usize, errors: (f64, f64), weights: f64) {
    meter.mean("priority", errors.0, rows as f64);
    meter.mean("weight", weights, rows as f64);
    meter.max("priority_max", errors.1);
}

/// The rows of the transitions at `indices`.
fn gather<E: Environment>(env: &E, ring: &Ring<Transition<E::State>>, indices: &[usize]) -> Rows {
    let width = env.observation_len();
    let mut rows = Rows {
        observations: vec![0.0; indices.len() * width],
        next_observations: vec![0.0; indices.len() * width],
        ..Rows::default()
    };
    let seen = rows.observations.chunks_exact_mut(width).zip(rows.next_observations.chunks_exact_mut(width));
    for (index, (now, next)) in indices.iter().zip(seen) {
        let t = ring.get(*index);
        env.observe(&t.state, now);
        env.observe(&t.next, next);
        rows.actions.push(t.action);
        rows.rewards.push(t.reward);
        rows.discounts.push(t.discount);
    }
    rows
}

impl<E: Environment<Action = usize>> Algorithm for Dqn<'_, E> {
    type Action = usize;

    fn iterate(&mut self, world: &mut World) -> Result<bool, TrainError> {
        let stop = self.collect(world)?;
        if self.memory.ring.len() >= self.config.dqn.learning_starts.max(1) {
            self.learn(world)?;
        }
        Ok(stop)
    }

    fn counters(&self) -> Counters {
        let memory = &self.memory;
        Counters {
            updates: memory.updates,
            steps: memory.steps,
            synced: memory.synced == memory.updates,
            done: self.is_done(),
        }
    }

    fn shown(&self) -> Vec<(String, f64)> {
        let mean = |name: &str| self.memory.meter.mean_of(name).map(|value| (name.to_owned(), value));
        [mean("loss"), mean("return"), Some(("epsilon".to_owned(), self.epsilon()))].into_iter().flatten().collect()
    }

    fn measured(&mut self) -> Vec<(String, f64)> {
        let epsilon = self.epsilon();
        let mut values = self.memory.meter.take();
        values.push(("epsilon".to_owned(), epsilon));
        values
    }

    fn act(&mut self, observations: &[f32], rows: usize) -> Result<Vec<usize>, TrainError> {
        self.learner.explore(None)?;
        self.learner.greedy(observations, rows)
    }

    fn weights(&self) -> Result<Vec<u8>, TrainError> {
        self.learner.online().bytes(self.learner.layout())
    }

    fn set_weights(&mut self, bytes: &[u8]) -> Result<(), TrainError> {
        let layout = self.learner.layout().clone();
        self.learner.online_mut().load(bytes, &layout)
    }

    fn save(&mut self) -> Result<Vec<(String, Vec<u8>)>, TrainError> {
        self.fetch_there()?;
        self.memory.optimizer_steps = self.learner.optimizer().steps();
        let moments = self.learner.optimizer().moments()?;
        Ok(vec![
            (checkpoint::OPTIMIZER.to_owned(), checkpoint::moments_bytes(&moments)?),
            (TARGET.to_owned(), self.learner.target().bytes(self.learner.layout())?),
            (checkpoint::STATE.to_owned(), checkpoint::encode(checkpoint::STATE, &self.memory)?),
        ])
    }

    fn restore(&mut self, loaded: &Loaded) -> Result<(), TrainError> {
        let memory: Memory<E::State> = checkpoint::decode(checkpoint::STATE, loaded.file(checkpoint::STATE)?)?;
        if memory.collected.len() != self.memory.collected.len() {
            let (there, here) = (memory.collected.len(), self.memory.collected.len());
            return Err(TrainError::Settings(format!("the checkpoint has {there} streams, the settings {here}")));
        }
        let (weighed, rows) = (memory.priorities.as_ref().map(Priorities::len), memory.ring.len());
        if weighed != self.memory.priorities.as_ref().map(|_| rows) {
            let reason = format!("{rows} transitions, {} priorities", weighed.unwrap_or(0));
            return Err(CheckpointError::form(checkpoint::STATE, reason).into());
        }
        let layout = self.learner.layout().clone();
        self.learner.target_mut().load(loaded.file(TARGET)?, &layout)?;
        let moments = checkpoint::moments(loaded.file(checkpoint::OPTIMIZER)?, layout.total())?;
        self.learner.set_optimizer(moments, memory.optimizer_steps)?;
        self.memory = memory;
        self.fill_there()
    }
}
