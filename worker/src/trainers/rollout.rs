//! Rollouts: streams of an environment stepped side by side by a policy, every rank its own streams, all ranks knowing all
//! of it afterwards.
//!
//! Each step, the observations of a shard's streams go through the network in one batch. Draws are keyed by stream and step,
//! so nothing depends on which rank owns a stream.

use super::TrainError;
use super::exchange::Exchange;
use crate::checkpoint::{decode, encode};
use crate::environments::{Action, Environment, Step};
use crate::parallel::Shards;
use crate::seed::{Draw, Streams};
use crate::world::World;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One environment on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stream<S> {
    state: S,
    /// Steps since the beginning, over all episodes: numbers this stream's draws.
    steps: u64,
    /// Episodes begun.
    episodes: u64,
    /// Sum of the rewards of this episode.
    returned: f64,
    /// Steps of this episode.
    length: u64,
}

/// An episode that ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Sum of its rewards.
    pub returned: f64,
    /// Its steps.
    pub length: u64,
}

/// All streams, and room for what they did last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rollouts<S> {
    streams: Vec<Stream<S>>,
    #[serde(skip)]
    exchange: Exchange,
}

/// What all streams did in a number of steps. Lists are row-major `[steps][streams]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// Steps of each stream.
    pub steps: usize,
    /// How many streams.
    pub streams: usize,
    /// What was seen, as the environment shows it.
    pub observations: Vec<f32>,
    /// What was done, as actions are stored.
    pub actions: Vec<f32>,
    /// log pi(a).
    pub log_probs: Vec<f32>,
    /// V(s).
    pub values: Vec<f32>,
    /// V(s') of the true successor; 0 where the task ended.
    pub next_values: Vec<f32>,
    /// r.
    pub rewards: Vec<f64>,
    /// Whether the task ended.
    pub terminated: Vec<bool>,
    /// Whether the episode was cut.
    pub truncated: Vec<bool>,
    /// Episodes that ended, in the order of the streams.
    pub episodes: Vec<Episode>,
    /// Whether any rank was asked to stop.
    pub stop: bool,
}

/// What a rank's streams did, as ranks tell each other: lists `[steps][streams of this rank]`, one behind the other.
#[derive(Serialize, Deserialize)]
struct Part<S> {
    streams: Vec<Stream<S>>,
    floats: Vec<f32>,
    rewards: Vec<f64>,
    /// Bit 0 terminated, bit 1 truncated.
    ends: Vec<u8>,
    episodes: Vec<Vec<Episode>>,
}

/// Chooses actions and judges states.
pub trait Actor<A: Action> {
    /// For each of `rows` row-major observations, as the environment shows them, what the network says: kept until the
    /// next call.
    fn look(&mut self, observations: &[f32], rows: usize) -> Result<(), TrainError>;

    /// The action for `row`, drawn from `draw` and written as it is stored, and log pi of it.
    fn choose(&mut self, row: usize, draw: &mut Draw, action: &mut [f32]) -> f32;

    /// The action that the environment is given for a stored one.
    fn action(&self, stored: &[f32]) -> A;

    /// V of `row`.
    fn value(&self, row: usize) -> f32;
}

impl<S: Clone + Serialize + serde::de::DeserializeOwned> Rollouts<S> {
    /// `count` fresh streams of `env`.
    pub fn new<E: Environment<State = S>>(env: &E, count: usize, streams: &Streams) -> Rollouts<S> {
        let fresh = |i: usize| {
            let state = env.reset(&mut streams.draw("reset", i as u64, 0));
            Stream { state, steps: 0, episodes: 1, returned: 0.0, length: 0 }
        };
        Rollouts { streams: (0..count).map(fresh).collect(), exchange: Exchange::default() }
    }

