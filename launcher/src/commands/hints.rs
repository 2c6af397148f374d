//! What a person should do about failures that everyone meets.

use crate::process::child::Ended;

/// Words in a worker's last lines, and what they mean. The first that fits is given.
const KNOWN: &[(&[&str], &str)] = &[
    (
        &["CUDA out of memory", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED", "torch.OutOfMemoryError"],
        "the device's memory is full: use a smaller batch or network, or see who else uses it (nvidia-smi)",
    ),
    (
        &["error while loading shared libraries"],
        "a library is missing: install it, or add its folder to LD_LIBRARY_PATH",
    ),
    (
        &["Address already in use", "EADDRINUSE"],
        "a port is taken: let the program use MASTER_PORT, which foxlaunch keeps free for it",
    ),
    (&["No space left on device"], "a disk is full: see df -h; for /dev/shm, see df -h /dev/shm"),
    (&["Duplicate GPU detected"], "two ranks use one device: pick it by LOCAL_RANK, or run with --visible own"),
    (&["ModuleNotFoundError", "ImportError"], "Python does not find a module: is this the right environment?"),
    (&["Too many open files"], "the limit of open files is too low: raise it with ulimit -n"),
    (&["Permission denied"], "a file or device may not be used by this user"),
];

/// What to do about a worker that ended as `how`, with `tail` as its last lines; `out_of_memory` says that the
/// kernel killed some process for lack of memory during the job.
pub fn hint(how: Option<Ended>, tail: &[String], out_of_memory: bool) -> Option<&'static str> {
    let from_words =
        KNOWN.iter().find(|(words, _)| words.iter().any(|word| tail.iter().any(|line| line.contains(word))));
    match how {
        Some(Ended::Signal(9)) if out_of_memory => {
            Some("the kernel killed a process for lack of memory: use fewer workers or less memory in each")
        }
        Some(Ended::Signal(7)) => Some("shared memory may be full: see df -h /dev/shm"),
        _ => from_words.map(|(_, hint)| *hint),
    }
}

/// How often the kernel killed a process for lack of memory since it started.
pub fn out_of_memory_kills() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everyone_meets_is_known() {
        let hint_of = |line: &str| hint(Some(Ended::Code(1)), &["x".to_owned(), line.to_owned()], false);
        assert!(hint_of("RuntimeError: CUDA out of memory. Tried").unwrap().contains("nvidia-smi"));
        assert!(
            hint_of("foo: error while loading shared libraries: libnccl.so.2").unwrap().contains("LD_LIBRARY_PATH")
        );
        assert!(hint_of("bind: Address already in use").unwrap().contains("MASTER_PORT"));
        assert_eq!(hint_of("all is well"), None);
    }

    #[test]
    fn a_kill_is_put_down_to_memory_only_if_the_kernel_says_so() {
        assert_eq!(hint(Some(Ended::Signal(9)), &[], false), None);
        assert!(hint(Some(Ended::Signal(9)), &[], true).unwrap().contains("lack of memory"));
    }
}
