//! Short jobs under load, each losing a random process at a random moment: nothing is left, the cause is right, and
//! so is the code.

use crate::session::{Running, Session, children, kill};
use crate::training::{SHORT, assert_same, numbers};
use nix::sys::signal::Signal::SIGKILL;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Jobs, and how many run side by side: more than there are cores, so that nothing happens when it is convenient.
/// `FOXLAUNCH_CHAOS_JOBS=1000 cargo test -p foxlaunch-tests --test it chaos` is the longer run.
const JOBS: u64 = 100;
const SIDE_BY_SIDE: u64 = 6;
/// Trainings, of which each takes as long as ten of those.
const TRAININGS: u64 = 10;
const STEPS: &str = "--set train.checkpoint_every=20 --set train.log_every=5";

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

impl Victim {
    /// Kills it, if it lives: its pid.
    fn strike(self, job: &Running) -> Option<u32> {
        let guardian = job.pid();
        let supervisor = children(guardian).first().copied();
        let worker = supervisor.and_then(|pid| children(pid).first().copied());
        let struck = match self {
            Victim::Guardian | Victim::Both => Some(guardian),
            Victim::Outliver => children(guardian).get(1).copied(),
            Victim::Supervisor => supervisor,
            Victim::Worker => worker,
            Victim::Grandchild => worker.and_then(|pid| children(pid).first().copied()),
        };
        struck.into_iter().for_each(|pid| kill(pid, SIGKILL));
        if self == Victim::Both {
            supervisor.into_iter().for_each(|pid| kill(pid, SIGKILL));
        }
        struck
    }
}

fn one_job(n: u64) {
    let session = Session::new();
    let victim = VICTIMS[(random(n) % 6) as usize];
    // a job takes about 150 ms; the last strikes come after its end, which must do no harm either
    let moment = Duration::from_micros(random(n + 1000) % 180_000);
    let job =
        session.start("--cpu --nproc 2 --peer-grace 2s run --out run -- sh -c", "sh -c 'sleep 0.12; :' & wait; exit 0");
    std::thread::sleep(moment);
    let struck = victim.strike(&job);
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

/// Jobs at once, more than there are cores.
fn side_by_side(jobs: u64, job: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for lane in 0..SIDE_BY_SIDE {
            let job = &job;
            scope.spawn(move || (lane..jobs).step_by(SIDE_BY_SIDE as usize).for_each(job));
        }
    });
}

fn jobs() -> Option<u64> {
    std::env::var("FOXLAUNCH_CHAOS_JOBS").ok().map(|text| text.parse().expect("a number of jobs"))
}

#[test]
fn whatever_dies_whenever_nothing_is_left() {
    side_by_side(jobs().unwrap_or(JOBS), one_job);
}

/// A training that loses a random process at a random moment, twice. A worker is started again by the launcher; if the
/// launcher itself dies, its user types the line to resume.
fn one_training(n: u64, whole: &BTreeMap<String, Vec<u8>>, takes: Duration) {
    let session = Session::new();
    let begin = format!("--cpu --nproc 2 --max-restarts 5 {SHORT} {STEPS} --out run");
    let resume = "--cpu --nproc 2 --max-restarts 5 train dqn --resume run";
    let mut said = String::new();
    for strike in 0..3 {
        let words = if session.path("run/checkpoints/latest").exists() { resume } else { &begin };
        // a run that had no checkpoint is begun anew
        if words == begin {
            let _ = std::fs::remove_dir_all(session.path("run"));
        }
        let job = session.start(words, "");
        let mut struck = None;
        if strike < 2 {
            let part = random(3 * n + strike) % 1000;
            std::thread::sleep(takes * part as u32 / 1000);
            let victim = VICTIMS[(random(7 * n + strike) % 6) as usize];
            struck = victim.strike(&job).map(|_| victim);
        }
        let ended = job.end();
        said += &format!("{struck:?}: {ended:?}\n");
        assert!(!ended.err.contains("panicked"), "job {n}: {said}");
        if ended.code == 0 {
            break;
        }
        session.assert_gone_within(Duration::from_secs(2));
        let right: &[i32] = match struck {
            Some(Victim::Guardian | Victim::Both) => &[-9],
            Some(Victim::Supervisor) => &[foxlaunch_shared::exit::SUPERVISOR_LOST],
            // before the job there are workers of which the launcher asks what they are and would do
            Some(Victim::Worker) if ended.err.contains(" was killed by signal 9 (SIGKILL) when it was asked") => &[137],
            Some(Victim::Worker) if ended.err.contains(": it was killed by signal 9 (SIGKILL)") => &[69],
            _ => &[],
        };
        assert!(right.contains(&ended.code), "job {n}: {said}");
    }
    assert!(session.path("run/report.json").exists(), "job {n} did not end: {said}");
    assert_same(whole, &numbers(&session.run_dir("run")));
    session.assert_gone_within(Duration::from_secs(2));
}

#[test]
fn whatever_dies_whenever_a_training_ends_with_the_same_bits() {
    let session = Session::new();
    let began = Instant::now();
    session.run(&format!("--cpu --nproc 2 {SHORT} {STEPS} --out whole")).assert_code(0);
    // beside others it takes longer
    let takes = began.elapsed() * 2;
    let whole = numbers(&session.run_dir("whole"));
    side_by_side(jobs().map_or(TRAININGS, |jobs| jobs / 10), |n| one_training(n, &whole, takes));
}
