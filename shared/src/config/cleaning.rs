//! Settings of cleaning: what is done about each kind of problem that bars can have.

use super::{Refused, require};
use serde::{Deserialize, Serialize};

/// What is done about a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The file is refused, with the place.
    Error,
    /// What has the problem is left out, and counted.
    Drop,
    /// It is mended from what came before, never from what comes after, and counted.
    Repair,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:ident [$($policy:ident)*];)+) => {
        /// A kind of problem. Its name is its key in `[cleaning]` and in reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Problem { $($(#[doc = $doc])+ $variant),+ }

        impl Problem {
            /// Every kind, in order.
            pub const ALL: &[Problem] = &[$(Problem::$variant),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Problem::$variant => stringify!($name)),+ }
            }
        }

        /// `[cleaning]`: for each kind of problem what is done about it.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct CleaningConfig {
            $($(#[doc = $doc])+ pub $name: String,)+
        }

        impl CleaningConfig {
            /// What is done about `problem`.
            pub fn policy(&self, problem: Problem) -> Policy {
                match problem { $(Problem::$variant => parse(&self.$name)),+ }
            }

            pub(super) fn check(&self) -> Refused {
                $({
                    let allowed: &[&str] = &[$(stringify!($policy)),*];
                    let reason = format!("must be {}", allowed.join(" or "));
                    let known = allowed.contains(&self.$name.as_str());
                    require(known, concat!("cleaning.", stringify!($name)), &self.$name, &reason)?;
                })+
                Ok(())
            }
        }
    };
}

fn parse(text: &str) -> Policy {
    match text {
        "drop" => Policy::Drop,
        "repair" => Policy::Repair,
        _ => Policy::Error,
    }
}

kinds! {
    /// A second bar of an instrument with the same start. Repair: the later one stands.
    Duplicate duplicate [error drop repair];
    /// A bar, trade or quote before its predecessor. Repair: sorted.
    Disorder disorder [error drop repair];
    /// Intervals without a bar within trading. Drop: they stay without. Repair: up to 10 flat bars at the last close.
    Gap gap [error drop repair];
    /// A price that is not there, not a number, or infinite. Repair: a flat bar at the last close, without volume.
    UndefinedPrice undefined_price [error drop repair];
    /// A price of 0. Repair: a flat bar at the last close, without volume.
    ZeroPrice zero_price [error drop repair];
    /// A price below 0. Repair: a flat bar at the last close, without volume.
    NegativePrice negative_price [error drop repair];
    /// High below low, or open or close outside of them. Repair: the highest and the lowest of the four.
    HighBelowLow high_below_low [error drop repair];
    /// A volume or size that is not there or below 0. Repair: 0.
    BadVolume bad_volume [error drop repair];
    /// A best ask below the best bid. Repair: the middle of the two is taken all the same.
    Crossed crossed [error drop repair];
    /// A quote or book without one of its sides.
    OneSided one_sided [error drop];
    /// A level of a book without price, without size, or not further away than the one before it.
    BadLevel bad_level [error drop];
    /// A row that cannot be read: fields missing, or no moment in it.
    Unreadable unreadable [error drop];
}
