//! Ranks as threads of this process, over the shared memory that processes use.

use crate::collectives::{AbortFlag, Shm, shm};
use crate::world::World;
use foxlaunch_shared::ids::WorldSize;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any wait that goes well; a rank that failed leaves the others waiting this long.
const WITHIN: Duration = Duration::from_secs(60);

/// Runs `job` as each of `ranks` ranks and gives what each made.
pub(crate) fn as_ranks<T: Send>(ranks: usize, job: impl Fn(World) -> T + Sync) -> Vec<T> {
    let size = WorldSize(ranks as u32);
    let (_memory, place) = shm::memory(Shm::arena_bytes(size)).expect("shared memory");
    let abort = Arc::new(AbortFlag::new());
    std::thread::scope(|scope| {
        let start = |rank| {
            let (place, job, abort) = (&place, &job, Arc::clone(&abort));
            scope.spawn(move || {
                let shm = Shm::form(place, rank, size, WITHIN, abort).expect("a world");
                job(World::with_collective(Box::new(shm)))
            })
        };
        let threads: Vec<_> = size.ranks().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    })
}
