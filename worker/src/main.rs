//! `foxlaunch-worker`: one process of a training.

use std::process::ExitCode;

fn main() -> ExitCode {
    foxlaunch_worker::jobs::main()
}
