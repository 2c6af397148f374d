//! All-reduce between processes over shared memory: time and bus bandwidth by message size, sum of f32, in place.
//!
//! Prints what `peers/torch_allreduce.py` prints, in the same way: median of 5 blocks; bus bandwidth =
//! bytes / time x 2 (n - 1) / n, the convention of nccl-tests.
//!
//! ```text
//! cargo bench -p foxlaunch-benches --bench all_reduce [-- RANKS]
//! ```

use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::ArenaPlace;
use foxlaunch_worker::collectives::{AbortFlag, Buffer, Collective, ReduceOp, Shm, shm};
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
        let iterations = if power > 22 { 20 } else { 100 };
        let mut data = vec![1f32; bytes / 4];
        for _ in 0..5 {
            shm.all_reduce(Buffer::F32(&mut data), ReduceOp::Sum).expect("a sum");
            data.fill(1.);
        }
        let mut blocks: Vec<f64> = (0..5)
            .map(|_| {
                shm.barrier().expect("a barrier");
                let start = Instant::now();
                for _ in 0..iterations {
                    shm.all_reduce(Buffer::F32(&mut data), ReduceOp::Sum).expect("a sum");
                }
                start.elapsed().as_secs_f64() / f64::from(iterations)
            })
            .collect();
        blocks.sort_by(f64::total_cmp);
        if rank == Rank(0) {
            let n = f64::from(world.0);
            let (us, bandwidth) = (blocks[2] * 1e6, bytes as f64 / blocks[2] / 1e9 * 2. * (n - 1.) / n);
            println!("foxlaunch-allreduce ranks={world} bytes={bytes} us={us:.1} busbw_GBps={bandwidth:.2}");
        }
    }
}
