//! Dates from nanoseconds since 1970 in UTC, and where a time axis wants its marks.

use foxlaunch_shared::date::Date;

const DAY: i64 = 86_400;

/// `ns` as `2010-03-31`, or as `2010-03-31 14:30` where it is not midnight UTC.
pub fn moment(ns: i64) -> String {
    let seconds = ns.div_euclid(1_000_000_000);
    let (date, of_day) = (Date::from_days(seconds.div_euclid(DAY)), seconds.rem_euclid(DAY));
    let day = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
    if of_day == 0 { day } else { format!("{day} {:02}:{:02}", of_day / 3600, of_day / 60 % 60) }
}

/// The marks of a time axis from `first` to `last` (seconds since 1970): at most `most`, each at the start of
/// a year, month, day, hour or minute, with the text to write there.
pub fn marks(first: i64, last: i64, most: usize) -> Vec<(i64, String)> {
    let fits = |marks: &[i64]| !marks.is_empty() && marks.len() <= most.max(1);
    for step in [60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY, 2 * DAY, 7 * DAY] {
        if (last - first) / step > most as i64 {
            continue;
        }
        let marks: Vec<i64> = (first.div_euclid(step)..=last.div_euclid(step))
            .map(|k| k * step)
            .filter(|at| (first..=last).contains(at))
            .collect();
        if fits(&marks) {
            return marks.into_iter().map(|at| (at, short(at, step < DAY))).collect();
        }
    }
    let month_of = |at: i64| {
        let date = Date::from_days(at.div_euclid(DAY));
        date.year * 12 + date.month - 1
    };
    for months in [1, 3, 6, 12, 24, 60, 120, 600] {
        let marks: Vec<i64> = (month_of(first).div_euclid(months)..=month_of(last).div_euclid(months))
            .map(|k| k * months)
            .map(|m| Date { year: m.div_euclid(12), month: m.rem_euclid(12) + 1, day: 1 }.days() * DAY)
            .filter(|at| (first..=last).contains(at))
            .take(most + 2)
            .collect();
        if fits(&marks) {
            let text = |at: i64| {
                let date = Date::from_days(at.div_euclid(DAY));
                if months >= 12 { date.year.to_string() } else { format!("{}-{:02}", date.year, date.month) }
            };
            return marks.into_iter().map(|at| (at, text(at))).collect();
        }
    }
    vec![(first, short(first, false))]
}

/// A mark's text: `03-31 14:30` within days, `03-31` from day to day.
fn short(at: i64, with_time: bool) -> String {
    let (date, of_day) = (Date::from_days(at.div_euclid(DAY)), at.rem_euclid(DAY));
    if with_time && of_day != 0 {
        format!("{:02}:{:02}", of_day / 3600, of_day / 60 % 60)
    } else {
        format!("{:02}-{:02}", date.month, date.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_days() {
        assert_eq!(moment(0), "1970-01-01");
        assert_eq!(moment(951_782_400_000_000_000), "2000-02-29");
        assert_eq!(moment(1_388_501_400_000_000_000), "2013-12-31 14:50");
        assert_eq!(moment(-1), "1969-12-31 23:59");
    }

    #[test]
    fn a_mark_stands_at_a_round_time() {
        let years = marks(951_782_400, 1_388_448_000, 8);
        assert_eq!(years.first().map(|m| m.1.as_str()), Some("2002"));
        assert!(years.len() <= 8 && years.windows(2).all(|w| w[0].0 < w[1].0), "{years:?}");
        let hours = marks(1_388_448_000, 1_388_448_000 + 5 * 3600, 8);
        assert_eq!(hours[1].1, "01:00");
    }

    proptest! {
        #[test]
        fn days_and_dates_are_inverse(days in -1_000_000i64..1_000_000) {
            let date = Date::from_days(days);
            prop_assert_eq!(date.days(), days);
            prop_assert!((1..=12).contains(&date.month) && (1..=31).contains(&date.day));
        }

        #[test]
        fn marks_lie_on_the_axis(first in -4_000_000_000i64..4_000_000_000, length in 1i64..4_000_000_000, most in 2usize..12) {
            let marks = marks(first, first + length, most);
            prop_assert!(!marks.is_empty() && marks.len() <= most);
            prop_assert!(marks.iter().all(|(at, _)| (first..=first + length).contains(at)));
        }
    }
}
