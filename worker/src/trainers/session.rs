//! What the loop keeps besides the algorithm: the run's folder, the best weights, where to go on from.
//!
//! Rank 0 alone writes and judges. The others hear the scores, and read the same checkpoint when a run goes on.

use super::TrainError;
use super::preloaded::{Kept, OnCheckpoint, Saved};
use super::run::{Algorithm, Counters, Judge};
use crate::checkpoint::{self, Contents, Loaded, Name, Point, Writer};
use crate::data::DataError;
use crate::metrics::Sink;
use crate::parallel::Shards;
use crate::world::World;
use foxlaunch_shared::config::Config;
use foxlaunch_shared::ids::Rank;
use foxlaunch_shared::metric::Metric;
use foxlaunch_shared::protocol::Phase;
use foxlaunch_shared::run_dir::RunDir;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// The loop's own state in a checkpoint.
const RUN: &str = "run.bin";
/// The best weights so far in a checkpoint.
const BEST: &str = "best.safetensors";
/// What one must know besides the weights to act by them.
pub(super) const RECIPE: &str = "policy.json";

/// `run.bin`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Progress {
    virtual_shards: u64,
    /// Whether the fold is done, its result written.
    done: bool,
    best: Option<f64>,
}

/// The best weights of a fold so far.
#[derive(Clone, Debug)]
struct Best {
    score: f64,
    /// Only on rank 0.
    weights: Vec<u8>,
}

/// What is trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its name for a person: a path, or an environment's name.
    pub source: String,
    /// A digest of what training depends on besides the settings.
    pub digest: String,
    /// The parts that are trained one after another, as a person is told.
    pub parts: Vec<String>,
}

/// One run, from start or resume to its end.
pub struct Session<'a> {
    config: &'a Config,
    run: RunDir,
    task: Task,
    shards: Shards,
    digest: String,
    saved: Option<(Loaded, Progress)>,
    best: Option<Best>,
    /// Rank 0's.
    writer: Option<Writer>,
    sink: Option<Sink>,
    on_checkpoint: Option<Box<OnCheckpoint<'a>>>,
}

