//! Environments stepped side by side: every rank steps its own streams, and all ranks know all.
//!
//! Streams are split over the virtual shards, and each shard asks the network about its own streams in a batch of
//! its own: so a batch's shape, and with it the rounding of its values, is the same whatever the number of ranks.
//! What the streams took is gathered once for each block, and every rank brings all streams forward from it: states,
//! n-step windows and returns are replicated, so rank 0's checkpoint holds everything.

use super::TrainError;
use super::exchange::Exchange;
use crate::checkpoint::{decode, encode};
use crate::environments::{Environment, Step};
use crate::kernels::td::greedy;
use crate::parallel::Shards;
use crate::replay::{NStep, Transition};
use crate::seed::{Streams, below, uniform};
use crate::world::World;
use serde::{Deserialize, Serialize};

/// One environment on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stream<S> {
    state: S,
    /// Steps since the beginning, over all episodes: numbers this stream's draws.
    steps: u64,
    /// Episodes begun.
    episodes: u64,
    /// Sum of the rewards of this episode, unscaled.
    returned: f64,
    windows: NStep<S>,
}

/// All streams. What a checkpoint holds of them is this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Collected<S> {
    streams: Vec<Stream<S>>,
    #[serde(skip)]
    exchange: Exchange,
}

/// What one step of one stream was, as ranks tell each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Taken<S> {
    action: u32,
    next: S,
    reward: f64,
    terminated: bool,
    truncated: bool,
    /// Where the next episode began, if this one ended.
    restart: Option<S>,
}

/// What came of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct Block<S> {
    /// The windows that closed, in the order of the streams.
    pub transitions: Vec<Transition<S>>,
    /// How often each action was taken.
    pub taken: Vec<u64>,
    /// The returns of the episodes that ended, in the order of the streams.
    pub returns: Vec<f64>,
    /// Whether any rank was asked to stop.
    pub stop: bool,
}

/// How a block is collected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Collecting {
    /// Steps of each stream.
    pub steps: usize,
    /// Share of random actions.
    pub epsilon: f64,
    /// What rewards are multiplied by before the learner sees them.
    pub reward_scale: f64,
}

/// The values of all actions for row-major observations of a number of rows: row-major as well.
pub type Values<'a> = dyn FnMut(&[f32], usize) -> Result<Vec<f32>, TrainError> + 'a;

impl<S: Clone + Serialize + serde::de::DeserializeOwned> Collected<S> {
    /// `count` fresh streams of `env` with windows of `n_step` steps and discount `gamma`.
    pub fn new<E: Environment<State = S, Action = usize>>(
        env: &E,
        count: usize,
        n_step: usize,
        gamma: f64,
        streams: &Streams,
    ) -> Collected<S> {
        let fresh = |i: usize| Stream {
            state: env.reset(&mut streams.draw("reset", i as u64, 0)),
            steps: 0,
            episodes: 1,
            returned: 0.0,
            windows: NStep::new(n_step, gamma),
        };
        Collected { streams: (0..count).map(fresh).collect(), exchange: Exchange::default() }
    }

    /// How many streams there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Steps every stream, the owned ones here, and gives what came of it.
    pub fn block<E: Environment<State = S, Action = usize>>(
        &mut self,
        env: &E,
        world: &mut World,
        shards: &Shards,
        how: Collecting,
        streams: &Streams,
        values: &mut Values<'_>,
    ) -> Result<Block<S>, TrainError> {
        let taken = self.step_owned(env, shards, how, streams, values)?;
        let stop = world.stop_requested().is_some();
        let said = self.exchange.gather(world.collective(), encode("a block of steps", &taken)?, stop)?;
        let mut block =
            Block { transitions: Vec::new(), taken: vec![0; env.actions()], returns: Vec::new(), stop: said.flag };
        let mut all = Vec::with_capacity(self.streams.len());
        for message in &said.messages {
            all.extend(decode::<Vec<Vec<Taken<S>>>>("a block of steps", message)?);
        }
        if all.len() != self.streams.len() {
            let reason = format!("{} streams reported of {}", all.len(), self.streams.len());
            return Err(TrainError::Unsupported(reason));
        }
        for (stream, taken) in self.streams.iter_mut().zip(all) {
            taken.into_iter().for_each(|taken| stream.advance(taken, how.reward_scale, &mut block));
        }
        Ok(block)
    }

    /// For each owned stream the steps it took, which the stream itself does not see yet.
    fn step_owned<E: Environment<State = S, Action = usize>>(
        &self,
        env: &E,
        shards: &Shards,
        how: Collecting,
        streams: &Streams,
        values: &mut Values<'_>,
    ) -> Result<Vec<Vec<Taken<S>>>, TrainError> {
        let (width, actions) = (env.observation_len(), env.actions());
        let mut all = Vec::new();
        for shard in shards.owned() {
            let range = shards.rows(shard, self.streams.len());
            if range.is_empty() {
                continue;
            }
            let mut states: Vec<S> = self.streams[range.clone()].iter().map(|s| s.state.clone()).collect();
            let mut taken: Vec<Vec<Taken<S>>> = vec![Vec::with_capacity(how.steps); states.len()];
            let mut episodes: Vec<u64> = self.streams[range.clone()].iter().map(|s| s.episodes).collect();
            let mut observations = vec![0.0; states.len() * width];
            for t in 0..how.steps {
                for (state, row) in states.iter().zip(observations.chunks_exact_mut(width)) {
                    env.observe(state, row);
                }
                let q = values(&observations, states.len())?;
                for (i, q) in q.chunks_exact(actions).enumerate() {
                    let stream = range.start + i;
                    let time = self.streams[stream].steps + t as u64;
                    let mut draw = streams.draw("explore", stream as u64, time);
                    let explore = uniform(&mut draw) < how.epsilon;
                    let action = if explore { below(&mut draw, actions) } else { greedy(q) };
                    let step = env.step(&states[i], action, &mut streams.draw("step", stream as u64, time));
                    let restart = step.done().then(|| {
                        episodes[i] += 1;
                        env.reset(&mut streams.draw("reset", stream as u64, episodes[i] - 1))
                    });
                    states[i] = restart.clone().unwrap_or_else(|| step.next.clone());
                    let Step { next, reward, terminated, truncated } = step;
                    taken[i].push(Taken { action: action as u32, next, reward, terminated, truncated, restart });
                }
            }
            all.append(&mut taken);
        }
        Ok(all)
    }
}

impl<S: Clone> Stream<S> {
    fn advance(&mut self, taken: Taken<S>, reward_scale: f64, block: &mut Block<S>) {
        let Taken { action, next, reward, terminated, truncated, restart } = taken;
        let step = Step { next, reward, terminated, truncated };
        if let Some(count) = block.taken.get_mut(action as usize) {
            *count += 1;
        }
        let transitions = &mut block.transitions;
        self.windows.push(self.state.clone(), action, reward * reward_scale, &step, &mut |t| transitions.push(t));
        self.steps += 1;
        self.returned += reward;
        self.state = match restart {
            Some(first) => {
                self.episodes += 1;
                block.returns.push(std::mem::take(&mut self.returned));
                first
            }
            None => step.next,
        };
    }
}
