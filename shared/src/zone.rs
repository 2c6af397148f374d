//! Time zones: an offset from UTC, or a place whose clocks are put forward and back.
//!
//! The rules of places are those of the IANA Time Zone Database that is in the binary, so that the same file gives the
//! same bars on every machine.

use jiff::civil;
use jiff::tz::{AmbiguousOffset, TimeZone};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;

/// What is done with a time of day that a place's clocks show twice, in the night in which they are put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeated {
    /// It is refused: which of the two is meant cannot be known.
    #[default]
    Error,
    /// The first one, of summer time.
    First,
    /// The second one, of standard time.
    Second,
}

/// A zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    rule: Rule,
    repeated: Repeated,
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    /// Seconds ahead of UTC.
    Ahead(i64),
    Place(TimeZone),
}

impl Default for Zone {
    /// UTC.
    fn default() -> Zone {
        Zone::ahead(0)
    }
}

impl Zone {
    /// A zone that is `seconds` ahead of UTC all year.
    pub fn ahead(seconds: i64) -> Zone {
        Zone { rule: Rule::Ahead(seconds), repeated: Repeated::Error }
    }

    /// Reads `UTC`, an offset as `-05:00`, or a place as `America/New_York`; none for other text.
    pub fn parse(text: &str) -> Option<Zone> {
        if let Some(seconds) = offset_seconds(text) {
            return Some(Zone::ahead(seconds));
        }
        if matches!(text, "UTC" | "GMT" | "Z") {
            return Some(Zone::default());
        }
        let place = TimeZone::get(text).ok().filter(|place| !place.is_unknown())?;
        Some(Zone { rule: Rule::Place(place), repeated: Repeated::Error })
    }

    /// The same zone, where a time of day that is there twice is taken as `repeated` says.
    pub fn with_repeated(self, repeated: Repeated) -> Zone {
        Zone { repeated, ..self }
    }

    /// The moment in nanoseconds since 1970 (UTC) at which clocks show `local_ns`: nanoseconds since 1970 too, as if the
    /// clocks were UTC's. What clocks never show, and what they show twice, is an error in words.
    pub fn utc_ns(&self, local_ns: i64) -> Result<i64, String> {
        let ahead = match &self.rule {
            Rule::Ahead(seconds) => *seconds,
            Rule::Place(place) => match offset(place, local_ns)? {
                AmbiguousOffset::Unambiguous { offset } => i64::from(offset.seconds()),
                AmbiguousOffset::Gap { .. } => {
                    let name = place.iana_name().unwrap_or("this zone");
                    let reason = "was skipped when clocks were put forward; correct it, or set data.zone to the zone \
                                  that the times are of";
                    return Err(format!("this time of day {reason} (in {name})"));
                }
                AmbiguousOffset::Fold { before, after } => match self.repeated {
                    Repeated::First => i64::from(before.seconds()),
                    Repeated::Second => i64::from(after.seconds()),
                    Repeated::Error => {
                        let name = place.iana_name().unwrap_or("this zone");
                        let reason = "is there twice, since clocks were put back; write its offset from UTC, or set \
                                      data.repeated_hour";
                        return Err(format!("this time of day {reason} (in {name})"));
                    }
                },
            },
        };
        local_ns.checked_sub(ahead * SECOND_NS).ok_or_else(too_far)
    }

    /// The first moment of the day that lies `days` after 1970-01-01, in nanoseconds since 1970 (UTC). Where clocks skip
    /// midnight, the day begins when they go on.
    pub fn day_ns(&self, days: i64) -> Result<i64, String> {
        let midnight = days.checked_mul(DAY_NS).ok_or_else(too_far)?;
        let ahead = match &self.rule {
            Rule::Ahead(seconds) => *seconds,
            Rule::Place(place) => match offset(place, midnight)? {
                AmbiguousOffset::Unambiguous { offset } => i64::from(offset.seconds()),
                AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => {
                    i64::from(before.seconds())
                }
            },
        };
        midnight.checked_sub(ahead * SECOND_NS).ok_or_else(too_far)
    }

    /// Which day it is at `ns` since 1970 (UTC), in days since 1970-01-01.
    pub fn day(&self, ns: i64) -> i64 {
        let ahead = match &self.rule {
            Rule::Ahead(seconds) => *seconds,
            Rule::Place(place) => {
                let moment = jiff::Timestamp::from_nanosecond(i128::from(ns));
                moment.map_or(0, |moment| i64::from(place.to_offset(moment).seconds()))
            }
        };
        ns.saturating_add(ahead * SECOND_NS).div_euclid(DAY_NS)
    }
}

fn too_far() -> String {
    "a moment is too far from 1970 for nanoseconds".to_owned()
}

