//! Pipes that hold more than the kernel gives them, so that a worker that prints much waits less often.

use std::os::fd::AsFd;
use std::process::Child;

/// Lets the outputs of `child` hold up to `bytes`. Where the kernel refuses, they stay as they are.
pub fn widen_outputs(child: &Child, bytes: usize) {
    let outputs = [child.stdout.as_ref().map(AsFd::as_fd), child.stderr.as_ref().map(AsFd::as_fd)];
    for pipe in outputs.into_iter().flatten() {
        let _ = rustix::pipe::fcntl_setpipe_size(pipe, bytes);
    }
}
