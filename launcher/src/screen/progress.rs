//! The line that shows how far a run is: a live one on a terminal, a plain one now and then elsewhere.

use crate::logs::prefix::printable;
use crate::process::print;
use foxlaunch_shared::protocol::{Display, Phase};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between two plain lines.
const PACE: Duration = Duration::from_secs(5);
/// The rate shown is that of the last steps in this time.
const WINDOW: Duration = Duration::from_secs(15);
/// How many points the window holds; more often than this many times a window they are not kept.
const POINTS: u32 = 60;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One line that is drawn again and again.
    Live,
    /// Plain lines: the first, then one about every five seconds, and the last.
    Lines,
    /// Not at all.
    Quiet,
}

impl Mode {
    /// Live where standard error is a terminal, else lines; quiet if `quiet`.
    pub fn detect(quiet: bool) -> Mode {
        match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Live,
            (false, false) => Mode::Lines,
        }
    }
}

/// Shows progress on standard error.
#[derive(Debug)]
pub struct Progress {
    mode: Mode,
    start: Instant,
    meter: Meter,
    pace: Pace,
    last: Option<Display>,
    phase: Phase,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Nothing is shown before the first [`Progress::update`].
    pub fn new(mode: Mode) -> Progress {
        let (meter, pace) = (Meter::default(), Pace::default());
        Progress { mode, start: Instant::now(), meter, pace, last: None, phase: Phase::Step, bar: None }
    }

    /// Shows `display`, or keeps it until a line is due.
    pub fn update(&mut self, display: &Display) {
        let now = self.start.elapsed();
        self.meter.record(now, display.done);
        self.last = Some(display.clone());
        self.draw(now);
    }

    /// Shows what the steps stand still for, until the next phase.
    pub fn phase(&mut self, phase: Phase) {
        self.phase = phase;
        let now = self.start.elapsed();
        // A plain line is only worth it where it says something new.
        if self.mode == Mode::Live || busy(phase).is_some() && self.pace.is_free(now) {
            self.draw(now);
        }
    }

    fn draw(&mut self, now: Duration) {
        let Some(display) = &self.last else { return };
        let rate = self.meter.rate();
        match self.mode {
            Mode::Live => {
                let text = live_line(display, rate, self.phase);
                let bar = self.bar.get_or_insert_with(|| new_bar(display.total));
                bar.set_length(display.total);
                bar.set_position(display.done.min(display.total));
                bar.set_message(text);
            }
            Mode::Lines => {
                if self.pace.due(now) {
                    print::err(plain_line(display, rate, self.phase));
                }
            }
            Mode::Quiet => {}
        }
    }

    /// Prints `text` on standard error, above the live line where there is one. Quiet mode prints it too: only
    /// progress is silent there.
    pub fn println(&self, text: &str) {
        self.suspend(|| print::err(text));
    }

    /// Runs `print`, which may write to the terminal, with the live line out of the way.
    pub fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Takes the live line away, or prints the last plain one if it was not shown. An update after this begins
    /// anew, as after a restart.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if let Some(display) = self.last.take()
            && self.mode == Mode::Lines
            && self.pace.held_back()
        {
            print::err(plain_line(&display, self.meter.rate(), Phase::Step));
        }
        self.phase = Phase::Step;
        self.meter = Meter::default();
        self.pace = Pace::default();
    }
}

