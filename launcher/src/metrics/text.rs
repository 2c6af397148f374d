//! Prometheus' text format, version 0.0.4: for each metric its help, its type, and a line for each set of labels.

use super::Numbers;
use std::fmt::{Display, Write};

/// Writes `numbers`, and the launcher's own `resident` memory in bytes where it is known.
pub(super) fn write(numbers: &Numbers, resident: Option<u64>) -> String {
    let mut page = Page::default();
    page.metric("foxlaunch_up", "gauge", "1 while the job runs.");
    page.value(&[], 1);
    page.metric("foxlaunch_run_info", "gauge", "The run's name, what it does, and foxlaunch's version; always 1.");
    page.value(&[("run", &numbers.run), ("verb", &numbers.verb), ("version", &env!("CARGO_PKG_VERSION"))], 1);
    page.metric("foxlaunch_attempt", "gauge", "Which start of the world this is, from 1.");
    page.value(&[], numbers.attempt);
    page.metric("foxlaunch_restarts_total", "counter", "How often the world was started again.");
    page.value(&[], numbers.restarts);
    if let Some(resident) = resident {
        page.metric("foxlaunch_launcher_resident_memory_bytes", "gauge", "Memory of the supervisor.");
        page.value(&[], resident);
    }
    page.metric("foxlaunch_rank_up", "gauge", "1 while the rank's process lives.");
    numbers.ranks.iter().for_each(|(rank, of)| page.value(&[("rank", rank)], u8::from(of.is_up)));
    page.metric("foxlaunch_rank_step", "gauge", "Steps that the rank has done; a restart may set it back.");
    numbers.ranks.iter().for_each(|(rank, of)| page.value(&[("rank", rank)], of.step));
    page.metric("foxlaunch_rank_collectives", "gauge", "Collective calls that the rank has entered in this attempt.");
    numbers.ranks.iter().for_each(|(rank, of)| page.value(&[("rank", rank)], of.collectives));
    page.metric("foxlaunch_rank_progress_age_seconds", "gauge", "Time since the rank's counters last changed.");
    for (rank, of) in &numbers.ranks {
        of.progress.iter().for_each(|at| page.value(&[("rank", rank)], at.elapsed().as_secs_f64()));
    }
    page.metric("foxlaunch_rank_exit_code", "gauge", "How the rank ended: its code, or 128 + the signal.");
    for (rank, of) in &numbers.ranks {
        of.exit_code.iter().for_each(|code| page.value(&[("rank", rank)], code));
    }
    page.metric("foxlaunch_rank_log_bytes_total", "counter", "Bytes that the rank has printed, over all attempts.");
    numbers.logged.keys().for_each(|rank| page.value(&[("rank", rank)], numbers.logged_of(*rank)));
    if !numbers.gpus.is_empty() {
        page.metric("foxlaunch_gpu_memory_used_bytes", "gauge", "Memory in use on each GPU of this host, by anyone.");
        numbers.gpus.iter().for_each(|gpu| page.value(&[("gpu", &gpu.index), ("uuid", &gpu.uuid)], gpu.used));
        page.metric("foxlaunch_gpu_memory_total_bytes", "gauge", "Memory of each GPU of this host.");
        numbers.gpus.iter().for_each(|gpu| page.value(&[("gpu", &gpu.index), ("uuid", &gpu.uuid)], gpu.total));
    }
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    name: &'static str,
}

impl Page {
    fn metric(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn value(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{}{labels} {value}", self.name);
    }
}

/// A label's value: backslash, quote and line end are escaped.
fn escaped(value: &dyn Display) -> String {
    value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use crate::metrics::Gauges;
    use foxlaunch_shared::ids::{Attempt, Rank};
    use std::sync::atomic::Ordering;

    #[test]
    fn the_page_says_what_happened() {
        let gauges = Gauges::new("a \"run\"\\\n", "train dqn", Attempt(1));
        gauges.spawned(Attempt(1), Rank(0));
        gauges.spawned(Attempt(1), Rank(1));
        gauges.progress(Attempt(1), Rank(0), 12, 34);
        gauges.exited(Attempt(1), Rank(1), 137);
        gauges.logged(Rank(0)).fetch_add(5, Ordering::Relaxed);
        let page = gauges.to_text();
        for line in [
            "foxlaunch_up 1",
            "foxlaunch_attempt 1",
            "foxlaunch_restarts_total 0",
            "foxlaunch_rank_up{rank=\"0\"} 1",
            "foxlaunch_rank_up{rank=\"1\"} 0",
            "foxlaunch_rank_step{rank=\"0\"} 12",
            "foxlaunch_rank_collectives{rank=\"0\"} 34",
            "foxlaunch_rank_exit_code{rank=\"1\"} 137",
            "foxlaunch_rank_log_bytes_total{rank=\"0\"} 5",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
        assert!(page.contains("run=\"a \\\"run\\\"\\\\\\n\",verb=\"train dqn\""), "{page}");
        let values = page.lines().filter(|line| !line.starts_with('#'));
        values.for_each(|line| assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok(), "{line}"));
        gauges.restarted();
        gauges.spawned(Attempt(2), Rank(0));
        gauges.progress(Attempt(1), Rank(0), 99, 99);
        let page = gauges.to_text();
        assert!(page.contains("foxlaunch_rank_step{rank=\"0\"} 0\n") && !page.contains("exit_code{"), "{page}");
    }
}
