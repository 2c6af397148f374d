//! Faults that users of other launchers reported, each as one test named by its number and its kind. A case stands
//! for its kind: siblings are tried beside it.
//!
//! Where the machine of a test cannot have the fault, since it takes a GPU, the table says which check shows it.

mod blame;
mod devices;
mod dying;
mod output;
mod stopping;

use crate::source::text;

/// Every case: its number, its kind, and where it is shown.
const CASES: &[(u32, &str, &str)] = &[
    (1, "a grace that is not configurable", "stopping.rs"),
    (2, "a serial shutdown", "stopping.rs"),
    (3, "a missing wait after a signal", "stopping.rs"),
    (5, "a signal not forwarded", "stopping.rs"),
    (6, "an ignored signal's disposition overwritten", "stopping.rs"),
    (8, "orphans", "dying.rs"),
    (9, "a death signal that follows a thread", "dying.rs"),
    (11, "a shell between us and the program", "dying.rs"),
    (12, "grandchildren", "dying.rs"),
    (13, "inherited descriptors", "dying.rs"),
    (15, "an unbounded reap", "dying.rs"),
    (17, "a child that touches the terminal", "output.rs"),
    (19, "a leaked pipe", "output.rs"),
    (20, "bytes that are no UTF-8", "output.rs"),
    (21, "a pipe that is not drained", "output.rs"),
    (22, "lines split at the wrong place", "output.rs"),
    (23, "a full disk", "output.rs"),
    (25, "a failure with code 0", "blame.rs"),
    (27, "a victim blamed", "blame.rs"),
    (28, "a partial failure", "blame.rs"),
    (30, "a storm of restarts", "blame.rs"),
    (33, "a port in use", "devices.rs"),
    (35, "device lists that are no numbers", "devices.rs"),
    (36, "an inherited device list ignored", "devices.rs"),
    (39, "too many threads", "devices.rs"),
    (40, "a rank that fails before it joins", "blame.rs"),
    (41, "an abort that hangs", "scripts/gpu_check.sh: check2 kill-in-call"),
    (42, "a hang without a name", "blame.rs"),
    (43, "a long phase taken for a hang", "blame.rs"),
    (44, "shared memory left behind", "dying.rs"),
    (45, "device memory not yet free", "scripts/gpu_check.sh: check memory-after-a-kill"),
    (46, "a driver that does not answer", "devices.rs"),
    (48, "helpers signalled before their leader", "stopping.rs"),
];

#[test]
fn every_case_is_shown_somewhere() {
    for (number, kind, place) in CASES {
        let (file, proof) = match place.split_once(": ") {
            Some((file, proof)) => (file.to_owned(), proof.to_owned()),
            None => (format!("tests/it/faults/{place}"), format!("#[test]\nfn case_{number:02}_")),
        };
        assert!(text(&file).contains(&proof), "case {number}, {kind}: {file} lacks {proof:?}");
    }
    assert_eq!(CASES.len(), 33);
}
