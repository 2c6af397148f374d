//! Lines out of a stream of bytes, each to be shown with its worker's number.

/// A line longer than this is shown in pieces: nothing a worker prints may fill our memory.
const LONGEST: usize = 64 * 1024;

/// Splits a stream at `\n` and at `\r`, so that a progress bar shows while it moves. A character cut by a read is
/// joined again, since only whole lines are given out.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes the next bytes and calls `line` for each line that is whole now, without its end.
    pub fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, ended) = match piece.split_last() {
                Some((b'\n' | b'\r', text)) => (text, true),
                _ => (piece, false),
            };
            self.rest.extend_from_slice(text);
            while self.rest.len() > LONGEST {
                let after = self.rest.split_off(LONGEST);
                line(&self.rest);
                self.rest = after;
            }
            // The `\n` of `\r\n`, and the `\r` before a bar's next state, end nothing.
            if ended && !self.rest.is_empty() {
                line(&self.rest);
                self.rest.clear();
            } else if ended && text.is_empty() && piece == b"\n" {
                line(b"");
            }
        }
    }

    /// Gives out what stands there without an end, at the end of the stream.
    pub fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.rest.is_empty() {
            line(&self.rest);
            self.rest.clear();
        }
    }
}

/// `text` without what could move the cursor or change the terminal: escapes and control characters are shown as
/// themselves, so a worker's output cannot touch our lines.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = Lines::default();
        let mut out = Vec::new();
        for piece in pieces {
            lines.push(piece, |line| out.push(line.to_vec()));
        }
        lines.finish(|line| out.push(line.to_vec()));
        out
    }

    #[test]
    fn lines_end_at_newline_and_at_carriage_return() {
        assert_eq!(lines(&[b"a\nb", b"c\r", b"\rd\n\ne"]), [&b"a"[..], b"bc", b"d", b"", b"e"]);
        assert_eq!(
            lines(&["\u{e4}".as_bytes()[..1].as_ref(), "\u{e4}\n".as_bytes()[1..].as_ref()]),
            ["\u{e4}".as_bytes()]
        );
        assert_eq!(lines(&[b"bad \xff byte\nafter\n"]), [&b"bad \xff byte"[..], b"after"]);
    }

    #[test]
    fn a_line_without_end_is_given_in_pieces() {
        let long = vec![b'x'; LONGEST * 2 + 5];
        assert_eq!(lines(&[&long]).iter().map(Vec::len).collect::<Vec<_>>(), [LONGEST, LONGEST, 5]);
    }

    #[test]
    fn escapes_cannot_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\u{7}"), "a\u{fffd}[2Jb\u{fffd}");
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_however_the_stream_is_cut(text in proptest::collection::vec(any::<u8>(), 0..200), cut in 1usize..20) {
            let pieces: Vec<&[u8]> = text.chunks(cut).collect();
            let keep = |bytes: &[u8]| bytes.iter().copied().filter(|b| !matches!(b, b'\n' | b'\r')).collect::<Vec<u8>>();
            prop_assert_eq!(keep(&lines(&pieces).concat()), keep(&text));
        }
    }
}
