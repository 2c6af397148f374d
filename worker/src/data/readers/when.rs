//! Moments as text and as nanoseconds since 1970, UTC. A moment without a zone is taken as UTC, or as the caller says.

use foxlaunch_shared::date::Date;
use foxlaunch_shared::zone::Zone;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Reads a date (2024-03-01, 2024/03/01, 20240301, 01.03.2024, US 3/1/2024, Mar 1, 2024 and 1-Mar-24), with or without
/// a time of day (14:30, 14:30:00.123, 143000) and a zone (Z, UTC, +01:00), or seconds, milli-, micro- or nanoseconds
/// since 1970, told apart by their size.
#[cfg(test)]
pub(super) fn parse(text: &str) -> Result<i64, String> {
    parse_in(text, &Zone::default())
}

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// A moment.
    Moment(i64),
    /// What clocks show, in nanoseconds as if they were UTC's.
    Clock(i64),
    /// A day, in days since 1970.
    Day(i64),
}

impl Said {
    /// A time of day on a day, of a zone that is so many seconds ahead of UTC, if it has one.
    fn clock(days: i64, ns: i64, ahead: Option<i64>) -> Option<Said> {
        let local = days.checked_mul(DAY)?.checked_add(ns)?;
        Some(match ahead {
            Some(ahead) => Said::Moment(local.checked_sub(ahead * SECOND)?),
            None => Said::Clock(local),
        })
    }
}

/// As [`parse`], where a moment without a zone is of `zone`.
pub(super) fn parse_in(text: &str, zone: &Zone) -> Result<i64, String> {
    let text = text.trim();
    let read = || {
        if let Some(stamp) = stamp(text) {
            return stamp;
        }
        let (days, rest) = named_month(text).or_else(|| {
            let (date, rest) = match text.find([' ', 'T', 't']) {
                Some(at) => (&text[..at], text[at + 1..].trim_start()),
                None => (text, ""),
            };
            Some((date_days(date)?, rest))
        })?;
        if rest.is_empty() {
            return Some(Said::Day(days));
        }
        let (ns, ahead) = clock_ns(rest)?;
        Said::clock(days, ns, ahead)
    };
    let said = read().ok_or_else(|| {
        format!("{text:?} is no moment that is read; write 2024-03-01, 2024-03-01 14:30:00 or nanoseconds since 1970")
    });
    let moment = match said? {
        Said::Moment(ns) => Ok(ns),
        Said::Clock(local) => zone.utc_ns(local),
        Said::Day(days) => zone.day_ns(days),
    };
    moment.map_err(|reason| format!("{text:?}: {reason}"))
}

/// A date with its month's name in English, and what follows it: Mar 1, 2024 or 1-Mar-2024; of two digits of a year, 69 to
/// 99 are in the last century, as POSIX has it.
fn named_month(text: &str) -> Option<(i64, &str)> {
    const NAMES: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let month = |word: &str| {
        let word = word.to_ascii_lowercase();
        let at = NAMES.iter().position(|name| word.get(..3) == Some(*name))?;
        let long = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october"];
        let long = long.iter().chain(&["november", "december"]).nth(at)?;
        (word.len() == 3 || word == *long).then_some(at as i64 + 1)
    };
    let mut rest = text;
    let mut word = || {
        let from = rest.trim_start_matches([' ', ',', '-', '/']);
        let end = from.find([' ', ',', '-', '/', 'T']).unwrap_or(from.len());
        let (word, behind) = from.split_at_checked(end)?;
        rest = behind;
        Some(word)
    };
    let (a, b, c) = (word()?, word()?, word()?);
    let number = |s: &str, most: usize| {
        let fits = (1..=most).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| s.parse::<i64>().ok())?
    };
    let year = match c.len() {
        4 => number(c, 4)?,
        2 => number(c, 2).map(|y| if y < 69 { 2000 + y } else { 1900 + y })?,
        _ => return None,
    };
    let days = match (month(a), month(b)) {
        (Some(m), None) => civil(year, m, number(b, 2)?)?,
        (None, Some(m)) => civil(year, m, number(a, 2)?)?,
        _ => return None,
    };
    Some((days, rest.trim_start_matches([' ', ',', 'T'])))
}

