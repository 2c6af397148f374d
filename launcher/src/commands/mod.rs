//! The verbs: each file holds a verb's arguments and what it does.

pub mod data;
pub mod devices;
pub mod doctor;
pub mod evaluate;
pub mod failure;
pub mod hints;
pub mod launch;
pub mod ls;
pub mod predict;
pub mod report;
pub mod run;
pub mod stop;
pub mod train;

use foxlaunch_shared::exit;
use std::fmt::Display;

/// A verb that cannot go on: what to say, and the exit code.
#[derive(Debug)]
pub struct Refusal {
    /// The exit code.
    pub code: i32,
    /// What was wrong and what to do.
    pub message: String,
}

impl Refusal {
    /// A refusal with `code`.
    pub fn new(code: i32, message: impl Display) -> Refusal {
        Refusal { code, message: message.to_string() }
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Refusal {
        Refusal::new(exit::SOFTWARE, format_args!("{error:#}"))
    }
}

/// What a verb gives: the exit code.
pub type Done = Result<i32, Refusal>;
