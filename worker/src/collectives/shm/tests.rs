//! The law over threads that share one arena, and deaths among real processes.

use super::*;
use crate::collectives::law;
use proptest::prelude::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const LONG: Duration = Duration::from_secs(20);

/// Runs `body` on every rank of a world of threads; the results by rank.
pub(crate) fn world_of<R: Send>(
    ranks: u32,
    arena_bytes: u64,
    within: Duration,
    body: impl Fn(Shm) -> R + Sync,
) -> Vec<R> {
    let (_memory, place) = memory(arena_bytes).unwrap();
    let abort = Arc::new(AbortFlag::new());
    std::thread::scope(|scope| {
        let start = |rank| {
            let (place, body, abort) = (&place, &body, Arc::clone(&abort));
            scope.spawn(move || body(Shm::form(place, rank, WorldSize(ranks), within, abort).unwrap()))
        };
        let threads: Vec<_> = WorldSize(ranks).ranks().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn one_to_four_ranks_keep_the_law() {
    let best = |ranks| Shm::arena_bytes(WorldSize(ranks));
    for (ranks, arena_bytes) in [(1, best(1)), (2, best(2)), (3, 100_000), (3, best(3)), (4, best(4))] {
        for result in world_of(ranks, arena_bytes, LONG, |mut shm| law::check(&mut shm, 7)) {
            result.unwrap_or_else(|e| panic!("{ranks} ranks, {arena_bytes} bytes: {e}"));
        }
    }
}

#[test]
fn sixty_four_mebibytes_and_one_are_summed() {
    let size = (64 << 20) / 4 + 1;
    let bytes = Shm::arena_bytes(WorldSize(2));
    for result in world_of(2, bytes, LONG, |mut shm| law::check_size(&mut shm, 3, size, ReduceOp::Sum)) {
        result.unwrap();
    }
}

#[test]
fn any_length_is_lent_and_summed_and_given_back() {
    let bytes = Shm::arena_bytes_for(WorldSize(3), 20_000_000);
    let lens = [1, 8193, 8_224, 100_003, 20_000_000, 20_000_001, 20_971_521, usize::MAX];
    for lent in world_of(3, bytes, LONG, |mut shm| lens.map(|len| shm.shared(len).is_some())) {
        // none that is short, and none longer than what was asked for, but for what huge pages round up
        assert_eq!(lent, [false, true, true, true, true, true, false, false]);
    }
    world_of(3, Shm::arena_bytes(WorldSize(3)), LONG, |mut shm| {
        let mut all: Vec<SharedF32> = std::iter::from_fn(|| shm.shared(5_000_000)).collect();
        assert_eq!(all.len(), 3);
        for (at, lent) in all.iter_mut().enumerate() {
            lent.fill((at + 1) as f32);
            assert!(lent.is_shared());
        }
        for lent in &mut all {
            shm.all_reduce_shared(lent, ReduceOp::Sum).unwrap();
        }
        all.remove(1);
        let again = shm.shared(5_000_000).unwrap();
        assert!(shm.shared(5_000_000).is_none());
        drop(shm);
        // the numbers outlive their collective
        assert!(again.iter().all(|number| *number == 0.));
        assert!(all.iter().zip([3., 9.]).all(|(lent, sum)| lent.iter().all(|number| *number == sum)));
    });
}

#[test]
fn numbers_of_elsewhere_are_summed_as_any_others() {
    let bytes = Shm::arena_bytes(WorldSize(2));
    world_of(2, bytes, LONG, |mut shm| {
        let rank = shm.rank();
        let mut own = SharedF32::from(vec![1.; 10_000]);
        shm.all_reduce_shared(&mut own, ReduceOp::Sum).unwrap();
        assert!(!own.is_shared() && own.iter().all(|number| *number == 2.));
        let mut foreign = world_of(1, bytes, LONG, |mut other| other.shared(10_000).unwrap()).remove(0);
        foreign.fill(rank.0 as f32);
        shm.all_reduce_shared(&mut foreign, ReduceOp::Sum).unwrap();
        assert!(foreign.is_shared() && foreign.iter().all(|number| *number == 1.));
    });
}

#[test]
fn lent_numbers_that_do_not_fit_are_named_and_withdrawn() {
    type Other = fn(&mut Shm, &mut SharedF32) -> Result<(), CollectiveError>;
    let others: [(Other, &str); 4] = [
        (|shm, _| shm.barrier(), "barrier"),
        (|shm, lent| shm.all_reduce(Buffer::F32(lent), ReduceOp::Sum), "all_reduce sum of 10000 f32"),
        (|shm, lent| shm.all_reduce_shared(lent, ReduceOp::Max), "maximum of 10000 f32 in shared memory at page 0"),
        (
            |shm, _| {
                let mut second = shm.shared(10_000).unwrap();
                shm.all_reduce_shared(&mut second, ReduceOp::Sum)
            },
            "sum of 10000 f32 in shared memory at page 10",
        ),
    ];
    for (other, name) in others {
        let results = world_of(2, Shm::arena_bytes(WorldSize(2)), LONG, |mut shm| {
            let mut lent = shm.shared(10_000).unwrap();
            lent.fill(1.);
            if shm.rank() == Rank(1) {
                return other(&mut shm, &mut lent);
            }
            let result = shm.all_reduce_shared(&mut lent, ReduceOp::Sum);
            assert!(!lent.is_shared() && lent.len() == 10_000 && lent.iter().all(|number| *number == 0.));
            assert!(shm.shared(10_000).is_none(), "memory lent after a failure");
            result
        });
        let text = results[0].as_ref().unwrap_err().to_string();
        assert!(text.contains(name) && text.contains("sum of 10000 f32 in shared memory at page 0"), "{text}");
        assert!(matches!(results[1], Err(CollectiveError::Mismatch { other: Rank(0), .. })));
    }
}

#[test]
fn calls_that_do_not_fit_are_named_on_all_ranks() {
    for ranks in 2..=4 {
        world_of(ranks, 1 << 20, LONG, |mut shm| {
            law::check_mismatch(&mut shm).unwrap();
            let again = shm.barrier();
            assert!(matches!(again, Err(CollectiveError::Mismatch { .. })), "{again:?} after a mismatch");
        });
    }
}

#[test]
fn other_lengths_kinds_and_roots_do_not_fit_either() {
    let reduce = |shm: &mut Shm, len: usize, op| shm.all_reduce(Buffer::F32(&mut vec![0.; len]), op);
    type Call = fn(&mut Shm) -> Result<(), CollectiveError>;
    let calls: [Call; 6] = [
        |shm| shm.barrier(),
        |shm| shm.broadcast(&mut [0; 400], Rank(0)),
        |shm| shm.broadcast(&mut [0; 400], Rank(1)),
        |shm| shm.all_gather(&[0; 400], &mut [0; 800]),
        |shm| shm.all_reduce(Buffer::F64(&mut [0.; 100]), ReduceOp::Sum),
        |shm| shm.all_reduce(Buffer::F32(&mut vec![0.; 1_000_000]), ReduceOp::Sum),
    ];
    for call in calls {
        let results = world_of(2, 1 << 20, LONG, |mut shm| {
            if shm.rank() == Rank(0) { reduce(&mut shm, 100, ReduceOp::Sum) } else { call(&mut shm) }
        });
        let text = results[1].as_ref().unwrap_err().to_string();
        assert!(text.contains("rank 0 is in all_reduce sum of 100 f32"), "{text}");
        assert!(matches!(results[0], Err(CollectiveError::Mismatch { other: Rank(1), .. })));
    }
}

#[test]
fn whoever_does_not_come_is_named_when_time_is_up() {
    let results =
        world_of(
            3,
            1 << 20,
            Duration::from_millis(200),
            |mut shm| {
                if shm.rank() == Rank(2) { Ok(()) } else { shm.barrier() }
            },
        );
    for result in &results[..2] {
        assert_eq!(*result, Err(CollectiveError::TimedOut(Rank(2), "barrier".into(), 0)));
    }
}

#[test]
fn a_raised_flag_ends_a_wait() {
    let (_memory, place) = memory(1 << 20).unwrap();
    let abort = Arc::new(AbortFlag::new());
    std::thread::scope(|scope| {
        let form = |rank| {
            let (place, abort) = (place.clone(), Arc::clone(&abort));
            move || Shm::form(&place, Rank(rank), WorldSize(2), LONG, abort).unwrap()
        };
        let first = scope.spawn(move || form(0)().barrier());
        let second = form(1)();
        abort.raise_lost(Rank(1), "killed by SIGKILL");
        assert_eq!(first.join().unwrap(), Err(CollectiveError::PeerLost(Rank(1), "barrier".into())));
        drop(second);
    });
}

const ROLE: &str = "FOXLAUNCH_TEST_SHM_ROLE";

/// Sums numbers of its own, or lent ones, until something goes wrong; what went wrong.
fn sum_for_ever(place: &ArenaPlace, rank: u32, lent: bool) -> CollectiveError {
    let formed = Shm::form(place, Rank(rank), WorldSize(3), LONG, Arc::new(AbortFlag::new()));
    let mut shm = match formed {
        Ok(shm) => shm,
        Err(error) => return error,
    };
    println!("\nsaid: formed");
    let mut data = if lent { shm.shared(100_000).unwrap() } else { vec![0f32; 100_000].into() };
    loop {
        if let Err(error) = shm.all_reduce_shared(&mut data, ReduceOp::Sum) {
            assert!(!data.is_shared());
            return error;
        }
    }
}

fn start_rank(place: &ArenaPlace, rank: u32, lent: bool) -> Child {
    let name = "collectives::shm::tests::a_killed_process_is_named_by_all_others";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(ROLE, format!("{rank} {lent} {} {}", place.bytes, place.path));
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The next thing that a child says.
fn said(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> String {
    lines.find_map(|line| line.unwrap().strip_prefix("said: ").map(str::to_owned)).expect("the child says something")
}

#[test]
fn a_killed_process_is_named_by_all_others() {
    if let Ok(role) = std::env::var(ROLE) {
        // this process is one of the ranks that the test below started
        let mut words = role.splitn(4, ' ');
        let mut word = || words.next().expect("rank, whether lent, bytes and path");
        let (rank, lent, bytes) = (word().parse().unwrap(), word().parse().unwrap(), word().parse().unwrap());
        println!("\nsaid: {}", sum_for_ever(&ArenaPlace { path: word().to_owned(), bytes }, rank, lent));
        return;
    }
    for (lent, call) in [(false, ""), (true, " in shared memory at page 0")] {
        kill_one_of_three(lent, &format!("all_reduce sum of 100000 f32{call}"));
    }
}

fn kill_one_of_three(lent: bool, call: &str) {
    let (_memory, place) = memory(Shm::arena_bytes(WorldSize(3))).unwrap();
    let [mut victim, mut witness] = [1, 2].map(|rank| start_rank(&place, rank, lent));
    let mut victims_lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut witness_lines = BufReader::new(witness.stdout.take().unwrap()).lines();
    let here = std::thread::spawn(move || (sum_for_ever(&place, 0, lent), Instant::now()));
    assert_eq!(said(&mut victims_lines), "formed");
    assert_eq!(said(&mut witness_lines), "formed");

    let killed = Instant::now();
    victim.kill().unwrap();
    let (error, at) = here.join().unwrap();
    let lost = CollectiveError::PeerLost(Rank(1), call.into());
    assert_eq!(error, lost);
    // a tenth of a second on an idle machine; this one may be busy
    assert!(at - killed < Duration::from_secs(5), "{:?}", at - killed);
    assert_eq!(said(&mut witness_lines), lost.to_string());
    victim.wait().unwrap();
    assert!(witness.wait().unwrap().success());
}

/// One call in a random sequence.
#[derive(Clone, Debug)]
enum Step {
    Reduce(usize, ReduceOp),
    ReduceShared(usize, ReduceOp),
    Gather(usize),
    Broadcast(usize, u32),
    Barrier,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let op = prop_oneof![Just(ReduceOp::Sum), Just(ReduceOp::Avg), Just(ReduceOp::Max)];
    let size = prop_oneof![0usize..100, 0usize..30_000];
    let step = prop_oneof![
        (size.clone(), op.clone()).prop_map(|(size, op)| Step::Reduce(size, op)),
        (8200usize..50_000, op).prop_map(|(size, op)| Step::ReduceShared(size, op)),
        size.clone().prop_map(Step::Gather),
        (size, 0u32..4).prop_map(|(size, root)| Step::Broadcast(size, root)),
        Just(Step::Barrier),
    ];
    proptest::collection::vec(step, 1..12)
}

fn run(shm: &mut Shm, at: usize, step: &Step) -> Result<(), String> {
    let byte = |rank: Rank, i: usize| (i * 31 + at * 7 + rank.index()) as u8;
    let bytes = |rank: Rank, size: usize| -> Vec<u8> { (0..size).map(|i| byte(rank, i)).collect() };
    let world = shm.world_size();
    let mine = shm.rank();
    match *step {
        Step::Reduce(size, op) => law::check_size(shm, at as u64, size, op),
        Step::ReduceShared(size, op) => law::check_shared(shm, at as u64, size, op),
        Step::Barrier => shm.barrier().map_err(|e| e.to_string()),
        Step::Gather(size) => {
            let mut all = vec![0; size * world.index()];
            shm.all_gather(&bytes(mine, size), &mut all).map_err(|e| e.to_string())?;
            let expected: Vec<u8> = world.ranks().flat_map(|rank| bytes(rank, size)).collect();
            (all == expected).then_some(()).ok_or_else(|| format!("gathered otherwise on rank {mine}"))
        }
        Step::Broadcast(size, root) => {
            let root = Rank(root % world.0);
            let mut data = bytes(mine, size);
            shm.broadcast(&mut data, root).map_err(|e| e.to_string())?;
            (data == bytes(root, size)).then_some(()).ok_or_else(|| format!("broadcast otherwise on rank {mine}"))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_sequence_of_calls_gives_what_a_plain_loop_gives(
        ranks in 1u32..=4, steps in steps(), arena_bytes in prop_oneof![80_000u64..400_000, 20_000_000u64..30_000_000],
    ) {
        let results = world_of(ranks, arena_bytes, LONG, |mut shm| {
            steps.iter().enumerate().try_for_each(|(at, step)| run(&mut shm, at, step))
        });
        for result in results {
            prop_assert_eq!(result, Ok(()));
        }
    }

    #[test]
    fn a_nan_is_never_hidden_by_a_maximum(a in any::<f32>(), b in any::<f32>()) {
        let larger = combine::larger(a, b);
        prop_assert_eq!(larger.is_nan(), a.is_nan() || b.is_nan());
        prop_assert!(larger.is_nan() || larger == a.max(b));
    }
}