/// Text without any mark of a date: a number since 1970, or digits run together. `None` for other text.
fn stamp(text: &str) -> Option<Option<Said>> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.is_empty() {
        return None;
    }
    let century = whole.starts_with("19") || whole.starts_with("20");
    if century && fraction.is_empty() && whole.len() == 8 {
        return Some(date_days(whole).map(Said::Day));
    }
    if century && fraction.is_empty() && whole.len() == 14 {
        let (days, ns) = (date_days(&whole[..8]), clock_ns(&whole[8..]));
        return Some(days.zip(ns).and_then(|(days, (ns, _))| Said::clock(days, ns, None)));
    }
    let Ok(number) = whole.parse::<i64>() else { return Some(None) };
    // each unit covers 1973 to 5138 or more
    let unit = match whole.trim_start_matches('0').len() {
        0..=11 => SECOND,
        12..=14 => 1_000_000,
        15..=17 => 1_000,
        _ => 1,
    };
    let part = format!("{fraction:0<9.9}").parse::<i64>().unwrap_or(0) / (SECOND / unit);
    Some(number.checked_mul(unit).and_then(|ns| ns.checked_add(part)).map(Said::Moment))
}

/// Days since 1970 of a date.
fn date_days(text: &str) -> Option<i64> {
    let number =
        |s: &str| (!s.is_empty() && s.len() <= 4 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok());
    if text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit()) {
        return civil(number(&text[..4])??, number(&text[4..6])??, number(&text[6..])??);
    }
    let separator = text.chars().find(|c| !c.is_ascii_digit()).filter(|c| ['-', '/', '.'].contains(c))?;
    let mut parts = text.split(separator);
    let (a, b, c) = (parts.next()?, parts.next()?, parts.next()?);
    let (x, y, z) = (number(a)??, number(b)??, number(c)??);
    match (a.len(), c.len(), separator, parts.next()) {
        (4, 1 | 2, _, None) => civil(x, y, z),
        (1 | 2, 4, '.', None) => civil(z, y, x),
        // as in the US; where the day comes first, the first day after the 12th is refused
        (1 | 2, 4, '/', None) => civil(z, x, y),
        _ => None,
    }
}

/// Nanoseconds since midnight of a time of day, and how many seconds its zone is ahead of UTC, where it has one.
fn clock_ns(text: &str) -> Option<(i64, Option<i64>)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(text.len());
    let (clock, zone) = (&text[..end], text[end..].trim());
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let two = |s: &str| (s.len() == 2 || s.len() == 1).then(|| s.parse::<i64>().ok())?;
    let (hour, minute, second) = if clock.contains(':') {
        let mut parts = clock.split(':');
        let hms = (two(parts.next()?)?, two(parts.next()?)?, parts.next().map_or(Some(0), two)?);
        parts.next().is_none().then_some(hms)?
    } else if clock.len() == 6 || clock.len() == 4 {
        let second = if clock.len() == 6 { two(&clock[4..])? } else { 0 };
        (two(&clock[..2])?, two(&clock[2..4])?, second)
    } else {
        return None;
    };
    if hour > 23 || minute > 59 || second > 59 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part: i64 = format!("{fraction:0<9.9}").parse().ok()?;
    Some(((hour * 3600 + minute * 60 + second) * SECOND + part, zone_seconds(zone)?))
}

/// Seconds that a zone is ahead of UTC; none in it where there is no zone.
fn zone_seconds(zone: &str) -> Option<Option<i64>> {
    let (sign, digits) = match zone {
        "" => return Some(None),
        "Z" | "z" | "UTC" | "GMT" => return Some(Some(0)),
        _ => (if zone.starts_with('-') { -1 } else { 1 }, zone.strip_prefix(['+', '-'])?),
    };
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    if !digits.bytes().all(|b| b.is_ascii_digit()) || !(digits.len() == 2 || digits.len() == 4) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (digits[..2].parse().ok()?, digits[2..].parse().unwrap_or(0));
    (hours <= 15 && minutes <= 59).then_some(Some(sign * (hours * 3600 + minutes * 60)))
}

/// Days since 1970 of a date in the Gregorian calendar, if there is such a date.
fn civil(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    Some(Date { year, month, day }.days())
}

