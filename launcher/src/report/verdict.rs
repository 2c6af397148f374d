//! What the numbers allow to say, in words that claim no more.

use super::chain::Comparison;
use serde::{Serialize, Serializer};
use std::fmt;

/// Bars below which no return says anything: one good week decides it.
pub const FEWEST: usize = 60;

/// Where a policy's return lies among random policies that trade as much and are long and short as often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It never held a position.
    Idle,
    /// The test part has fewer bars than [`FEWEST`].
    TooShort,
    /// Below the 5 % quantile.
    Below,
    /// Between the 5 % and the 95 % quantile.
    Within,
    /// Above the 95 % quantile.
    Above,
}

impl Verdict {
    /// The verdict on `comparison`'s policy. A return that equals a quantile is within.
    pub fn of(comparison: &Comparison) -> Verdict {
        let [low, _, high] = comparison.random.total_return;
        let got = comparison.policy.total_return;
        if comparison.policy.trades == 0 && comparison.policy.time_in_market == 0.0 {
            Verdict::Idle
        } else if comparison.times_ns.len() < FEWEST {
            Verdict::TooShort
        } else if got < low {
            Verdict::Below
        } else if got > high {
            Verdict::Above
        } else {
            Verdict::Within
        }
    }

    /// A few words for a table.
    pub fn short(self) -> &'static str {
        match self {
            Verdict::Idle => "never traded",
            Verdict::TooShort => "the test part is too short to judge",
            Verdict::Below => "below the range of chance",
            Verdict::Within => "within the range of chance",
            Verdict::Above => "above the range of chance",
        }
    }

    /// A sentence for a page.
    pub fn sentence(self) -> &'static str {
        match self {
            Verdict::Idle => "The policy never held a position.",
            Verdict::TooShort => {
                "The test part is too short to judge: it has fewer than 60 bars, and a few of them decide the return."
            }
            Verdict::Below => {
                "The policy's return is below the range of chance: 95 % of random policies with the same turnover and \
                 the same share of long and short earned more."
            }
            Verdict::Within => {
                "The policy's return is within the range of chance: random policies with the same turnover and \
                 the same share of long and short did as well. This is no evidence of skill."
            }
            Verdict::Above => {
                "The policy's return is above the range of chance: 95 % of random policies with the same turnover and \
                 the same share of long and short earned less. One policy in twenty gets here by luck."
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.short())
    }
}

/// How the policy stands to holding, in a sentence.
pub fn beside_holding(comparison: &Comparison) -> String {
    let (policy, hold) = (comparison.policy.total_return, comparison.buy_and_hold.total_return);
    let word = if policy > hold {
        "more than"
    } else if policy < hold {
        "less than"
    } else {
        "the same as"
    };
    format!("It returned {}, {word} buy and hold ({}).", signed_percent(policy), signed_percent(hold))
}

/// What to say of a fold, counted from 0, whose training made no update.
pub fn never_learned(fold: usize) -> String {
    format!("Fold {} never learned: training made no update, so its policy is the one it began with.", fold + 1)
}

/// A share as signed percent, as `+12.3%`; two digits where it is small, none where it is huge.
pub fn signed_percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent.abs() {
        size if !size.is_finite() => "-".to_owned(),
        size if size >= 999.5 => format!("{percent:+.0}%"),
        size if size >= 9.995 || size == 0.0 => format!("{percent:+.1}%"),
        _ => format!("{percent:+.2}%"),
    }
}

/// A share from 0 to 1 as percent without a sign, as `8.2%`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1}%", 100.0 * share) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn with_return(total_return: f64) -> Comparison {
        let mut comparison = Comparison::of(&sample::fold(0, &sample::wave(FEWEST, 0.0, 0.0)));
        comparison.policy.total_return = total_return;
        comparison
    }

    #[test]
    fn a_policy_inside_the_band_is_called_chance() {
        let [low, median, high] = with_return(0.0).random.total_return;
        for inside in [low, median, high] {
            assert_eq!(Verdict::of(&with_return(inside)), Verdict::Within);
        }
        assert_eq!(Verdict::of(&with_return(low - 1e-9)), Verdict::Below);
        assert_eq!(Verdict::of(&with_return(high + 1e-9)), Verdict::Above);
        assert!(Verdict::Within.sentence().contains("within the range of chance"));
    }

    #[test]
    fn a_policy_that_never_traded_is_not_praised_for_it() {
        let mut idle = with_return(0.0);
        idle.policy.trades = 0;
        idle.policy.time_in_market = 0.0;
        idle.random.total_return = [-0.3, -0.2, -0.1];
        assert_eq!(Verdict::of(&idle), Verdict::Idle);
    }

    #[test]
    fn a_short_test_part_is_not_judged() {
        for (bars, short) in [(1, true), (FEWEST - 1, true), (FEWEST, false)] {
            let mut comparison = Comparison::of(&sample::fold(0, &sample::wave(bars, 0.0, 0.0)));
            comparison.policy.total_return = 100.0;
            assert_eq!(Verdict::of(&comparison) == Verdict::TooShort, short, "{bars} bars");
        }
        assert!(Verdict::TooShort.sentence().contains(&format!("fewer than {FEWEST} bars")));
    }

    #[test]
    fn percents() {
        assert_eq!(signed_percent(0.1234), "+12.3%");
        assert_eq!(signed_percent(-0.0123), "-1.23%");
        assert_eq!(signed_percent(0.0), "+0.0%");
        assert_eq!(signed_percent(12.345), "+1234%");
        assert_eq!(signed_percent(f64::NAN), "-");
        assert_eq!(percent(0.0824), "8.2%");
    }
}
