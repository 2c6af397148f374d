//! What a worker and everything it started use: the processes below it, and their CPU time.

use std::collections::BTreeMap;

/// What `/proc/PID/stat` says that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    parent: u32,
    session: u32,
    /// Clock ticks of itself and of its children that were waited for.
    ticks: u64,
}

/// All processes of this machine at one moment.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    all: BTreeMap<u32, Entry>,
}

impl Processes {
    /// Reads `/proc` once.
    pub fn read() -> Processes {
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let entry = |pid: u32| Some((pid, parse(&super::read_text(format!("/proc/{pid}/stat")).ok()?)?));
        Processes { all: pids.filter_map(entry).collect() }
    }

    /// `root` first, then what it started: its descendants, and what is in its session or descends from that, since
    /// an orphan leaves its parent but seldom its session.
    pub fn tree(&self, root: u32) -> Vec<u32> {
        let belongs = |mut pid: u32| {
            // A chain of parents cannot be longer than all processes, whatever was read between two changes.
            for _ in 0..=self.all.len() {
                let Some(entry) = self.all.get(&pid) else { return false };
                if pid == root || entry.session == root {
                    return true;
                }
                pid = entry.parent;
            }
            false
        };
        let below = self.all.keys().copied().filter(|pid| *pid != root && belongs(*pid));
        self.all.contains_key(&root).then_some(root).into_iter().chain(below).collect()
    }

    /// CPU time of the tree of `root` so far, in clock ticks (usually of 10 ms).
    pub fn ticks(&self, root: u32) -> u64 {
        self.tree(root).iter().filter_map(|pid| self.all.get(pid)).map(|entry| entry.ticks).sum()
    }
}

fn parse(text: &str) -> Option<Entry> {
    // The name is in parentheses and may itself hold any of " )(": it ends at the last one.
    let (_, tail) = text.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Entry { parent: fields.get(1)?.parse().ok()?, session: fields.get(3)?.parse().ok()?, ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: u32, parent: u32, session: u32, ticks: u64) -> (u32, Entry) {
        let text = format!("{pid} (a) b) S {parent} 1 {session} 0 -1 0 0 0 0 0 {ticks} 1 2 3 20 0 1 0 777 0 0");
        (pid, parse(&text).unwrap())
    }

    #[test]
    fn the_time_of_a_tree_is_that_of_all_in_it() {
        let all =
            [line(10, 1, 10, 5), line(11, 10, 10, 7), line(12, 11, 12, 1), line(13, 1, 10, 2), line(20, 1, 20, 9)];
        let processes = Processes { all: all.into_iter().collect() };
        assert_eq!(processes.tree(10), [10, 11, 12, 13], "an orphan in its session counts, a neighbour does not");
        assert_eq!(processes.ticks(10), 5 + 7 + 1 + 2 + 4 * 6);
        assert!(processes.tree(99).is_empty() && processes.ticks(99) == 0);
        assert_eq!(parse("7 (cut"), None);
    }

    #[test]
    fn parents_that_go_round_end() {
        let processes = Processes { all: [line(5, 6, 5, 0), line(6, 5, 5, 0)].into_iter().collect() };
        assert!(processes.tree(1).is_empty());
    }

    #[test]
    fn our_own_time_grows() {
        let own = std::process::id();
        let before = Processes::read().ticks(own);
        let start = std::time::Instant::now();
        let mut sum = 0u64;
        while Processes::read().ticks(own) == before {
            sum = std::hint::black_box(sum + 1);
            assert!(start.elapsed().as_secs() < 60, "a minute of reading /proc costs no time");
        }
    }
}
