//! Numbers as people and programs write them.

/// The sign before decimals in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    decimal: u8,
}

impl Numbers {
    /// As `decimal` says (`.` or `,`), else as `cells` are written: 1.234,5 and 1,5 against 1,234.5 and 1.5. An error
    /// where every sign could be either.
    pub(super) fn of<'a>(
        decimal: &str,
        separator: u8,
        cells: impl Iterator<Item = &'a str>,
    ) -> Result<Numbers, String> {
        if let [decimal] = decimal.as_bytes() {
            return Ok(Numbers { decimal: *decimal });
        }
        let (mut comma, mut dot, mut either) = (0usize, 0usize, None);
        for cell in cells {
            match sign(cell) {
                Sign::Comma => comma += 1,
                Sign::Dot => dot += 1,
                Sign::CommaOrThousands => either = either.or(Some(cell)),
                Sign::None => {}
            }
        }
        match (comma, dot, either) {
            (0, 0, Some(cell)) if separator != b',' => {
                Err(format!("{cell:?} may be a thousand or a fraction; say which with data.decimal"))
            }
            (1.., 0, _) => Ok(Numbers { decimal: b',' }),
            _ => Ok(Numbers { decimal: b'.' }),
        }
    }

    /// The finite number that `text` is, signs between thousands left out; none where it is not one.
    pub(super) fn parse(self, text: &str) -> Option<f64> {
        if self.decimal == b'.'
            && let Ok(number) = text.parse::<f64>()
        {
            return Some(number).filter(|x| x.is_finite());
        }
        let (whole, rest) = match text.find(char::from(self.decimal)) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let grouping = |c: char| {
            matches!(c, '\'' | '\u{2019}' | ' ' | '\u{a0}' | '.' | ',') && c as u32 != u32::from(self.decimal)
        };
        let mut groups = whole.split(grouping);
        let first = groups.next()?;
        let mut plain = first.to_owned();
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        for group in groups {
            let leading = first.trim_start_matches(['-', '+']);
            if group.len() != 3 || !digits(group) || !digits(leading) || leading.len() > 3 {
                return None;
            }
            plain.push_str(group);
        }
        if let Some(rest) = rest {
            plain.push('.');
            plain.push_str(rest);
        }
        plain.parse::<f64>().ok().filter(|x| x.is_finite())
    }

    /// As [`Numbers::parse`], with K, M or B for thousands, millions and billions behind it.
    pub(super) fn parse_volume(self, text: &str) -> Option<f64> {
        if let Some(number) = self.parse(text) {
            return Some(number);
        }
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let unit = match unit {
            "K" | "k" => 1e3,
            "M" | "m" => 1e6,
            "B" | "b" => 1e9,
            _ => return None,
        };
        self.parse(number.trim()).map(|x| x * unit)
    }
}

enum Sign {
    Comma,
    Dot,
    CommaOrThousands,
    None,
}

/// What the signs in `cell` tell of the sign before decimals.
fn sign(cell: &str) -> Sign {
    let cell = cell.trim_start_matches(['-', '+']);
    if cell.is_empty() || !cell.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'\'')) {
        return Sign::None;
    }
    let commas = cell.matches(',').count();
    let dots = cell.matches('.').count();
    let behind = |sign: char| cell.rsplit(sign).next().map_or(0, str::len);
    match (commas, dots) {
        (0, 0) => Sign::None,
        (0, 1) => {
            if behind('.') == 3 {
                Sign::None
            } else {
                Sign::Dot
            }
        }
        (1, 0) => {
            if behind(',') == 3 {
                Sign::CommaOrThousands
            } else {
                Sign::Comma
            }
        }
        // a date, or thousands twice
        (0, _) | (_, 0) => Sign::None,
        _ => {
            if cell.rfind(',') > cell.rfind('.') {
                Sign::Comma
            } else {
                Sign::Dot
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(cells: &[&str]) -> Result<Numbers, String> {
        Numbers::of("", b';', cells.iter().copied())
    }

    #[test]
    fn the_sign_before_decimals_is_the_tables() {
        let comma = Numbers { decimal: b',' };
        let dot = Numbers { decimal: b'.' };
        assert_eq!(of(&["04.03.2024", "61.234,50", "2771"]), Ok(comma));
        assert_eq!(of(&["1,5", "1.234"]), Ok(comma));
        assert_eq!(of(&["1.5", "1,234"]), Ok(dot));
        assert_eq!(of(&["61'234.50"]), Ok(dot));
        assert_eq!(of(&["77", "x"]), Ok(dot));
        assert!(of(&["1,234", "2,345"]).unwrap_err().contains("data.decimal"));
        assert_eq!(Numbers::of(",", b';', ["1,234"].into_iter()), Ok(comma));
        // in quotes between commas it is thousands
        assert_eq!(Numbers::of("", b',', ["1,234"].into_iter()), Ok(dot));
    }

    #[test]
    fn numbers_are_read_as_written_and_nothing_else_is() {
        let (comma, dot) = (Numbers { decimal: b',' }, Numbers { decimal: b'.' });
        for (numbers, text, value) in [
            (dot, "1234.5", 1234.5),
            (dot, "-2.11e-05", -2.11e-5),
            (dot, "61,234.50", 61_234.5),
            (dot, "61'234.50", 61_234.5),
            (dot, "1 234 567", 1_234_567.0),
            (comma, "61.234,50", 61_234.5),
            (comma, "0,5", 0.5),
            (comma, "-1.000.000", -1e6),
        ] {
            assert_eq!(numbers.parse(text), Some(value), "{text}");
        }
        for text in ["", "-", "inf", "nan", "1e400", "N/A", "1,23,456.0", "1234,567", "12,34", "1..5", "0x10", "'123"] {
            assert_eq!(dot.parse(text), None, "{text}");
        }
        assert_eq!(dot.parse_volume("77.10K"), Some(77_100.0));
        assert_eq!(dot.parse_volume("1.00B"), Some(1e9));
        assert_eq!(dot.parse_volume("1.00X"), None);
        assert_eq!(dot.parse_volume("é"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,12}") {
            for decimal in [".", ","] {
                let numbers = Numbers::of(decimal, b';', [text.as_str()].into_iter()).unwrap();
                let _ = (numbers.parse(&text), numbers.parse_volume(&text), sign(&text));
            }
        }
    }
}
