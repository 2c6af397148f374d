//! What a process that hangs is doing, as far as the kernel tells.

use std::path::Path;

/// Threads shown at most.
const MOST: usize = 16;

/// A line for each thread of `pid`: its name, its state, and where in the kernel it waits. The stack inside the
/// kernel, where this user may see it.
pub fn threads(pid: u32) -> Vec<String> {
    let folder = format!("/proc/{pid}/task");
    let mut tasks: Vec<_> =
        std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    tasks.sort();
    let more = tasks.len().saturating_sub(MOST);
    let mut lines: Vec<String> = tasks.iter().take(MOST).map(|task| thread(task)).collect();
    if more > 0 {
        lines.push(format!("and {more} threads more"));
    }
    lines
}

fn thread(task: &Path) -> String {
    let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default().trim().to_owned();
    let status = read("status");
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("gone").trim().to_owned();
    let mut line = format!("thread {:?}, {state}", read("comm"));
    match read("wchan").as_str() {
        "" | "0" => {}
        place => line += &format!(", waits in {place}"),
    }
    let stack = read("stack");
    let frames: Vec<&str> = stack.lines().filter_map(|frame| frame.split_whitespace().nth(1)).take(4).collect();
    if !frames.is_empty() {
        line += &format!(" ({})", frames.join(" < "));
    }
    line
}

#[cfg(test)]
mod tests {
    #[test]
    fn our_own_threads_are_seen() {
        let lines = super::threads(std::process::id());
        assert!(lines.iter().any(|line| line.starts_with("thread \"") && line.contains('(')), "{lines:?}");
        assert!(super::threads(u32::MAX).is_empty());
    }
}
