//! Short jobs under load, each losing a random process at a random moment: nothing is left, the cause is right, and
//! so is the code.

use crate::session::{Session, children, kill};
use nix::sys::signal::Signal::SIGKILL;
use std::time::Duration;

/// Jobs, and how many run side by side: more than there are cores, so that nothing happens when it is convenient.
/// `FOXLAUNCH_CHAOS_JOBS=1000 cargo test -p foxlaunch-tests --test it chaos` is the longer run.
const JOBS: u64 = 100;
const SIDE_BY_SIDE: u64 = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Guardian,
    Supervisor,
    Worker,
    Grandchild,
    /// The process that outlives guardian and supervisor, where there is one.
    Outliver,
    /// Guardian and supervisor, in one moment.
    Both,
}

const VICTIMS: [Victim; 6] =
    [Victim::Guardian, Victim::Supervisor, Victim::Worker, Victim::Grandchild, Victim::Outliver, Victim::Both];

/// splitmix64: job `n`'s numbers are always the same, so a failure can be repeated.
fn random(n: u64) -> u64 {
    let mut x = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn one_job(n: u64) {
    let session = Session::new();
    let victim = VICTIMS[(random(n) % 6) as usize];
    // a job takes about 150 ms; the last strikes come after its end, which must do no harm either
    let moment = Duration::from_micros(random(n + 1000) % 180_000);
    let job =
        session.start("--cpu --nproc 2 --peer-grace 2s run --out run -- sh -c", "sh -c 'sleep 0.12; :' & wait; exit 0");
    std::thread::sleep(moment);
    let guardian = job.pid();
    let supervisor = children(guardian).first().copied();
    let worker = supervisor.and_then(|pid| children(pid).first().copied());
    let struck = match victim {
        Victim::Guardian | Victim::Both => Some(guardian),
        Victim::Outliver => children(guardian).get(1).copied(),
        Victim::Supervisor => supervisor,
        Victim::Worker => worker,
        Victim::Grandchild => worker.and_then(|pid| children(pid).first().copied()),
    };
    struck.into_iter().for_each(|pid| kill(pid, SIGKILL));
    if victim == Victim::Both {
        supervisor.into_iter().for_each(|pid| kill(pid, SIGKILL));
    }
    let ended = job.end();
    let right: &[i32] = match (victim, struck) {
        (_, None) | (Victim::Grandchild | Victim::Outliver, _) => &[0],
        (Victim::Guardian | Victim::Both, _) => &[-9, 0],
        // struck before its own start or after the job's end it is not missed
        (Victim::Supervisor, _) => &[foxlaunch_shared::exit::SUPERVISOR_LOST, 0],
        (Victim::Worker, _) => &[137, 0],
    };
    let what = format!("job {n}, {victim:?} {struck:?} after {moment:?}: {ended:?}");
    assert!(right.contains(&ended.code), "{what}");
    assert!(!ended.err.contains("panicked"), "{what}");
    if ended.code == 137 {
        let last = ended.last_line();
        assert!(last.contains("failed first: it was killed by signal 9"), "{what}");
    }
    if ended.code == 0 {
        assert!(!ended.err.contains("failed first"), "{what}");
    }
    match victim {
        // its socket folder is removed by the supervisor, a moment later
        Victim::Guardian | Victim::Both => session.assert_gone_within(Duration::from_secs(2)),
        _ => session.assert_clean(),
    }
}

#[test]
fn whatever_dies_whenever_nothing_is_left() {
    let jobs = std::env::var("FOXLAUNCH_CHAOS_JOBS").map_or(JOBS, |text| text.parse().expect("a number of jobs"));
    std::thread::scope(|scope| {
        for lane in 0..SIDE_BY_SIDE {
            scope.spawn(move || (lane..jobs).step_by(SIDE_BY_SIDE as usize).for_each(one_job));
        }
    });
}
