//! The collective of one process: every result is there already.

use super::{Buffer, Collective, CollectiveError, ReduceOp};
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::Transport;

/// A world of one. Costs nothing, so that no caller needs to ask whether it trains alone.
#[derive(Debug, Default)]
pub struct Solo {
    calls: u64,
}

impl Solo {
    /// The collective of a world of one.
    pub fn new() -> Solo {
        Solo::default()
    }
}

impl Collective for Solo {
    fn rank(&self) -> Rank {
        Rank(0)
    }

    fn world_size(&self) -> WorldSize {
        WorldSize(1)
    }

    fn transport(&self) -> Transport {
        Transport::Solo
    }

    fn all_reduce(&mut self, _data: Buffer<'_>, _op: ReduceOp) -> Result<(), CollectiveError> {
        self.calls += 1;
        Ok(())
    }

    fn broadcast(&mut self, _data: &mut [u8], root: Rank) -> Result<(), CollectiveError> {
        self.calls += 1;
        if root != Rank(0) {
            return Err(CollectiveError::Unsupported(format!("broadcast from rank {root} in a world of 1")));
        }
        Ok(())
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), CollectiveError> {
        self.calls += 1;
        if mine.len() != all.len() {
            return Err(CollectiveError::Unsupported(format!(
                "all_gather of {} bytes from 1 rank into {} bytes: they must be equal",
                mine.len(),
                all.len()
            )));
        }
        all.copy_from_slice(mine);
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.calls += 1;
        Ok(())
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
