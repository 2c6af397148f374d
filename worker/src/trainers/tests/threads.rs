//! Ranks as threads of this process, with a collective between them, and a small task for them to train on.

use crate::collectives::{Buffer, Collective, CollectiveError, ReduceOp};
use crate::world::World;
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::Transport;
use std::sync::{Arc, Condvar, Mutex};

/// Where ranks meet: every call is one round in which each brings bytes and takes everyone's.
#[derive(Debug)]
struct Meeting {
    round: Mutex<Round>,
    full: Condvar,
}

#[derive(Debug, Default)]
struct Round {
    number: u64,
    brought: Vec<(usize, Vec<u8>)>,
    taken: Arc<Vec<Vec<u8>>>,
    gone: bool,
}

/// One rank's end.
#[derive(Debug)]
struct Threads {
    rank: usize,
    ranks: usize,
    meeting: Arc<Meeting>,
    calls: u64,
}

impl Threads {
    fn meet(&mut self, bytes: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>, CollectiveError> {
        self.calls += 1;
        let gone = || CollectiveError::Aborted("a thread of this test ended".to_owned());
        let mut round = self.meeting.round.lock().map_err(|_| gone())?;
        let number = round.number;
        round.brought.push((self.rank, bytes));
        if round.brought.len() == self.ranks {
            let mut brought = std::mem::take(&mut round.brought);
            brought.sort_unstable_by_key(|(rank, _)| *rank);
            round.taken = Arc::new(brought.into_iter().map(|(_, bytes)| bytes).collect());
            round.number += 1;
            self.meeting.full.notify_all();
        }
        while round.number == number {
            if round.gone {
                return Err(gone());
            }
            round = self.meeting.full.wait(round).map_err(|_| gone())?;
        }
        Ok(Arc::clone(&round.taken))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Ok(mut round) = self.meeting.round.lock() {
            round.gone = true;
        }
        self.meeting.full.notify_all();
    }
}

impl Collective for Threads {
    fn rank(&self) -> Rank {
        Rank(self.rank as u32)
    }

    fn world_size(&self) -> WorldSize {
        WorldSize(self.ranks as u32)
    }

    fn transport(&self) -> Transport {
        Transport::Shm
    }

    fn all_reduce(&mut self, data: Buffer<'_>, op: ReduceOp) -> Result<(), CollectiveError> {
        macro_rules! reduce {
            ($data:expr, $t:ty) => {{
                let all = self.meet(bytemuck::cast_slice(&*$data).to_vec())?;
                for (i, x) in $data.iter_mut().enumerate() {
                    let of = |bytes: &Vec<u8>| -> $t {
                        bytemuck::pod_read_unaligned(&bytes[i * size_of::<$t>()..][..size_of::<$t>()])
                    };
                    let values = all.iter().map(of);
                    *x = match op {
                        ReduceOp::Max => values.fold(<$t>::NEG_INFINITY, <$t>::max),
                        ReduceOp::Sum => values.reduce(|a, b| a + b).unwrap_or(0.0),
                        ReduceOp::Avg => values.reduce(|a, b| a + b).unwrap_or(0.0) / self.ranks as $t,
                    };
                }
            }};
        }
        match data {
            Buffer::F32(data) => reduce!(data, f32),
            Buffer::F64(data) => reduce!(data, f64),
            #[cfg(feature = "cuda")]
            Buffer::CudaF32(_) => return Err(CollectiveError::Unsupported("host only".to_owned())),
        }
        Ok(())
    }

    fn broadcast(&mut self, data: &mut [u8], root: Rank) -> Result<(), CollectiveError> {
        let all = self.meet(data.to_vec())?;
        data.copy_from_slice(&all[root.index()]);
        Ok(())
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), CollectiveError> {
        let gathered = self.meet(mine.to_vec())?;
        all.chunks_exact_mut(mine.len().max(1)).zip(gathered.iter()).for_each(|(to, from)| to.copy_from_slice(from));
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.meet(Vec::new()).map(drop)
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}

/// Runs `job` as each of `ranks` ranks and gives what each made.
pub(super) fn as_ranks<T: Send>(ranks: usize, job: impl Fn(World) -> T + Sync) -> Vec<T> {
    let meeting = Arc::new(Meeting { round: Mutex::default(), full: Condvar::new() });
    let job = &job;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let world =
                    World::with_collective(Box::new(Threads { rank, ranks, meeting: Arc::clone(&meeting), calls: 0 }));
                scope.spawn(move || job(world))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    })
}
