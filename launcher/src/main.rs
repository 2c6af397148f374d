//! One call: everything is in the library, so that tests run the same.

fn main() -> std::process::ExitCode {
    foxlaunch::main()
}
