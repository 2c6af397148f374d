//! Shared memory between the processes of one host.

use super::{AbortFlag, Buffer, Collective, CollectiveError, ReduceOp};
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::{ArenaPlace, Transport};
use std::sync::Arc;
use std::time::Duration;

/// The collective over an arena of shared memory.
#[derive(Debug)]
pub struct Shm {
    rank: Rank,
    world: WorldSize,
}

impl Shm {
    /// How many bytes of arena `world` ranks work well with.
    pub fn arena_bytes(world: WorldSize) -> u64 {
        (4 << 20) * u64::from(world.0)
    }

    /// Opens the arena at `place` and waits until all ranks have.
    pub fn form(
        place: &ArenaPlace,
        rank: Rank,
        world: WorldSize,
        deadline: Duration,
        abort: Arc<AbortFlag>,
    ) -> Result<Shm, CollectiveError> {
        let _ = (place, deadline, abort);
        Ok(Shm { rank, world })
    }
}

impl Collective for Shm {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn world_size(&self) -> WorldSize {
        self.world
    }

    fn transport(&self) -> Transport {
        Transport::Shm
    }

    fn all_reduce(&mut self, _data: Buffer<'_>, _op: ReduceOp) -> Result<(), CollectiveError> {
        Err(CollectiveError::Unsupported("not yet".into()))
    }

    fn broadcast(&mut self, _data: &mut [u8], _root: Rank) -> Result<(), CollectiveError> {
        Err(CollectiveError::Unsupported("not yet".into()))
    }

    fn all_gather(&mut self, _mine: &[u8], _all: &mut [u8]) -> Result<(), CollectiveError> {
        Err(CollectiveError::Unsupported("not yet".into()))
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        Err(CollectiveError::Unsupported("not yet".into()))
    }

    fn calls(&self) -> u64 {
        0
    }
}