    /// How many streams there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Steps every stream `steps` times, the owned ones here, and fills `into` with what all did.
    #[expect(clippy::too_many_arguments, reason = "where, with whom, who acts, how long, from which draws, into what")]
    pub fn collect<E: Environment<State = S>>(
        &mut self,
        env: &E,
        world: &mut World,
        shards: &Shards,
        actor: &mut impl Actor<E::Action>,
        steps: usize,
        draws: &Streams,
        into: &mut Rollout,
    ) -> Result<(), TrainError> {
        let stop = world.stop_requested().is_some();
        let own = shards.owned_rows(self.streams.len());
        let ranges: Vec<Range<usize>> = shards.owned().map(|shard| shards.rows(shard, self.streams.len())).collect();
        if world.world_size().index() == 1 {
            into.fit::<E>(env, steps, own.len());
            into.episodes = self.step_owned(env, &ranges, actor, draws, into)?.concat();
            into.stop = stop;
            return Ok(());
        }
        let mut local = Rollout::default();
        local.fit::<E>(env, steps, own.len());
        let episodes = self.step_owned(env, &ranges, actor, draws, &mut local)?;
        let part = Part {
            streams: self.streams[own.clone()].to_vec(),
            floats: [&local.observations[..], &local.actions, &local.log_probs, &local.values, &local.next_values]
                .concat(),
            rewards: local.rewards,
            ends: local
                .terminated
                .iter()
                .zip(&local.truncated)
                .map(|(e, c)| u8::from(*e) | u8::from(*c) << 1)
                .collect(),
            episodes,
        };
        let said = self.exchange.gather(world.collective(), encode("a rollout", &part)?, stop)?;
        into.fit::<E>(env, steps, self.streams.len());
        into.stop = said.flag;
        let mut from = 0;
        for message in &said.messages {
            let part: Part<S> = decode("a rollout", message)?;
            from = self.take::<E>(env, part, from, into)?;
        }
        if from != self.streams.len() {
            return Err(TrainError::Unsupported(format!("{from} streams reported of {}", self.streams.len())));
        }
        Ok(())
    }

    /// Puts the part of the streams from `from` on into `into`, and gives the first stream behind it.
    fn take<E: Environment<State = S>>(
        &mut self,
        env: &E,
        part: Part<S>,
        from: usize,
        into: &mut Rollout,
    ) -> Result<usize, TrainError> {
        let (count, steps, all) = (part.streams.len(), into.steps, into.streams);
        let (width, action) = (env.observation_len(), E::Action::WIDTH);
        let rows = count * steps;
        let sized = part.floats.len() == rows * (width + action + 3) && part.rewards.len() == rows;
        if !sized || part.ends.len() != rows || from + count > all {
            return Err(TrainError::Unsupported("a rank's rollout has another size than this rank's".into()));
        }
        let mut floats = &part.floats[..];
        let lists = [
            (width, &mut into.observations),
            (action, &mut into.actions),
            (1, &mut into.log_probs),
            (1, &mut into.values),
            (1, &mut into.next_values),
        ];
        for (width, list) in lists {
            let (this, rest) = floats.split_at(rows * width);
            floats = rest;
            place(this, list, width, (count, from, all));
        }
        place(&part.rewards, &mut into.rewards, 1, (count, from, all));
        let ended = |bit: u8| part.ends.iter().map(|e| e & bit != 0).collect::<Vec<_>>();
        place(&ended(1), &mut into.terminated, 1, (count, from, all));
        place(&ended(2), &mut into.truncated, 1, (count, from, all));
        into.episodes.extend(part.episodes.concat());
        for (mine, theirs) in self.streams[from..].iter_mut().zip(part.streams) {
            *mine = theirs;
        }
        Ok(from + count)
    }

