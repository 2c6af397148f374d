//! What a person sees while a run lasts ([`progress`]) and when it ends ([`summary`]).

pub mod progress;
pub mod summary;

pub use progress::{Mode, Progress};
pub use summary::summary;
