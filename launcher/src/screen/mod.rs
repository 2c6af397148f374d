//! What a person sees while a run lasts ([`progress`], and all else through [`console`]), when it ends
//! ([`summary`]) and when it fails ([`failure`]).

pub mod console;
pub mod failure;
pub mod progress;
pub mod summary;

pub use console::Screen;
