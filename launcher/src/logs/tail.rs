//! The last lines of a worker, for the report of its failure.

use std::collections::VecDeque;

/// How many lines are kept.
const LINES: usize = 20;
/// How much of one line is kept, in bytes.
const LINE_BYTES: usize = 2000;

/// The last lines.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    /// Adds a line; empty ones are left out, long ones are cut.
    pub fn push(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES)]);
        let text = super::prefix::printable(text.trim_end());
        if text.is_empty() {
            return;
        }
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(text);
    }

    /// The last `n` lines, in order.
    pub fn last(&self, n: usize) -> Vec<String> {
        self.lines.iter().skip(self.lines.len().saturating_sub(n)).cloned().collect()
    }
}
