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
use super::preloaded::{OnCheckpoint, Preloaded};
use super::run::Ending;
use super::session::Session;
use super::start::{market_task, train_folds};
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
    for fold in folds.iter().skip(rank).step_by(ranks) {
        let own = run.of_fold(fold.index);
        let result = own.fold(fold.index);
        // a fold that was brought together has left its folder
        if resume && run.fold(fold.index).exists() && !own.path().exists() {
            continue;
        }
        let ended = world.alone(0, |world| {
            let task = market_task(dataset, folds.len());
            let mut session = Session::open(world, config, task, &own, resume)?.heard_by(&mut *on_checkpoint);
            train_folds(world, &mut session, dataset, std::slice::from_ref(fold), reward)
        })?;
        if ended == Ending::Stopped {
            return Ok(Ending::Stopped);
        }
        put_whole(&result, &run.fold(fold.index))?;
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

/// Copies every file and link below `from` to the same place below `to`, each whole or not at all.
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
            put_whole(&source, &target)?;
        }
    }
    Ok(())
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