impl<'a> Session<'a> {
    /// Opens `run`, and with `resume` its newest whole checkpoint; all ranks take the one that rank 0 found. A
    /// checkpoint of other settings or of another task is refused.
    pub fn open(
        world: &mut World,
        config: &'a Config,
        task: Task,
        run: &RunDir,
        resume: bool,
    ) -> Result<Session<'a>, TrainError> {
        let digest = config.digest();
        let saved = if resume { find(world, &run.checkpoints(), &digest, &task)? } else { None };
        // a run keeps the number of shards that it began with, whatever the number of workers now
        let configured = match config.parallel.virtual_shards {
            0 => world.world_size().index(),
            shards => shards,
        };
        let count = saved.as_ref().map_or(configured, |(_, progress)| progress.virtual_shards as usize);
        let shards = Shards::new(count, world.world_size(), world.rank())?;
        let (streams, rows) = (config.environment.streams, config.batch_rows());
        if count > streams.min(rows) {
            let reason = "a shard would be empty; use fewer workers, or raise environment.streams and the batch_size";
            let sizes = format!("{count} shards of {streams} streams and of batches of {rows} rows");
            return Err(TrainError::Settings(format!("{sizes}: {reason}")));
        }
        let (writer, sink) = if world.is_first() {
            let until = saved.as_ref().map(|(loaded, _)| (loaded.point.fold, loaded.point.update));
            let sink = Sink::open(run, until)?;
            (Some(Writer::new(run.checkpoints(), config.train.checkpoint_keep)), Some(sink))
        } else {
            (None, None)
        };
        let run = run.clone();
        Ok(Session { config, run, task, shards, digest, saved, best: None, writer, sink, on_checkpoint: None })
    }

    /// The same, of whose checkpoints `on_checkpoint` hears.
    pub fn heard_by<'b>(self, on_checkpoint: &'b mut OnCheckpoint<'_>) -> Session<'b>
    where
        'a: 'b,
    {
        Session { on_checkpoint: Some(Box::new(move |saved| on_checkpoint(saved))), ..self }
    }

    /// The settings.
    pub fn config(&self) -> &'a Config {
        self.config
    }

    /// How many folds there are.
    pub fn folds(&self) -> usize {
        self.task.parts.len()
    }

    /// What fold `fold` is called.
    pub fn part(&self, fold: usize) -> &str {
        &self.task.parts[fold]
    }

    /// This rank's shards.
    pub fn shards(&self) -> Shards {
        self.shards
    }

    /// Whether `fold` was done before this run was resumed.
    pub fn has_done(&self, fold: usize) -> bool {
        self.saved.as_ref().is_some_and(|(loaded, progress)| {
            let at = loaded.point.fold as usize;
            fold < at || fold == at && progress.done
        })
    }

    /// Begins `fold`, from the checkpoint if it was taken in this fold.
    pub fn begin<A: Algorithm>(&mut self, fold: usize, algorithm: &mut A) -> Result<(), TrainError> {
        self.best = None;
        let Some((loaded, progress)) = self.saved.take() else { return Ok(()) };
        if loaded.point.fold as usize != fold || progress.done {
            return Ok(());
        }
        algorithm.restore(&loaded)?;
        algorithm.set_weights(loaded.file(checkpoint::MODEL)?)?;
        if let Some(score) = progress.best {
            self.best = Some(Best { score, weights: loaded.file(BEST)?.to_vec() });
        }
        Ok(())
    }

    /// Writes a metric record.
    pub fn record(&mut self, fold: usize, at: Counters, values: &[(String, f64)]) -> Result<(), TrainError> {
        if let Some(sink) = &mut self.sink {
            let values = values.iter().map(|(name, value)| (name.as_str(), *value));
            sink.record(&Metric::new(fold as u32, at.updates, at.steps, values))?;
        }
        Ok(())
    }

    /// The validation score of the weights as they are; the best so far are kept. All ranks get the score.
    pub fn validate<A: Algorithm, J: Judge<Action = A::Action>>(
        &mut self,
        world: &mut World,
        fold: usize,
        algorithm: &mut A,
        judge: &J,
    ) -> Result<f64, TrainError> {
        world.progress(self.iterations(fold, algorithm), Phase::Evaluate, None);
        let mut said = [0u8; 8];
        if let Some(writer) = &self.writer {
            let mut policy = |observations: &[f32], rows: usize| Ok(algorithm.act(observations, rows)?);
            let score = judge.validate(&mut policy).map_err(TrainError::Evaluation)?;
            // a score that is no number is worse than any; the first one stands in any case
            if self.best.as_ref().is_none_or(|best| score > best.score) {
                let weights = algorithm.weights()?;
                let files = vec![(checkpoint::MODEL.to_owned(), weights.clone()), (RECIPE.to_owned(), recipe(judge))];
                let path = writer.write_best(&Contents { point: self.point(fold, algorithm), files })?;
                self.best = Some(Best { score, weights });
                self.tell(fold, algorithm.counters(), Kept::Best, &path)?;
            }
            said = score.to_le_bytes();
        }
        world.collective().broadcast(&mut said, Rank(0))?;
        Ok(f64::from_le_bytes(said))
    }

    /// Writes a checkpoint and makes it the latest.
    pub fn checkpoint<A: Algorithm, J: Judge<Action = A::Action>>(
        &mut self,
        world: &mut World,
        fold: usize,
        algorithm: &mut A,
        judge: &J,
        done: bool,
    ) -> Result<(), TrainError> {
        world.progress(self.iterations(fold, algorithm), Phase::Checkpoint, None);
        let (Some(writer), Some(sink)) = (&self.writer, &mut self.sink) else { return Ok(()) };
        // what was measured before this point must not be lost, since it will not be measured again
        sink.sync()?;
        let best = self.best.as_ref();
        let progress = Progress { virtual_shards: self.shards.count() as u64, done, best: best.map(|b| b.score) };
        let mut files = vec![
            (checkpoint::MODEL.to_owned(), algorithm.weights()?),
            (RUN.to_owned(), checkpoint::encode(RUN, &progress)?),
            (RECIPE.to_owned(), recipe(judge)),
        ];
        files.extend(best.map(|best| (BEST.to_owned(), best.weights.clone())));
        files.append(&mut algorithm.save()?);
        let path = writer.write(&Contents { point: self.point(fold, algorithm), files })?;
        world.checkpointed(self.iterations(fold, algorithm), &path);
        self.tell(fold, algorithm.counters(), if done { Kept::Last } else { Kept::Latest }, &path)
    }

    /// Says that a checkpoint is at `path`.
    fn tell(&mut self, fold: usize, at: Counters, kept: Kept, path: &Path) -> Result<(), TrainError> {
        let Some(on_checkpoint) = &mut self.on_checkpoint else { return Ok(()) };
        let score = self.best.as_ref().map(|best| best.score);
        let saved = Saved { fold, update: at.updates, step: at.steps, kept, score, path };
        on_checkpoint(&saved).map_err(TrainError::Heard)
    }

    /// Ends `fold`: the test with the best weights, its result, and a checkpoint of the weights as they ended.
    pub fn finish<A: Algorithm, J: Judge<Action = A::Action>>(
        &mut self,
        world: &mut World,
        fold: usize,
        algorithm: &mut A,
        judge: &J,
    ) -> Result<(), TrainError> {
        world.progress(self.iterations(fold, algorithm), Phase::Evaluate, None);
        if self.writer.is_some() {
            let ended = algorithm.weights()?;
            if let Some(best) = &self.best {
                algorithm.set_weights(&best.weights)?;
            }
            let mut policy = |observations: &[f32], rows: usize| Ok(algorithm.act(observations, rows)?);
            let mut verdict = judge.test(&mut policy).map_err(TrainError::Evaluation)?;
            algorithm.set_weights(&ended)?;
            let mut policy = |observations: &[f32], rows: usize| Ok(algorithm.act(observations, rows)?);
            judge.test_last(&mut verdict, &mut policy).map_err(TrainError::Evaluation)?;
            let json = serde_json::to_vec(&verdict).map_err(|e| TrainError::Evaluation(e.into()))?;
            write_whole(&judge.file(&self.run, fold), &json)?;
        }
        self.checkpoint(world, fold, algorithm, judge, true)?;
        // all ranks leave a fold together: its result is on the disk before anyone can end well
        world.collective().barrier()?;
        Ok(())
    }

    /// Saves the batch that made a loss no finite number, on the rank that it came from, and says in the error where.
    pub fn keep_batch(&self, mut error: TrainError) -> TrainError {
        if let TrainError::NotFinite { rank, seen_by, batch, saved, .. } = &mut error
            && rank == seen_by
        {
            let path = self.run.not_finite(*rank);
            match write_whole(&path, batch.to_string().as_bytes()) {
                Ok(()) => *saved = Some(path),
                // the loss is what went wrong first
                Err(e) => tracing::warn!("{e}"),
            }
        }
        error
    }

    fn point<A: Algorithm>(&self, fold: usize, algorithm: &A) -> Point {
        let Counters { updates: update, steps: step, .. } = algorithm.counters();
        let (config_digest, data_digest) = (self.digest.clone(), self.task.digest.clone());
        Point { fold: fold as u32, update, step, config_digest, data_digest }
    }

    /// Iterations over all folds: a counter that only grows.
    fn iterations<A: Algorithm>(&self, fold: usize, algorithm: &A) -> u64 {
        let steps = self.config.train.steps;
        (fold as u64 * steps + algorithm.counters().steps.min(steps)) / self.config.block_steps() as u64
    }
}

