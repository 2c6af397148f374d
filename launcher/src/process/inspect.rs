//! What a process that hangs is doing, as far as the kernel tells.

use super::usage::Processes;
use nix::libc;
use std::collections::BTreeMap;
use std::path::Path;

/// Threads shown at most, over all processes.
const MOST: usize = 16;
/// Frames of a kernel stack shown at most.
const FRAMES: usize = 6;

/// A line for each thread of `pid` and of what it started: its name, its state, where in the kernel it waits, in which
/// system call, and the stack inside the kernel. The last line says what this user may not read.
pub fn threads(pid: u32) -> Vec<String> {
    let mut unread = BTreeMap::new();
    let mut lines = Vec::new();
    let mut more = 0;
    for process in Processes::read().tree(pid) {
        let folder = format!("/proc/{process}/task");
        let mut tasks: Vec<_> =
            std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        tasks.sort();
        for task in tasks {
            match lines.len() < MOST {
                true => lines.push(thread(&task, process, &mut unread)),
                false => more += 1,
            }
        }
    }
    if more > 0 {
        lines.push(format!("and {more} threads more"));
    }
    if !unread.is_empty() {
        let list: Vec<String> = unread.into_iter().map(|(name, why)| format!("{name} ({why})")).collect();
        lines.push(format!("could not be read: {}", list.join(", ")));
    }
    lines
}

fn thread(task: &Path, process: u32, unread: &mut BTreeMap<&'static str, String>) -> String {
    let mut read = |name: &'static str| match super::read_text(task.join(name)) {
        Ok(text) => text.trim().to_owned(),
        Err(error) => {
            unread.entry(name).or_insert_with(|| error.kind().to_string());
            String::new()
        }
    };
    let status = read("status");
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("gone").trim().to_owned();
    let number = task.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of = if number == process.to_string() { String::new() } else { format!(" of process {process}") };
    let mut line = format!("thread {:?} ({number}{of}), {state}", read("comm"));
    match read("wchan").as_str() {
        "" | "0" => {}
        place => line += &format!(", waits in {place}"),
    }
    if let Some(call) = system_call(&read("syscall")) {
        line += &format!(", system call {call}");
    }
    let stack = read("stack");
    let frames: Vec<&str> = stack.lines().filter_map(|frame| frame.split_whitespace().nth(1)).take(FRAMES).collect();
    if !frames.is_empty() {
        line += &format!(", kernel stack {}", frames.join(" < "));
    }
    line
}

/// The system call in which a thread is, as `/proc/PID/task/TID/syscall` has it: by name where it is one in which
/// programs usually wait, else by number. A thread that computes is in none.
fn system_call(text: &str) -> Option<String> {
    let number: i64 = text.split_whitespace().next()?.parse().ok()?;
    let known = [
        (libc::SYS_futex, "futex"),
        (libc::SYS_read, "read"),
        (libc::SYS_readv, "readv"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_write, "write"),
        (libc::SYS_fsync, "fsync"),
        (libc::SYS_ppoll, "ppoll"),
        (libc::SYS_pselect6, "pselect6"),
        (libc::SYS_epoll_pwait, "epoll_pwait"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_nanosleep, "nanosleep"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_waitid, "waitid"),
        (libc::SYS_accept4, "accept4"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_flock, "flock"),
        (libc::SYS_ioctl, "ioctl"),
        (libc::SYS_rt_sigsuspend, "rt_sigsuspend"),
        (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_poll, "poll"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_select, "select"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_epoll_wait, "epoll_wait"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_pause, "pause"),
    ];
    let name = known.iter().find(|(known, _)| *known == number).map(|(_, name)| (*name).to_owned());
    (number >= 0).then(|| name.unwrap_or_else(|| number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_threads_are_seen() {
        let lines = threads(std::process::id());
        assert!(lines.iter().any(|line| line.starts_with("thread \"") && line.contains('(')), "{lines:?}");
        assert!(threads(u32::MAX).is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("status"), "Name:\tx\nState:\tD (disk sleep)\n").unwrap();
        std::fs::write(folder.path().join("syscall"), format!("{} 0x1 0x0\n", libc::SYS_futex)).unwrap();
        std::fs::write(folder.path().join("stack"), "[<0>] nv_wait+0x1/0x2\n[<0>] nv_ioctl+0x3/0x4\n").unwrap();
        let mut unread = BTreeMap::new();
        let line = thread(folder.path(), 7, &mut unread);
        assert!(line.contains("D (disk sleep), system call futex, kernel stack nv_wait+0x1/0x2 < nv_ioctl"), "{line}");
        assert_eq!(
            unread.into_iter().collect::<Vec<_>>(),
            [("comm", "entity not found".to_owned()), ("wchan", "entity not found".to_owned())]
        );
    }

    #[test]
    fn system_calls_have_names_or_numbers() {
        assert_eq!(system_call("running"), None);
        assert_eq!(system_call("-1 0x7ffe 0x1"), None);
        assert_eq!(system_call(""), None);
        assert_eq!(system_call("9999 0x1"), Some("9999".to_owned()));
    }
}
