//! All-reduce between processes over shared memory: time and bus bandwidth by message size, sum of f32, in place.
//!
//! Prints what `peers/torch_allreduce.py` prints, in the same way: median of 5 blocks; bus bandwidth =
//! bytes / time x 2 (n - 1) / n, the convention of nccl-tests. `path=copy`: numbers in memory of the process;
//! `path=arena`: numbers that live in the arena, as flat gradients do; `path=arena-fresh`: the same, written anew by every
//! rank before each call, which is not timed. `best_us` is the fastest block, for machines that others use too.
//!
//! ```text
//! cargo bench -p foxlaunch-benches --bench all_reduce [-- RANKS]
//! ```

use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::ArenaPlace;
use foxlaunch_worker::collectives::{AbortFlag, Buffer, Collective, CollectiveError, ReduceOp, SharedF32, Shm, shm};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROLE: &str = "FOXLAUNCH_BENCH_ROLE";

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        let words: Vec<&str> = role.splitn(4, ' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let place = ArenaPlace { bytes: number(2), path: words[3].to_owned() };
        measure(&place, Rank(number(0) as u32), WorldSize(number(1) as u32));
        return;
    }
    let world = WorldSize(std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(2));
    let (_memory, place) = shm::memory(Shm::arena_bytes(world)).expect("shared memory");
    let start = |rank: Rank| -> Child {
        let role = format!("{rank} {world} {} {}", place.bytes, place.path);
        Command::new(std::env::current_exe().expect("this program")).env(ROLE, role).spawn().expect("a process")
    };
    let ranks: Vec<Child> = world.ranks().map(start).collect();
    for mut rank in ranks {
        assert!(rank.wait().expect("a status").success());
    }
}

fn measure(place: &ArenaPlace, rank: Rank, world: WorldSize) {
    let abort = Arc::new(AbortFlag::new());
    let mut shm = Shm::form(place, rank, world, Duration::from_secs(60), abort).expect("the world stands");
    for power in (10..26).step_by(2).chain([25]) {
        let bytes = 1usize << power;
        let mut data = vec![1f32; bytes / 4];
        let copy = timed(&mut shm, bytes, |shm| shm.all_reduce(Buffer::F32(&mut data), ReduceOp::Sum));
        report(rank, world, bytes, "copy", &copy);
        // short messages are not lent any memory
        if let Some(mut data) = shm.shared(bytes / 4) {
            data.fill(1.);
            let arena = timed(&mut shm, bytes, |shm| shm.all_reduce_shared(&mut data, ReduceOp::Sum));
            report(rank, world, bytes, "arena", &arena);
            let fresh = fresh(&mut shm, bytes, &mut data);
            report(rank, world, bytes, "arena-fresh", &fresh);
        }
    }
}

/// Seconds for one call, in each of five blocks, sorted.
fn timed(shm: &mut Shm, bytes: usize, mut call: impl FnMut(&mut Shm) -> Result<(), CollectiveError>) -> Vec<f64> {
    let iterations = if bytes > 1 << 22 { 20 } else { 100 };
    (0..5).for_each(|_| call(shm).expect("a sum"));
    let block = |_| {
        shm.barrier().expect("a barrier");
        let start = Instant::now();
        (0..iterations).for_each(|_| call(shm).expect("a sum"));
        start.elapsed().as_secs_f64() / f64::from(iterations)
    };
    let mut blocks: Vec<f64> = (0..5).map(block).collect();
    blocks.sort_by(f64::total_cmp);
    blocks
}

/// As [`timed`], for numbers that every rank has just written, as a backward pass does; writing is not timed.
fn fresh(shm: &mut Shm, bytes: usize, data: &mut SharedF32) -> Vec<f64> {
    let iterations = if bytes > 1 << 22 { 20 } else { 100 };
    let mut call = || {
        data.fill(1.);
        shm.barrier().expect("a barrier");
        let start = Instant::now();
        shm.all_reduce_shared(data, ReduceOp::Sum).expect("a sum");
        start.elapsed().as_secs_f64()
    };
    let mut blocks: Vec<f64> =
        (0..5).map(|_| (0..iterations).map(|_| call()).sum::<f64>() / f64::from(iterations)).collect();
    blocks.sort_by(f64::total_cmp);
    blocks
}

fn report(rank: Rank, world: WorldSize, bytes: usize, path: &str, blocks: &[f64]) {
    if rank == Rank(0) {
        let n = f64::from(world.0);
        let (us, best) = (blocks[2] * 1e6, blocks[0] * 1e6);
        let bandwidth = bytes as f64 / blocks[2] / 1e9 * 2. * (n - 1.) / n;
        println!(
            "foxlaunch-allreduce path={path} ranks={world} bytes={bytes} us={us:.1} busbw_GBps={bandwidth:.2} \
             best_us={best:.1}"
        );
    }
}
