//! Hangs are seen by progress, not by liveness.

use crate::session::Session;

const STUB: &str = env!("CARGO_BIN_EXE_fox-test-stub");

/// Run by its case in `faults/`.
pub(crate) fn the_rank_that_is_stuck_is_named_and_the_job_ends() {
    let session = Session::new();
    let options = "--cpu --nproc 3 --hang-timeout 1s --peer-grace 500ms";
    let ended = session.run(&format!("{options} run --out run -- {STUB} stuck"));
    ended.assert_code(foxlaunch_shared::exit::HANG);
    let last = ended.last_line();
    assert!(last.contains("rank 1 failed first: it hangs: no progress for"), "{}", ended.err);
    assert!(last.contains("at step 7") && last.contains("rank 0 waits in collective 8"), "{}", ended.err);
    assert!(ended.err.contains("  rank 1: thread "), "what it does is shown: {}", ended.err);
    session.assert_clean();
}

/// Run by its case in `faults/`.
pub(crate) fn what_takes_long_and_says_so_is_no_hang() {
    let session = Session::new();
    let options = "--cpu --nproc 2 --hang-timeout 1s --init-timeout 20s";
    let ended = session.run(&format!("{options} run --out run -- {STUB} slow-phases"));
    ended.assert_code(0);
    assert_eq!(ended.err, "");
}

#[test]
fn a_program_that_says_nothing_is_never_overdue() {
    let session = Session::new();
    session.sh("--cpu --hang-timeout 100ms --init-timeout 100ms", "sleep 1").assert_code(0);
}
