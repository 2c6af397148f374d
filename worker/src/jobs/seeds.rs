//! Several seeds: each is a run of its own, in a folder of its own below the run's.

use super::JobError;
use crate::trainers::{Ending, TrainError};
use crate::world::World;
use foxlaunch_shared::config::{Config, Work};
use foxlaunch_shared::run_dir::RunDir;

/// Calls `train` for each seed of `config` with its settings and its folder, one after another: with `parallel.work = "seeds"`
/// each worker by itself, every so manyeth seed.
pub(super) fn each_seed(
    world: &mut World,
    config: &Config,
    run: &RunDir,
    mut train: impl FnMut(&mut World, &Config, &RunDir) -> Result<Ending, JobError>,
) -> Result<Ending, JobError> {
    let (workers, rank) = (world.world_size().index(), world.rank().index());
    let alone = config.parallel.work == Work::Seeds;
    let own = config.train.seeds.iter().enumerate().filter(|(i, _)| !alone || i % workers == rank);
    for (place, (_, seed)) in own.enumerate() {
        let mut one = config.clone();
        one.train.seed = *seed;
        one.train.seeds = Vec::new();
        one.parallel.work = Work::Data;
        let run = run.seed(*seed);
        if alone || world.is_first() {
            write_settings(&one, &run)?;
        }
        // a count of iterations that only grows over the seeds
        let before = place as u64 * config.train.steps.div_ceil(config.block_steps() as u64).saturating_add(1);
        let ending = if alone {
            world.alone(before, |world| train(world, &one, &run))?
        } else {
            world.counting_from(before, |world| train(world, &one, &run))?
        };
        if ending == Ending::Stopped {
            return Ok(Ending::Stopped);
        }
    }
    Ok(Ending::Finished)
}

/// Leaves the settings in a seed's folder, so that it is a run's folder like any other.
fn write_settings(config: &Config, run: &RunDir) -> Result<(), JobError> {
    let path = run.config();
    let write = std::fs::create_dir_all(run.path()).and_then(|()| std::fs::write(&path, config.to_toml()));
    Ok(write.map_err(|source| TrainError::Output { path, source })?)
}
