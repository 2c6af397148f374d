//! The worker, as a program of this package: tests can only find those.

fn main() -> std::process::ExitCode {
    foxlaunch_worker::jobs::main()
}