/// The newest whole checkpoint below `root`, the same on every rank; none if there never was one.
fn find(world: &mut World, root: &Path, digest: &str, task: &Task) -> Result<Option<(Loaded, Progress)>, TrainError> {
    // rank 0 says: nothing there, failed, or which
    let mut said = [0u8; 17];
    let mut first = Ok(None);
    if world.is_first() {
        first = checkpoint::newest(root).map_err(TrainError::from).and_then(|found| {
            let Some(found) = found else { return Ok(None) };
            if found.loaded.point.config_digest != digest {
                let path = found.loaded.path.display();
                let reason =
                    "it was written under other settings; resume with the run's own config.toml, or start a new run";
                return Err(TrainError::Settings(format!("{path}: {reason}")));
            }
            if found.loaded.point.data_digest != task.digest {
                let (origin, checkpoint) = (task.source.clone(), found.loaded.path);
                return Err(DataError::Changed { origin, checkpoint }.into());
            }
            Ok(Some(found))
        });
        match &first {
            Ok(None) => {}
            Err(_) => said[0] = 2,
            Ok(Some(found)) => {
                said[0] = 1;
                said[1..9].copy_from_slice(&u64::from(found.loaded.point.fold).to_le_bytes());
                said[9..].copy_from_slice(&found.loaded.point.update.to_le_bytes());
                for line in &found.skipped {
                    world.note(&format!("checkpoint passed over: {line}"));
                }
            }
        }
    }
    world.collective().broadcast(&mut said, Rank(0))?;
    let loaded = match (first?, said[0]) {
        (Some(found), _) => found.loaded,
        (None, 0) => return Ok(None),
        (None, 2) => return Err(TrainError::FirstFailed),
        (None, _) => {
            let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            let name = Name::Update { fold: number(&said[1..9]) as u32, update: number(&said[9..]) };
            checkpoint::read(&root.join(name.to_string()))?
        }
    };
    let progress = checkpoint::decode(RUN, loaded.file(RUN)?)?;
    Ok(Some((loaded, progress)))
}

fn recipe<J: Judge>(judge: &J) -> Vec<u8> {
    let mut text = judge.recipe().to_string().into_bytes();
    text.push(b'\n');
    text
}

/// Writes the file at `path` so that it is whole or not there.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let write = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let beside = path.with_extension("json.tmp");
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        std::fs::File::open(folder)?.sync_all()
    };
    write().map_err(|source| TrainError::Output { path: path.to_owned(), source })
}
