//! Durations as a person types and reads them.

use std::time::Duration;

/// Reads a limit of time: as [`parse`], but more than nothing.
pub fn limit(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it must be longer than 0; without a limit, leave the option out".to_owned()),
        limit => Ok(limit),
    }
}

/// Reads a number of seconds, or a number with `ms`, `s`, `m`, `h` or `d`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds_each = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(format!("{text:?} is no duration: use seconds, or a number with ms, s, m, h or d, as 30s")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is no duration: it begins with no number"))?;
    Duration::try_from_secs_f64(number * seconds_each).map_err(|_| format!("{text:?} is too long"))
}

/// Writes a duration in the largest unit that shows it well.
pub fn show(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood_and_nonsense_is_refused() {
        for (text, ms) in [
            ("30", 30_000),
            ("30s", 30_000),
            ("250ms", 250),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("0", 0),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1", "1w", "1 s x", "1e99h", "1..2"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(limit("2s"), Ok(Duration::from_secs(2)));
        assert!(limit("0").unwrap_err().contains("leave the option out"));
    }
}
