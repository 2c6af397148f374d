//! On which cores workers run, and with how many threads.

use crate::session::{Ended, Session};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

const SHOW: &str =
    "grep Cpus_allowed_list /proc/self/status | cut -f2 > cores.$RANK; echo $OMP_NUM_THREADS > omp.$RANK";

/// The workers of a plan, as JSON.
fn workers(session: &Session) -> Vec<serde_json::Value> {
    let plan: serde_json::Value = serde_json::from_str(&session.read("run/plan.json")).unwrap();
    plan["workers"].as_array().unwrap().clone()
}

fn cores_here() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap()).collect()
}

/// Runs on one core only.
fn on_one_core(session: &Session, options: &str) -> Ended {
    std::thread::scope(|scope| {
        let run = || {
            let mut one = CpuSet::new();
            one.set(cores_here()[0]).unwrap();
            sched_setaffinity(Pid::from_raw(0), &one).unwrap();
            session.sh(options, SHOW)
        };
        scope.spawn(run).join().unwrap()
    })
}

#[test]
fn workers_run_where_the_plan_says() {
    let session = Session::new();
    let ended = session.sh("--cpu --nproc 2 --bind cores", SHOW);
    ended.assert_code(0);
    let planned: Vec<_> = workers(&session).iter().map(|worker| worker["cores"].clone()).collect();
    let seen = [session.read("cores.0"), session.read("cores.1")];
    if cores_here().len() < 2 {
        eprintln!("SKIPPED: one core cannot be shared out");
        assert!(planned.iter().all(serde_json::Value::is_null));
        return;
    }
    for (planned, seen) in planned.iter().zip(&seen) {
        assert_eq!(planned.as_str(), Some(seen.trim()));
    }
    assert_ne!(seen[0], seen[1]);
    assert_eq!(ended.err.matches("--bind none leaves it").count(), 1, "{}", ended.err);
}

#[test]
fn nothing_is_bound_on_the_processor_unless_asked() {
    for options in ["--cpu --nproc 2", "--cpu --nproc 2 --bind none"] {
        let session = Session::new();
        assert_eq!(session.sh(options, SHOW).assert_code(0).err, "");
        let own = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
        assert_eq!((session.read("cores.0").trim(), session.read("cores.1").trim()), (own.as_str(), own.as_str()));
        assert!(workers(&session).iter().all(|worker| worker["cores"].is_null()));
    }
}

#[test]
fn threads_are_a_share_of_the_cores_that_are_allowed() {
    let session = Session::new();
    on_one_core(&session, "--cpu --nproc 1").assert_code(0);
    assert_eq!((session.read("omp.0").as_str(), session.read("cores.0")), ("1\n", format!("{}\n", cores_here()[0])));
    let session = Session::new();
    session.sh("--cpu --nproc 2", SHOW).assert_code(0);
    let share = (std::thread::available_parallelism().unwrap().get() / 2).max(1);
    assert_eq!(session.read("omp.0").trim(), share.to_string());
}