    /// Steps the streams of `ranges`, which follow each other, and gives each one's episodes that ended.
    fn step_owned<E: Environment<State = S>>(
        &mut self,
        env: &E,
        ranges: &[Range<usize>],
        actor: &mut impl Actor<E::Action>,
        draws: &Streams,
        into: &mut Rollout,
    ) -> Result<Vec<Vec<Episode>>, TrainError> {
        let (width, actions) = (env.observation_len(), E::Action::WIDTH);
        let (steps, count) = (into.steps, into.streams);
        let first = ranges.first().map_or(0, |range| range.start);
        let [act, step, reset] = ["act", "step", "reset"].map(|purpose| draws.purpose(purpose));
        let mut episodes = vec![Vec::new(); count];
        // successors that are not the next step's state, with their place in the rollout
        let (mut last, mut places) = (Vec::new(), Vec::new());
        for t in 0..steps {
            for range in ranges {
                let at = t * count + range.start - first;
                let rows = range.len();
                let seen = &mut into.observations[at * width..(at + rows) * width];
                for (stream, row) in self.streams[range.clone()].iter().zip(seen.chunks_exact_mut(width)) {
                    env.observe(&stream.state, row);
                }
                actor.look(seen, rows)?;
                for row in 0..rows {
                    let (i, number) = (at + row, range.start + row);
                    let stream = &mut self.streams[number];
                    let stored = &mut into.actions[i * actions..(i + 1) * actions];
                    into.log_probs[i] = actor.choose(row, &mut act.draw(number as u64, stream.steps), stored);
                    into.values[i] = actor.value(row);
                    let action = actor.action(stored);
                    let taken = env.step(&stream.state, action, &mut step.draw(number as u64, stream.steps));
                    let done = taken.done();
                    let Step { next, reward, terminated, truncated } = taken;
                    stream.steps += 1;
                    stream.length += 1;
                    stream.returned += reward;
                    (into.rewards[i], into.terminated[i], into.truncated[i]) = (reward, terminated, truncated);
                    if !terminated && (truncated || t + 1 == steps) {
                        let from = last.len();
                        last.resize(from + width, 0.0);
                        env.observe(&next, &mut last[from..]);
                        places.push(i);
                    }
                    stream.state = if done {
                        episodes[number - first].push(Episode { returned: stream.returned, length: stream.length });
                        (stream.returned, stream.length) = (0.0, 0);
                        stream.episodes += 1;
                        env.reset(&mut reset.draw(number as u64, stream.episodes - 1))
                    } else {
                        next
                    };
                }
            }
        }
        for i in 0..(steps - 1) * count {
            let ends = into.terminated[i] || into.truncated[i];
            into.next_values[i] = if ends { 0.0 } else { into.values[i + count] };
        }
        // shard by shard, as all else, since on a GPU a batch's shape decides its rounding
        for range in ranges {
            let own: Vec<usize> = (0..places.len()).filter(|j| range.contains(&(first + places[*j] % count))).collect();
            if own.is_empty() {
                continue;
            }
            let seen: Vec<f32> = own.iter().flat_map(|j| &last[j * width..(j + 1) * width]).copied().collect();
            actor.look(&seen, own.len())?;
            own.iter().enumerate().for_each(|(row, j)| into.next_values[places[*j]] = actor.value(row));
        }
        Ok(episodes)
    }
}

/// Copies `[steps][count][width]` to where streams from `from` on stand in `[steps][all][width]`.
fn place<T: Copy>(from_part: &[T], to: &mut [T], width: usize, (count, from, all): (usize, usize, usize)) {
    let steps = from_part.chunks_exact((count * width).max(1)).zip(to.chunks_exact_mut((all * width).max(1)));
    steps.for_each(|(part, whole)| whole[from * width..(from + count) * width].copy_from_slice(part));
}

impl Rollout {
    /// Rows: steps of all streams.
    pub fn rows(&self) -> usize {
        self.steps * self.streams
    }

    /// Makes room for `steps` of `streams`. What the task's end leaves out of `next_values` is 0.
    fn fit<E: Environment>(&mut self, env: &E, steps: usize, streams: usize) {
        let rows = steps * streams;
        (self.steps, self.streams) = (steps, streams);
        self.observations.resize(rows * env.observation_len(), 0.0);
        self.actions.resize(rows * E::Action::WIDTH, 0.0);
        for list in [&mut self.log_probs, &mut self.values, &mut self.next_values] {
            list.clear();
            list.resize(rows, 0.0);
        }
        self.rewards.resize(rows, 0.0);
        self.terminated.resize(rows, false);
        self.truncated.resize(rows, false);
        self.episodes.clear();
    }
}
