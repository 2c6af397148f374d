//! Who has said hello, and what all are told when everyone has.

use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::{CommId, Hello, Transport};

/// What all workers are told at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Rank 0's id, under NCCL.
    pub comm_id: Option<CommId>,
    /// How much shared memory to make: the largest wish; 0 for none.
    pub arena_bytes: u64,
}

/// The hellos of one attempt.
#[derive(Clone, Debug)]
pub struct RollCall {
    hellos: Vec<Option<Hello>>,
}

impl RollCall {
    /// Waits for all of `world`.
    pub fn new(world: WorldSize) -> RollCall {
        RollCall { hellos: vec![None; world.0 as usize] }
    }

    /// Takes a hello. When it was the last one, gives what all are to be told; an error is the sender's fault.
    pub fn hello(&mut self, rank: Rank, hello: Hello) -> Result<Option<Welcome>, String> {
        let world = self.hellos.len();
        let Some(place) = self.hellos.get_mut(rank.index()) else {
            return Err(format!("rank {rank} says hello in a world of {world}"));
        };
        if place.is_some() {
            return Err(format!("rank {rank} says hello twice"));
        }
        if hello.world_size.index() != world {
            return Err(format!("rank {rank} believes in a world of {}, not {world}", hello.world_size));
        }
        *place = Some(hello);
        if self.hellos.iter().any(Option::is_none) {
            return Ok(None);
        }
        self.welcome().map(Some)
    }

    fn welcome(&self) -> Result<Welcome, String> {
        let all: Vec<&Hello> = self.hellos.iter().flatten().collect();
        let first = all[0];
        if let Some((rank, other)) = all.iter().enumerate().find(|(_, hello)| hello.transport != first.transport) {
            return Err(format!(
                "rank {rank} averages over {:?} and rank 0 over {:?}: all must use the same",
                other.transport, first.transport
            ));
        }
        if first.transport == Transport::Nccl && first.comm_id.is_none() {
            return Err("rank 0 sent no NCCL id".to_owned());
        }
        Ok(Welcome {
            comm_id: first.comm_id.clone(),
            arena_bytes: all.iter().map(|hello| hello.arena_bytes).max().unwrap_or(0),
        })
    }

    /// Whether `rank` has said hello, and if so whether it stops when told.
    pub fn greeted(&self, rank: Rank) -> Option<bool> {
        self.hellos.get(rank.index())?.as_ref().map(|hello| hello.stops_when_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(transport: Transport, arena_bytes: u64, comm_id: Option<CommId>) -> Hello {
        Hello { pid: 1, world_size: WorldSize(2), transport, arena_bytes, comm_id, stops_when_told: true }
    }

    #[test]
    fn all_are_welcomed_when_the_last_one_came() {
        let mut roll = RollCall::new(WorldSize(2));
        assert_eq!(roll.hello(Rank(1), hello(Transport::Shm, 100, None)), Ok(None));
        assert_eq!((roll.greeted(Rank(0)), roll.greeted(Rank(1))), (None, Some(true)));
        let welcome = roll.hello(Rank(0), hello(Transport::Shm, 300, None)).unwrap().unwrap();
        assert_eq!(welcome, Welcome { comm_id: None, arena_bytes: 300 });
    }

    #[test]
    fn the_id_is_rank_zeros() {
        let mut roll = RollCall::new(WorldSize(2));
        let id = CommId(vec![7; 128]);
        roll.hello(Rank(0), hello(Transport::Nccl, 0, Some(id.clone()))).unwrap();
        let welcome = roll.hello(Rank(1), hello(Transport::Nccl, 0, None)).unwrap().unwrap();
        assert_eq!(welcome.comm_id, Some(id));
    }

    #[test]
    fn what_cannot_be_right_is_refused() {
        let mut roll = RollCall::new(WorldSize(2));
        let shm = || hello(Transport::Shm, 0, None);
        assert!(roll.hello(Rank(2), shm()).unwrap_err().contains("world of 2"));
        assert!(roll.hello(Rank(0), Hello { world_size: WorldSize(3), ..shm() }).unwrap_err().contains("world of 3"));
        roll.hello(Rank(0), shm()).unwrap();
        assert!(roll.hello(Rank(0), shm()).unwrap_err().contains("twice"));
        assert!(roll.hello(Rank(1), hello(Transport::Solo, 0, None)).unwrap_err().contains("Solo"));
    }
}
