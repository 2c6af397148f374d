//! The last lines of a worker, for the report of its failure.

use std::collections::VecDeque;

/// How many lines are kept.
pub(super) const LINES: usize = 20;
/// How much of one line is kept, in bytes.
const LINE_BYTES: usize = 2000;

/// The last lines, as they were written.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<Vec<u8>>,
}

impl Tail {
    /// Adds a line; empty ones are left out, long ones are cut.
    pub fn push(&mut self, line: &[u8]) {
        let line = line[..line.len().min(LINE_BYTES)].trim_ascii_end();
        if line.is_empty() {
            return;
        }
        // The memory of the oldest serves the newest.
        let full = self.lines.len() >= LINES;
        let mut place = if full { self.lines.pop_front().unwrap_or_default() } else { Vec::new() };
        place.clear();
        place.extend_from_slice(line);
        self.lines.push_back(place);
    }

    /// The last `n` lines, in order, as they may be shown.
    pub fn last(&self, n: usize) -> Vec<String> {
        let shown = |line: &Vec<u8>| super::prefix::printable(&String::from_utf8_lossy(line));
        self.lines.iter().skip(self.lines.len().saturating_sub(n)).map(shown).collect()
    }
}