/// `ns` since 1970 as a date and time of day.
pub(super) fn format(ns: i64) -> String {
    let (days, ns) = (ns.div_euclid(DAY), ns.rem_euclid(DAY));
    let Date { year, month, day } = Date::from_days(days);
    let (seconds, fraction) = (ns / SECOND, ns % SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if fraction != 0 {
        text += format!(".{fraction:09}").trim_end_matches('0');
    }
    text + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn moments_are_read_as_written() {
        let expected = 1_709_562_600 * SECOND;
        for text in [
            "2024-03-04 14:30:00",
            "2024-03-04T14:30:00Z",
            "2024-03-04 14:30:00+00:00",
            "2024-03-04T15:30:00.000+01:00",
            "2024-03-04 09:30 -0500",
            "2024.03.04 14:30",
            "20240304 143000",
            "20240304143000",
            "04.03.2024 14:30:00.000",
            "3/4/2024 14:30",
            "1709562600",
            "1709562600.0",
            "1709562600000",
            "1709562600000000",
            "1709562600000000000",
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in ["Mar 4, 2024", "March 4, 2024", "4-Mar-24", "4-Mar-2024", "04 mar 2024", "Mar 4, 2024 00:00"] {
            assert_eq!(parse(text), parse("2024-03-04"), "{text}");
        }
        assert_eq!(parse("3-Jan-99"), parse("1999-01-03"));
        let west = Zone::ahead(-5 * 3600);
        assert_eq!(parse_in("2024-03-04 09:30", &west), Ok(expected));
        assert_eq!(parse_in("20240304093000", &west), Ok(expected));
        assert_eq!(parse_in("2024-03-04 14:30Z", &west), Ok(expected));
        assert_eq!(parse_in("1709562600", &west), Ok(expected));
        assert_eq!(parse("2024-02-29"), Ok(19_782 * DAY));
        assert_eq!(parse("20240229"), Ok(19_782 * DAY));
        assert_eq!(parse("1969-12-31 23:59:59.5"), Ok(-SECOND / 2));
        assert_eq!(parse("1709562600.123456789"), Ok(expected + 123_456_789));
        assert_eq!(parse("1709562600000.5"), Ok(expected + 500_000));
    }

    #[test]
    fn a_place_has_its_clocks() {
        let place = Zone::parse("America/New_York").unwrap();
        let both = |text: &str, utc: &str| assert_eq!(parse_in(text, &place), parse(utc), "{text}");
        both("2024-03-08 09:30", "2024-03-08 14:30");
        both("2024-03-11 09:30", "2024-03-11 13:30");
        both("20240311093000", "2024-03-11 13:30");
        both("3/11/2024", "2024-03-11 04:00");
        both("20240311", "2024-03-11 04:00");
        both("Mar 11, 2024 09:30", "2024-03-11 13:30");
        both("2024-03-11 09:30-05:00", "2024-03-11 14:30");
        both("2024-11-03 01:30-04:00", "2024-11-03 05:30");
        let skipped = parse_in("2024-03-10 02:30", &place).unwrap_err();
        assert!(skipped.starts_with("\"2024-03-10 02:30\": this time of day was skipped"), "{skipped}");
        let twice = parse_in("2024-11-03 01:30", &place).unwrap_err();
        assert!(twice.contains("twice") && twice.contains("America/New_York"), "{twice}");
    }

    #[test]
    fn what_would_be_a_guess_is_refused() {
        for text in [
            "",
            "-",
            "NaN",
            "2023-02-29",
            "2024-13-01",
            "13/1/2024",
            "03-04-2024",
            "3-Jax-22",
            "3-Jan-222",
            "Mar 32, 2024",
            "2024-03-04 25:00",
            "2024-03-04 1:30 PM",
            "2024-03-04 14:30:00 EST",
            "99999999999999999999",
            "2024-03",
            "9999-01-01",
        ] {
            assert!(parse(text).is_err(), "{text} gave {:?}", parse(text));
        }
    }

    proptest! {
        #[test]
        fn what_is_formatted_reads_back(ns in any::<i64>()) {
            let ns = ns / 2;
            prop_assert_eq!(parse(&format(ns)), Ok(ns));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn nothing_like_a_date_makes_it_panic(text in "[0-9:./T +Z-]{0,40}") {
            let _ = parse(&text);
        }
    }
}