fn new_bar(total: u64) -> ProgressBar {
    let bar = if total > 0 { ProgressBar::new(total) } else { ProgressBar::new_spinner() };
    let template = if total > 0 { "{bar:10} {wide_msg}" } else { "{spinner} {wide_msg}" };
    // A template of ours that does not parse would be a fault that no run should die of.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Which plain lines are shown.
#[derive(Debug, Default)]
pub struct Pace {
    shown: Option<Duration>,
    held_back: bool,
}

impl Pace {
    /// Whether a line that comes at `now` (since the start) is shown: the first is, then one in five seconds.
    pub fn due(&mut self, now: Duration) -> bool {
        let due = self.is_free(now);
        if due {
            self.shown = Some(now);
        }
        self.held_back = !due;
        due
    }

    /// Whether a line that comes at `now` would be shown.
    pub fn is_free(&self, now: Duration) -> bool {
        self.shown.is_none_or(|shown| now >= shown + PACE)
    }

    /// Whether the latest line was not shown.
    pub fn held_back(&self) -> bool {
        self.held_back
    }
}

/// Steps per second over the latest steps. A resumed run begins with steps that it did not do: only what comes
/// after the first record counts.
#[derive(Debug, Default)]
pub struct Meter {
    points: VecDeque<(Duration, u64)>,
}

impl Meter {
    /// `done` steps at `now` (since the start). Fewer than before means a restart from a checkpoint: counting
    /// begins anew.
    pub fn record(&mut self, now: Duration, done: u64) {
        if self.points.back().is_some_and(|last| last.1 > done) {
            self.points.clear();
        }
        let last_but_one = self.points.len().checked_sub(2).and_then(|k| self.points.get(k));
        if last_but_one.is_some_and(|point| now.saturating_sub(point.0) < WINDOW / POINTS) {
            self.points.pop_back();
        }
        self.points.push_back((now, done));
        while self.points.len() > 2 && self.points.get(1).is_some_and(|point| now.saturating_sub(point.0) >= WINDOW) {
            self.points.pop_front();
        }
    }

    /// Steps per second, once it can be known.
    pub fn rate(&self) -> Option<f64> {
        let (first, last) = (self.points.front()?, self.points.back()?);
        let seconds = last.0.saturating_sub(first.0).as_secs_f64();
        (seconds > 0.0 && last.1 > first.1).then(|| (last.1 - first.1) as f64 / seconds)
    }
}

/// A plain line: part, steps, rate, values, time left. In a checkpoint or an evaluation no steps are done: that is
/// said instead of rate and time left.
pub fn plain_line(display: &Display, rate: Option<f64>, phase: Phase) -> String {
    let rate = rate.filter(|_| busy(phase).is_none());
    let steps = if display.total > 0 {
        let share = 100.0 * display.done as f64 / display.total as f64;
        format!("{}/{} steps ({share:.0}%)", grouped(display.done), grouped(display.total))
    } else {
        format!("{} steps", grouped(display.done))
    };
    let rate_text =
        rate.map(|rate| if rate < 100.0 { format!("{rate:.1}/s") } else { format!("{}/s", grouped(rate as u64)) });
    let left = rate.and_then(|rate| left(display, rate)).map(|left| format!("ETA {}", clock(left)));
    let parts = [part(display), Some(steps), busy(phase), rate_text].into_iter().flatten();
    parts.chain(values(display)).chain(left).collect::<Vec<_>>().join("  ")
}

/// The text beside a live line's bar, short enough for 80 columns with two values; where it is not, the values
/// are what the terminal cuts off.
pub fn live_line(display: &Display, rate: Option<f64>, phase: Phase) -> String {
    let rate = rate.filter(|_| busy(phase).is_none());
    let total = if display.total > 0 { format!("/{}", short(display.total as f64)) } else { String::new() };
    let steps = format!("{}{total}", short(display.done as f64));
    let rate_text = rate.map(|rate| format!("{}/s", short(rate)));
    let left = rate.and_then(|rate| left(display, rate)).map(|left| format!("ETA {}", clock(left)));
    let parts = [part(display), Some(steps), busy(phase), rate_text, left].into_iter().flatten();
    parts.chain(values(display)).collect::<Vec<_>>().join("  ")
}

/// What is done instead of steps.
fn busy(phase: Phase) -> Option<String> {
    match phase {
        Phase::Init | Phase::Step => None,
        Phase::Checkpoint => Some("writing a checkpoint".to_owned()),
        Phase::Evaluate => Some("evaluating".to_owned()),
    }
}

fn part(display: &Display) -> Option<String> {
    (!display.part.is_empty()).then(|| printable(&display.part))
}

fn values(display: &Display) -> impl Iterator<Item = String> {
    display.values.iter().map(|(name, value)| format!("{} {}", printable(name), value_text(*value)))
}

/// The time that is left at `rate` steps per second, if the total is known.
fn left(display: &Display, rate: f64) -> Option<Duration> {
    let steps = display.total.checked_sub(display.done)?;
    (display.total > 0).then_some(())?;
    Duration::try_from_secs_f64(steps as f64 / rate).ok()
}

/// A value with three digits, in its own unit: a return is a sum of rewards, which only its environment can read.
fn value_text(value: f64) -> String {
    match value.abs() {
        size if !value.is_finite() || size == 0.0 => format!("{value}"),
        size if !(1e-3..1e5).contains(&size) => format!("{value:.2e}"),
        size => {
            let digits = (2 - size.log10().floor() as i32).max(0) as usize;
            format!("{value:.digits$}")
        }
    }
}

/// `950`, `12.3k`, `288k`, `1.50M`: three digits, so that it stays short.
fn short(number: f64) -> String {
    let (value, unit) = match number {
        n if n < 999.5 => (n, ""),
        n if n < 999_500.0 => (n / 1e3, "k"),
        n if n < 999_500_000.0 => (n / 1e6, "M"),
        n => (n / 1e9, "G"),
    };
    match value {
        v if unit.is_empty() && (v >= 99.95 || v.fract() == 0.0) => format!("{v:.0}"),
        v if v < 9.995 => format!("{v:.2}{unit}"),
        v if v < 99.95 => format!("{v:.1}{unit}"),
        v => format!("{v:.0}{unit}"),
    }
}

/// `12345` as `12 345`, so that it reads the same in every country.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1:05`, `2:00:07`, `3d 04:00`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{:02}", seconds % 60),
        (0, _) => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days}d {hours:02}:{minutes:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn display(done: u64, total: u64) -> Display {
        let values = vec![("loss".to_owned(), 0.021_34), ("return".to_owned(), 0.0312)];
        Display { part: "fold 1/3".to_owned(), done, total, values }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_line_says_part_steps_rate_values_and_the_time_left() {
        assert_eq!(
            plain_line(&display(12_340, 288_000), Some(5_210.4), Phase::Step),
            "fold 1/3  12 340/288 000 steps (4%)  5 210/s  loss 0.0213  return 0.0312  ETA 0:53"
        );
        assert_eq!(plain_line(&display(5, 0), None, Phase::Step), "fold 1/3  5 steps  loss 0.0213  return 0.0312");
        assert_eq!(
            plain_line(&display(12_340, 288_000), Some(5_210.4), Phase::Evaluate),
            "fold 1/3  12 340/288 000 steps (4%)  evaluating  loss 0.0213  return 0.0312"
        );
        assert_eq!(
            live_line(&display(2_000, 8_000), Some(5_210.4), Phase::Checkpoint),
            "fold 1/3  2.00k/8.00k  writing a checkpoint  loss 0.0213  return 0.0312"
        );
        let done = plain_line(&display(10, 10), Some(2.0), Phase::Step);
        assert!(done.contains("10/10 steps (100%)  2.0/s") && done.ends_with("ETA 0:00"), "{done}");
    }

    #[test]
    fn a_live_line_fits_80_columns_beside_its_bar() {
        let text = live_line(&display(212_340, 288_000), Some(45_210.4), Phase::Step);
        assert_eq!(text, "fold 1/3  212k/288k  45.2k/s  ETA 0:02  loss 0.0213  return 0.0312");
        assert!(text.len() + 11 <= 80);
        assert_eq!(
            ["0", "7", "2.50", "950", "1.00k", "12.3k", "1.00M"],
            [0.0, 7.0, 2.5, 950.0, 999.9, 12_345.0, 1e6].map(short).each_ref().map(String::as_str)
        );
    }

    #[test]
    fn odd_values_are_shown_as_they_are() {
        assert_eq!(value_text(f64::NAN), "NaN");
        assert_eq!(value_text(0.0), "0");
        assert_eq!(value_text(1.5e-7), "1.50e-7");
        assert_eq!(value_text(123.456), "123");
        assert_eq!(value_text(1.0), "1.00");
    }

    #[test]
    fn clocks() {
        assert_eq!(clock(seconds(65)), "1:05");
        assert_eq!(clock(seconds(7_207)), "2:00:07");
        assert_eq!(clock(seconds(3 * 86_400 + 4 * 3_600)), "3d 04:00");
    }

    #[test]
    fn the_rate_is_of_the_window_and_not_of_steps_done_before() {
        let mut meter = Meter::default();
        meter.record(seconds(0), 50_000);
        assert_eq!(meter.rate(), None, "a resumed run has no rate yet");
        meter.record(seconds(1), 50_100);
        assert_eq!(meter.rate(), Some(100.0));
        for second in 2..60 {
            meter.record(seconds(second), 50_100 + 300 * (second - 1));
        }
        assert_eq!(meter.rate(), Some(300.0), "the slow start has left the window");
        meter.record(seconds(61), 40_000);
        assert_eq!(meter.rate(), None, "a restart from a checkpoint counts anew");
    }

    #[test]
    fn the_last_line_is_known_to_be_held_back() {
        let mut pace = Pace::default();
        assert!(pace.due(seconds(1)) && !pace.held_back());
        assert!(!pace.due(seconds(4)) && pace.held_back());
        assert!(!pace.is_free(seconds(5)) && pace.is_free(seconds(6)));
        assert!(pace.due(seconds(6)) && !pace.held_back());
    }

    proptest! {
        #[test]
        fn plain_lines_come_at_a_bounded_rate(gaps in prop::collection::vec(0u64..20_000, 1..200)) {
            let mut pace = Pace::default();
            let (mut now, mut shown) = (Duration::ZERO, Vec::new());
            for gap in gaps {
                now += Duration::from_millis(gap);
                if pace.due(now) {
                    shown.push(now);
                }
            }
            prop_assert!(shown.windows(2).all(|pair| pair[1] - pair[0] >= PACE));
        }

        #[test]
        fn the_meter_holds_few_points(gaps in prop::collection::vec(0u64..2_000, 1..2_000)) {
            let mut meter = Meter::default();
            let mut now = Duration::ZERO;
            for (done, gap) in gaps.into_iter().enumerate() {
                now += Duration::from_millis(gap);
                meter.record(now, done as u64);
                prop_assert!(meter.points.len() <= POINTS as usize * 2 + 3);
            }
        }

        #[test]
        fn no_number_breaks_a_line(done: u64, total: u64, value: f64, rate in prop::option::of(0.0f64..1e300)) {
            let mut display = display(done, total);
            display.values[0].1 = value;
            display.values[1].0 = "re\u{1b}[2J\nturn".to_owned();
            let is_plain = |text: String| !text.chars().any(char::is_control);
            prop_assert!(is_plain(plain_line(&display, rate, Phase::Step)));
            prop_assert!(is_plain(live_line(&display, rate, Phase::Evaluate)));
        }
    }
}
