//! Trainers: one loop for all algorithms, and one file for each algorithm that reads like its paper.
//!
//! | module | what it does |
//! |---|---|
//! | [`run`] | folds, rhythm, checkpoints, test results: the loop |
//! | [`session`] | the run's folder and what was best so far |
//! | `judge` | validation and test of agents that trade |
//! | [`collect`] | environments stepped side by side, every rank its own, all ranks knowing all |
//! | [`exchange`] | messages of any length between the ranks |
//! | [`learner`] | double DQN: networks, loss, step |
//! | [`dqn`] | the algorithm: collect, insert, update |
//! | [`stepper`] | clip and AdamW where the parameters are |
//! | [`schedule`] | what changes as training goes on |

pub mod collect;
pub mod dqn;
mod error;
pub mod exchange;
mod judge;
pub mod learner;
pub mod run;
pub mod schedule;
pub mod session;
pub mod stepper;
#[cfg(test)]
mod tests;

pub use error::TrainError;
pub use judge::MarketJudge;
pub use run::{Algorithm, Ending, Judge, train_with_preloaded_data};
