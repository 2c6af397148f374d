//! x

pub mod report;
pub mod screen;
