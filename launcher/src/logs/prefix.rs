//! Lines out of a stream of bytes, each to be shown with its worker's number.

/// A line longer than this is shown in pieces: nothing a worker prints may fill our memory.
const LONGEST: usize = 64 * 1024;
/// How many lines of the end are of use.
const END_LINES: usize = super::tail::LINES;

/// Splits a stream at `\n` and at `\r`, so that a progress bar shows while it moves. A character cut by a read is
/// joined again, since only whole lines are given out.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    /// The last line ended in `\r`, whose `\n` may follow.
    after_return: bool,
}

impl Lines {
    /// Takes the next bytes and calls `line` for each line that is whole now, without its end.
    pub fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) {
        let mut begins = 0;
        for ends in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            let text = &bytes[begins..ends];
            begins = ends + 1;
            let is_empty = text.is_empty() && self.rest.is_empty();
            if !self.rest.is_empty() {
                self.extend(text, &mut line);
                line(&self.rest);
                self.rest.clear();
            } else if !text.is_empty() {
                text.chunks(LONGEST).for_each(&mut line);
            } else if bytes[ends] == b'\n' && !self.after_return {
                line(b"");
            }
            // The `\n` of `\r\n`, and the `\r` before a bar's next state, end nothing.
            self.after_return = bytes[ends] == b'\r' && !is_empty;
        }
        if begins < bytes.len() {
            self.after_return = false;
            self.extend(&bytes[begins..], &mut line);
        }
    }

    /// As [`Lines::push`], but of many lines gives out only the last ones: all that a [`super::tail::Tail`] keeps.
    pub fn push_end(&mut self, bytes: &[u8], line: impl FnMut(&[u8])) {
        let mut ends = memchr::memrchr2_iter(b'\n', b'\r', bytes);
        // Some may be empty.
        let Some(begins) = ends.nth(8 * END_LINES) else { return self.push(bytes, line) };
        self.rest.clear();
        self.after_return = bytes[begins] == b'\r';
        self.push(&bytes[begins + 1..], line);
    }

    /// Adds to the line that has no end yet, and gives out what is too long.
    fn extend(&mut self, text: &[u8], line: &mut impl FnMut(&[u8])) {
        let mut text = text;
        while self.rest.len() + text.len() > LONGEST {
            let (now, later) = text.split_at(LONGEST - self.rest.len());
            if self.rest.is_empty() {
                line(now);
            } else {
                self.rest.extend_from_slice(now);
                line(&self.rest);
                self.rest.clear();
            }
            text = later;
        }
        self.rest.extend_from_slice(text);
    }

    /// Gives out what stands there without an end, at the end of the stream.
    pub fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.rest.is_empty() {
            line(&self.rest);
            self.rest.clear();
        }
    }
}

/// `text` without what could move the cursor, change the terminal or turn the order of what is read: each control
/// character becomes U+FFFD and the rest of an escape stays as plain letters, so a worker's output cannot touch our
/// lines. C0 (with ESC, CR, backspace), DEL, C1 (with CSI, OSC, DCS as one character) and bidirectional marks.
pub fn printable(text: &str) -> String {
    text.chars().map(shown).collect()
}

fn shown(c: char) -> char {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if turns || (c.is_control() && c != '\t') { '\u{fffd}' } else { c }
}

/// Adds `line` to `out` as [`printable`] has it; a byte that is no UTF-8, as C1 in one byte, becomes U+FFFD too.
pub fn printable_into(out: &mut Vec<u8>, line: &[u8]) {
    // All bytes are looked at, so that many are at once.
    if line.iter().fold(true, |plain, byte| plain & (b' '..=b'~').contains(byte)) {
        out.extend_from_slice(line);
    } else {
        let mut buffer = [0; 4];
        String::from_utf8_lossy(line)
            .chars()
            .for_each(|c| out.extend_from_slice(shown(c).encode_utf8(&mut buffer).as_bytes()));
    }
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
        for (written, seen) in [
            (&b"a\x1b[2Jb\x07"[..], "a\u{fffd}[2Jb\u{fffd}"),
            (b"\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}"),
            (b"\x1b]8;;http://x\x1b\\link", "\u{fffd}]8;;http://x\u{fffd}\\link"),
            (b"\x1bPq#0\x1b\\", "\u{fffd}Pq#0\u{fffd}\\"),
            (b"\x1bc", "\u{fffd}c"),
            // C1: as one byte, which is no UTF-8, and as UTF-8
            (b"\x9b2J", "\u{fffd}2J"),
            (b"\xc2\x9b2J", "\u{fffd}2J"),
            (b"\xc2\x9d0;x\xc2\x9c", "\u{fffd}0;x\u{fffd}"),
            (b"abc\x08\x08\x7f", "abc\u{fffd}\u{fffd}\u{fffd}"),
            (b"\x0e\x0b\x0c\x00", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            ("a\u{202e}b\u{2066}c\u{2028}".as_bytes(), "a\u{fffd}b\u{fffd}c\u{fffd}"),
            ("tab\tand \u{e4} \u{1f98a}".as_bytes(), "tab\tand \u{e4} \u{1f98a}"),
        ] {
            let mut out = Vec::new();
            printable_into(&mut out, written);
            assert_eq!(String::from_utf8(out).unwrap(), seen);
            assert_eq!(printable(&String::from_utf8_lossy(written)), seen);
        }
    }

    #[test]
    fn a_windows_line_end_is_one_end() {
        assert_eq!(lines(&[b"a\r\nb\r", b"\n\r\nc", b"\r", b"\n"]), [&b"a"[..], b"b", b"", b"c"]);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_however_the_stream_is_cut(text in proptest::collection::vec(any::<u8>(), 0..200), cut in 1usize..20) {
            let pieces: Vec<&[u8]> = text.chunks(cut).collect();
            let keep = |bytes: &[u8]| bytes.iter().copied().filter(|b| !matches!(b, b'\n' | b'\r')).collect::<Vec<u8>>();
            prop_assert_eq!(keep(&lines(&pieces).concat()), keep(&text));
            prop_assert_eq!(lines(&pieces), lines(&[&text]));
        }

        #[test]
        fn nothing_that_is_written_touches_the_terminal(
            text in proptest::collection::vec(
                prop_oneof![Just(0x1b), Just(b'['), Just(b']'), Just(0x9b), Just(0xc2), Just(b'\r'), Just(8), any::<u8>()],
                0..100,
            ),
            cut in 1usize..9,
        ) {
            let mut out = Vec::new();
            for line in lines(&text.chunks(cut).collect::<Vec<_>>()) {
                out.extend_from_slice(b"[0] ");
                printable_into(&mut out, &line);
                out.push(b'\n');
            }
            let seen = String::from_utf8(out).unwrap();
            prop_assert!(seen.lines().all(|line| line.starts_with("[0] ")));
            prop_assert!(!seen.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')), "{:?}", seen);
        }

        #[test]
        fn the_end_of_many_lines_is_the_end(
            pieces in proptest::collection::vec("[ab\r\n]{0,30}|[ab]{0,5}\n(x\n){200}", 1..6),
        ) {
            let (mut all, mut end) = (super::super::tail::Tail::default(), super::super::tail::Tail::default());
            let (mut every, mut last) = (Lines::default(), Lines::default());
            for piece in &pieces {
                every.push(piece.as_bytes(), |line| all.push(line));
                last.push_end(piece.as_bytes(), |line| end.push(line));
            }
            every.finish(|line| all.push(line));
            last.finish(|line| end.push(line));
            prop_assert_eq!(end.last(20), all.last(20));
        }
    }
}
