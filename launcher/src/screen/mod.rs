//! What a person sees while a run lasts ([`progress`], and all else through [`console`]) and when it ends
//! ([`summary`]).

pub mod console;
pub mod progress;
pub mod summary;

pub use crate::logs::prefix::printable;
pub use console::{Screen, complain};