/// What clocks in `place` are ahead of UTC when they show `local_ns`.
fn offset(place: &TimeZone, local_ns: i64) -> Result<AmbiguousOffset, String> {
    let local = jiff::Timestamp::from_nanosecond(i128::from(local_ns)).map_err(|_| too_far())?;
    let clock: civil::DateTime = TimeZone::UTC.to_datetime(local);
    Ok(place.to_ambiguous_timestamp(clock).offset())
}

/// Seconds ahead of UTC of `+01:00`.
fn offset_seconds(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes() {
        [b'+', ..] => (1, &text[1..]),
        [b'-', ..] => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':')?;
    let two = |s: &str| (s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse::<i64>().ok())?;
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours <= 15 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::Date;
    use proptest::prelude::*;

    fn local(year: i64, month: i64, day: i64, hour: i64, minute: i64) -> i64 {
        Date { year, month, day }.days() * DAY_NS + (hour * 3600 + minute * 60) * SECOND_NS
    }

    #[test]
    fn clocks_are_put_forward_and_back() {
        let zone = Zone::parse("America/New_York").unwrap();
        let hours = |local: i64| zone.utc_ns(local).map(|utc| (utc - local) / SECOND_NS / 3600);
        assert_eq!(hours(local(2024, 1, 2, 9, 30)), Ok(5));
        assert_eq!(hours(local(2024, 7, 2, 9, 30)), Ok(4));
        // until 2006 they were put forward in April
        assert_eq!(hours(local(2006, 3, 20, 9, 30)), Ok(5));
        assert_eq!(hours(local(2024, 3, 10, 1, 59)), Ok(5));
        assert!(hours(local(2024, 3, 10, 2, 0)).unwrap_err().contains("skipped"));
        assert_eq!(hours(local(2024, 3, 10, 3, 0)), Ok(4));
        assert_eq!(hours(local(2024, 11, 3, 0, 59)), Ok(4));
        assert!(hours(local(2024, 11, 3, 1, 30)).unwrap_err().contains("data.repeated_hour"));
        assert_eq!(hours(local(2024, 11, 3, 2, 0)), Ok(5));
        for (repeated, expected) in [(Repeated::First, 4), (Repeated::Second, 5)] {
            let local = local(2024, 11, 3, 1, 30);
            let zone = zone.clone().with_repeated(repeated);
            assert_eq!(zone.utc_ns(local), Ok(local + expected * 3600 * SECOND_NS));
        }
    }

    #[test]
    fn a_day_begins_where_its_clocks_do() {
        let zone = Zone::parse("America/Sao_Paulo").unwrap();
        // on 2018-11-04 clocks went from midnight to 1
        let day = Date { year: 2018, month: 11, day: 4 }.days();
        let begin = zone.day_ns(day).unwrap();
        assert_eq!(begin, day * DAY_NS + 3 * 3600 * SECOND_NS);
        assert_eq!((zone.day(begin), zone.day(begin - 1)), (day, day - 1));
        let tokyo = Zone::parse("Asia/Tokyo").unwrap();
        assert_eq!(tokyo.day(0), 0);
        assert_eq!(tokyo.day(15 * 3600 * SECOND_NS), 1);
        assert_eq!(Zone::ahead(-3600).day(0), -1);
    }

    #[test]
    fn other_words_are_no_zone() {
        for text in ["", "EST5", "Mars/Olympus", "+5", "+05", "+16:00", "+05:60", "+0a:00", "../UTC", "Etc/Unknown"] {
            assert!(Zone::parse(text).is_none(), "{text}");
        }
        for text in ["UTC", "GMT", "Z", "+00:00", "-05:30", "Europe/Berlin", "America/Chicago"] {
            assert!(Zone::parse(text).is_some(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_clocks_show_leads_back_to_its_day(ns in i64::MIN / 2..i64::MAX / 2, place in 0..4usize) {
            let zone = ["America/New_York", "Asia/Tokyo", "Australia/Lord_Howe", "Europe/Berlin"][place];
            let zone = Zone::parse(zone).unwrap().with_repeated(Repeated::First);
            if let Ok(utc) = zone.utc_ns(ns) {
                prop_assert_eq!(zone.day(utc), ns.div_euclid(DAY_NS));
            }
            let day = ns.div_euclid(DAY_NS);
            prop_assert_eq!(zone.day(zone.day_ns(day).unwrap()), day);
        }

        #[test]
        fn no_moment_makes_it_panic(ns in any::<i64>(), text in ".{0,30}") {
            let zone = Zone::parse("Europe/Berlin").unwrap();
            let _ = (zone.utc_ns(ns), zone.day_ns(ns), zone.day(ns), Zone::parse(&text));
        }
    }
}
