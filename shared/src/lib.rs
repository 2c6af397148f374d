//! The words that foxlaunch's launcher and its workers both speak.
//!
//! Nothing here starts a process, opens a device or knows a tensor: these are names, codes, file
//! names, messages and settings, each in the one place where both sides look it up.
//!
//! | module | what it fixes |
//! |---|---|
//! | [`ids`] | who is meant: rank, world, attempt, device, run |
//! | [`env`] | every environment variable a worker is started with |
//! | [`exit`] | every exit code, and what it means |
//! | [`run_dir`] | every file name inside a run folder |
//! | [`answers`] | what a worker binary says when it is asked instead of started |
//! | [`evaluation`] | a fold's test result |
//! | [`statistics`] | what a curve of equity says |
//! | [`date`] | days as dates, and back |
//! | [`zone`] | what clocks show, as moments |
//! | [`metric`] | one metric record = one line of JSON |
//! | [`protocol`] | what launcher and worker say to each other, and how it is framed |
//! | [`config`] | every setting, its default, its limits and where its value came from |

pub mod answers;
pub mod config;
pub mod date;
pub mod env;
pub mod evaluation;
pub mod exit;
pub mod ids;
pub mod metric;
pub mod protocol;
pub mod run_dir;
pub mod statistics;
pub mod zone;
