//! Whole folds on different ranks (`parallel.work = folds`): each rank trains every so manyth fold as a world of one, in
//! a folder of its own below the run's, and hears nothing of the others. The numbers are those of one rank that trains
//! all folds, one after another.
//!
//! ```text
//! RUN/folds/fold-0/{checkpoints, metrics.jsonl, tensorboard, evaluation}
//! ```
//!
//! Whoever sees that all folds are done brings them together in the run's own folder. That may be several ranks at once,
//! or a rank of a later attempt: each step leaves a whole state, and doing it again changes nothing.

use super::TrainError;
use super::preloaded::{Ahead, OnCheckpoint, Preloaded};
use super::run::Ending;
use super::session::Session;
use super::start::{market_task, train_one};
use crate::data::Fold;
use crate::environments::market::Market;
use crate::environments::rewarded::Reward;
use crate::world::World;
use foxlaunch_shared::config::Config;
use foxlaunch_shared::run_dir::RunDir;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Trains this rank's share of the folds of `data`.
pub(super) fn train(
    world: &mut World,
    config: &Config,
    data: &Preloaded,
    run: &RunDir,
    resume: bool,
    reward: Option<&Arc<Reward<Market>>>,
    on_checkpoint: &mut OnCheckpoint<'_>,
) -> Result<Ending, TrainError> {
    let (dataset, folds) = (data.dataset(), data.folds());
    let (rank, ranks) = (world.rank().index(), world.world_size().index());
    // a fold that was brought together has left its folder
    let is_gone = |fold: &&Fold| run.fold(fold.index).exists() && !run.of_fold(fold.index).path().exists();
    let mine: Vec<&Fold> = folds.iter().skip(rank).step_by(ranks).filter(|fold| !(resume && is_gone(fold))).collect();
    let ended = std::thread::scope(|scope| -> Result<Ending, TrainError> {
        let mut ahead = Ahead::new(scope, dataset, &config.environment, mine.into_iter());
        while let Some(prepared) = ahead.take() {
            let (fold, prepared) = prepared?;
            let own = run.of_fold(fold.index);
            let ended = world.alone(0, |world| {
                let task = market_task(dataset, folds.len());
                let mut session = Session::open(world, config, task, &own, resume)?.heard_by(&mut *on_checkpoint);
                match session.has_done(fold.index) {
                    true => Ok(Ending::Finished),
                    false => train_one(world, &mut session, dataset, fold, prepared, reward),
                }
            })?;
            if ended == Ending::Stopped {
                return Ok(Ending::Stopped);
            }
            put_whole(&own.fold(fold.index), &run.fold(fold.index))?;
        }
        Ok(Ending::Finished)
    })?;
    if ended == Ending::Stopped {
        return Ok(Ending::Stopped);
    }
    if folds.iter().all(|fold| run.fold(fold.index).exists()) {
        gather(run, folds)?;
    }
    Ok(Ending::Finished)
}

/// Brings metrics, TensorBoard's files and the best and last checkpoints of all folds together in the run's folder.
fn gather(run: &RunDir, folds: &[Fold]) -> Result<(), TrainError> {
    let mut metrics = Vec::new();
    for fold in folds {
        let own = run.of_fold(fold.index);
        metrics.extend(std::fs::read(own.metrics()).map_err(output(&own.metrics()))?);
    }
    write_whole(&run.metrics(), &metrics)?;
    for fold in folds {
        let own = run.of_fold(fold.index);
        for (from, to) in [(own.tensorboard(), run.tensorboard()), (own.checkpoints(), run.checkpoints())] {
            copy_all(&from, &to)?;
        }
    }
    Ok(())
}

/// Puts every file and link below `from` at the same place below `to` too, each whole or not at all.
fn copy_all(from: &Path, to: &Path) -> Result<(), TrainError> {
    std::fs::create_dir_all(to).map_err(output(to))?;
    let entries = match std::fs::read_dir(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(output(from))?,
    };
    for entry in entries {
        let entry = entry.map_err(output(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(output(&source))?;
        if kind.is_symlink() {
            let beside = beside(&target);
            let _ = std::fs::remove_file(&beside);
            let link = std::fs::read_link(&source).map_err(output(&source))?;
            std::os::unix::fs::symlink(link, &beside).map_err(output(&beside))?;
            std::fs::rename(&beside, &target).map_err(output(&target))?;
        } else if kind.is_dir() {
            copy_all(&source, &target)?;
        } else {
            put_same(&source, &target)?;
        }
    }
    Ok(())
}

/// Gives the file at `from`, which is whole and never written again, the name `to` too: a second name costs no copy and
/// no wait for the disk. Where a file has one name only, it is copied.
fn put_same(from: &Path, to: &Path) -> Result<(), TrainError> {
    let beside = beside(to);
    let _ = std::fs::remove_file(&beside);
    if std::fs::hard_link(from, &beside).is_err() {
        return put_whole(from, to);
    }
    let renamed = std::fs::rename(&beside, to).map_err(output(to));
    // two names of one file stay both where one is to take the other's place
    let _ = std::fs::remove_file(&beside);
    renamed
}

fn put_whole(from: &Path, to: &Path) -> Result<(), TrainError> {
    write_whole(to, &std::fs::read(from).map_err(output(from))?)
}

/// Writes the file at `path` so that it is whole or not there, whoever else does the same.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(output(folder))?;
    let beside = beside(path);
    let mut file = std::fs::File::create(&beside).map_err(output(&beside))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(output(&beside))?;
    std::fs::rename(&beside, path).map_err(output(path))
}

/// A name beside `path` that no other process writes to.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn output(path: &Path) -> impl FnOnce(std::io::Error) -> TrainError {
    let path = path.to_owned();
    move |source| TrainError::Output { path, source }
}
