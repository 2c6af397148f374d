//! How processes are named that should be gone.

use super::Actor;
use crate::process::descendants::{self, Descendant};

/// How many are named.
const MOST_NAMED: usize = 20;

/// The processes by pid and name; of very many, the first ones and their number.
pub(super) fn describe(processes: &[Descendant]) -> Vec<String> {
    let names = processes.iter().map(|process| format!("{} ({})", process.pid, process.name));
    let more = processes.len().saturating_sub(MOST_NAMED);
    names.take(MOST_NAMED).chain((more > 0).then(|| format!("and {more} more"))).collect()
}

impl Actor<'_> {
    /// What was killed and is not gone: processes that live, and workers that ended without a word of it to us, as
    /// under a debugger.
    pub(super) fn unkillable(&self, left: &[Descendant]) -> Vec<String> {
        let is_left = |pid: u32| left.iter().any(|process| process.pid == pid);
        let unseen = self.running.iter().filter(|(_, running)| running.listener.is_some() && !is_left(running.pid));
        let workers = unseen.map(|(rank, running)| descendants::stuck(running.pid, &format!("rank {rank}")));
        left.iter().map(Descendant::describe).chain(workers).collect()
    }
}
