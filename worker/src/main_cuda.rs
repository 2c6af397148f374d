//! `foxlaunch-worker-cuda`: the same program, built with CUDA.

use std::process::ExitCode;

fn main() -> ExitCode {
    foxlaunch_worker::jobs::main()
}
