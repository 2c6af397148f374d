//! (3) to (6) where the replay memory is on the device: updates are enqueued, and what they said is read once for many.
//! The ring of states stays on the host, for checkpoints; priorities live on the device alone.

use super::{Batch, Dqn, measure_draw};
use crate::environments::Environment;
use crate::kernels::replay::ReplaySettings;
use crate::replay::Transition;
use crate::trainers::TrainError;
use crate::trainers::device_replay::DeviceReplay;
use crate::trainers::learner::{ReplayRow, Rows};
use crate::world::World;
use foxlaunch_shared::config::Config;

/// The memory for `config` and observations of `width` values.
pub(super) fn settings(config: &Config, width: usize, shards: usize) -> ReplaySettings {
    let dqn = &config.dqn;
    ReplaySettings {
        capacity: dqn.buffer_size.max(1),
        width,
        batch: dqn.batch_size,
        shards,
        priorities: dqn.prioritized.then_some((dqn.priority_alpha, dqn.priority_eps)),
        records: config.train.read_every as usize,
    }
}

/// Puts the transition at `index` of the ring into `replay`.
pub(super) fn push<E: Environment>(
    env: &E,
    replay: &mut DeviceReplay,
    index: usize,
    transition: &Transition<E::State>,
) -> Result<(), TrainError> {
    let (now, next) = seen(env, transition);
    replay.push(index, &row(transition, &now, &next))
}

fn seen<E: Environment>(env: &E, transition: &Transition<E::State>) -> (Vec<f32>, Vec<f32>) {
    let (mut now, mut next) = (vec![0.0; env.observation_len()], vec![0.0; env.observation_len()]);
    env.observe(&transition.state, &mut now);
    env.observe(&transition.next, &mut next);
    (now, next)
}

fn row<'a, S>(transition: &Transition<S>, now: &'a [f32], next: &'a [f32]) -> ReplayRow<'a> {
    let Transition { action, reward, discount, .. } = *transition;
    ReplayRow { now, action, reward, discount, next }
}

impl<E: Environment<Action = usize>> Dqn<'_, E> {
    /// One update, enqueued; every so many of them what they said.
    pub(super) fn learn_there(&mut self, world: &mut World) -> Result<(), TrainError> {
        let (number, length, beta) = (self.memory.updates, self.memory.ring.len(), self.beta());
        self.learner.update_from_replay(world.collective(), number, length, beta)?;
        self.memory.updates += 1;
        self.follow()?;
        let train = &self.config.train;
        let is_logged = self.memory.updates.is_multiple_of(train.log_every) || self.is_done();
        let unread = self.learner.replay().map_or(0, |replay| replay.unread(self.memory.updates));
        if is_logged || unread >= train.read_every { self.read_there() } else { Ok(()) }
    }

    /// Reads what the last updates said, as if each had said it by itself.
    fn read_there(&mut self) -> Result<(), TrainError> {
        let next = self.memory.updates;
        let Some(replay) = self.learner.replay() else { return Ok(()) };
        for (number, record) in replay.read(next)? {
            let mut update = self.learner.summary(&record.extras, 0..self.shards.count());
            update.grad_norm = record.norm;
            if !(update.losses.iter().all(|loss| loss.is_finite()) && record.norm.is_finite()) {
                // the device has done nothing since, so that the batch is still there
                let batch = self.batch_there()?;
                self.require_finite(&update, number + 1, || Ok(batch))?;
            }
            if self.config.dqn.prioritized {
                let rows = self.config.dqn.batch_size;
                measure_draw(&mut self.memory.meter, rows, record.errors, record.weights);
            }
            self.local.add(&update);
            self.local.measure(&mut self.memory.meter);
        }
        Ok(())
    }

    /// The batch last drawn.
    fn batch_there(&mut self) -> Result<Batch, TrainError> {
        let is_weighed = self.config.dqn.prioritized;
        let Some(replay) = self.learner.replay() else {
            return Err(TrainError::Unsupported("there is no replay memory on a device".into()));
        };
        let (indices, weights) = replay.drawn()?;
        let mut of = Rows::default();
        for index in &indices {
            let [now, next, meta] = replay.row(*index as usize)?;
            of.observations.extend(now);
            of.next_observations.extend(next);
            of.rewards.push(f64::from(meta[0]));
            of.discounts.push(f64::from(meta[1]));
            of.actions.push(meta[2] as u32);
        }
        let weights = if is_weighed { weights } else { Vec::new() };
        Ok(Batch { indices: indices.into_iter().map(|index| index as usize).collect(), weights, of })
    }

    /// Before a checkpoint: what was said so far, and the priorities.
    pub(super) fn fetch_there(&mut self) -> Result<(), TrainError> {
        self.read_there()?;
        let rows = self.memory.ring.len();
        if let Some(replay) = self.learner.replay()
            && let Some(priorities) = replay.priorities(rows)?
        {
            self.memory.priorities = Some(priorities);
        }
        Ok(())
    }

    /// After a checkpoint was read: the memory as it was.
    pub(super) fn fill_there(&mut self) -> Result<(), TrainError> {
        let (env, memory) = (self.env, &self.memory);
        let Some(replay) = self.learner.replay() else { return Ok(()) };
        let all: Vec<_> = (0..memory.ring.len()).map(|index| seen(env, memory.ring.get(index))).collect();
        let mut rows = all.iter().enumerate().map(|(index, (now, next))| row(memory.ring.get(index), now, next));
        replay.fill(&mut rows, memory.priorities.as_ref(), memory.updates)
    }
}
