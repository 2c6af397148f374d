//! Several seeds: each is a run of its own, in a folder of its own below the run's.

use super::JobError;
use crate::trainers::Ending;
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
        if alone {
            // what it is trained with shall not depend on how many others there are
            one.parallel.virtual_shards = one.parallel.virtual_shards.max(1);
        }
        let run = run.seed(*seed);
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
