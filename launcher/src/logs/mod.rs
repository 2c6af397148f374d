//! What the workers print: into a file for each ([`file`]), its last lines kept for the report of a failure
//! ([`tail`]), and onto the console with the rank before each line ([`prefix`], [`template`], [`queue`], [`console`]);
//! [`mux`] joins these.

pub mod console;
pub mod file;
pub mod mux;
pub mod prefix;
pub mod queue;
pub mod tail;
pub mod template;
