//! The time of a job, which stands still while the job is stopped (Ctrl-Z): a grace or a limit is not spent on it.

use std::time::Duration;

/// Time since the beginning, less what was spent stopped. The time of day is passed in, so that it can be tested.
#[derive(Clone, Debug)]
pub struct Clock {
    begin: Duration,
    stopped_at: Option<Duration>,
    stopped_for: Duration,
}

impl Clock {
    /// Begins at `now`.
    pub fn new(now: Duration) -> Clock {
        Clock { begin: now, stopped_at: None, stopped_for: Duration::ZERO }
    }

    /// The job's time at `now`.
    pub fn at(&self, now: Duration) -> Duration {
        self.stopped_at.unwrap_or(now).saturating_sub(self.begin + self.stopped_for)
    }

    /// Whether it stands still.
    pub fn is_stopped(&self) -> bool {
        self.stopped_at.is_some()
    }

    /// Stands still from `now` on.
    pub fn stop(&mut self, now: Duration) {
        self.stopped_at.get_or_insert(now);
    }

    /// Goes on.
    pub fn go_on(&mut self, now: Duration) {
        if let Some(at) = self.stopped_at.take() {
            self.stopped_for += now.saturating_sub(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spent_stopped_does_not_count() {
        let s = Duration::from_secs;
        let mut clock = Clock::new(s(100));
        assert_eq!(clock.at(s(103)), s(3));
        clock.stop(s(104));
        clock.stop(s(105));
        assert_eq!((clock.is_stopped(), clock.at(s(500))), (true, s(4)));
        clock.go_on(s(600));
        clock.go_on(s(700));
        assert_eq!((clock.is_stopped(), clock.at(s(601))), (false, s(5)));
    }
}
