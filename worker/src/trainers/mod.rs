//! Trainers: one loop for all algorithms, and one file for each algorithm that reads like its paper.
//!
//! | module | what it does |
//! |---|---|
//! | [`run`] | folds, rhythm, checkpoints, test results: the loop |
//! | `side_by_side` | whole folds on different ranks |
//! | [`session`] | the run's folder and what was best so far |
//! | `judge` | validation and test of agents that trade |
//! | [`collect`] | environments stepped side by side, every rank its own, all ranks knowing all |
//! | [`exchange`] | messages of any length between the ranks |
//! | [`control`] | tasks without bars, judged by greedy episodes |
//! | [`preloaded`] | data that were loaded once, and who hears of checkpoints |
//! | [`start`] | the algorithm that the settings name |
//! | [`dqn`] | Rainbow, and what its switches make of it: act, store, draw, learn |
//! | [`learner`] | one update of it over all ranks |
//! | [`heads`] | what a row costs: plain values, C51, IQN, CQL |
//! | [`ppo`] | proximal policy optimisation: rounds of rollouts and updates |
//! | [`rollout`] | what PPO learns from, collected by all ranks |
//! | `agent` | PPO's policy and value, acting and learning |
//! | [`normalizer`] | running moments of observations and returns |
//! | [`model`] | a network where it is computed, on the host or on a GPU |
//! | `device_model`, `device_slots`, `device_update` | the same on a GPU by our own kernels: a network, and an update as one CUDA graph |
//! | [`device_replay`] | its replay memory, on the GPU too |
//! | [`stepper`] | clip and AdamW where the parameters are |
//! | [`trained`] | a policy as a run left it |
//! | [`schedule`] | what changes as training goes on |

mod agent;
pub mod collect;
pub mod control;
#[cfg(feature = "cuda")]
pub mod device_model;
#[cfg_attr(not(feature = "cuda"), path = "no_device.rs")]
pub mod device_replay;
#[cfg(feature = "cuda")]
mod device_slots;
#[cfg(feature = "cuda")]
mod device_update;
pub mod dqn;
mod error;
pub mod exchange;
pub mod heads;
mod judge;
pub mod learner;
pub mod model;
pub mod normalizer;
pub mod ppo;
pub mod preloaded;
pub mod rollout;
pub mod run;
pub mod schedule;
pub mod session;
mod side_by_side;
pub mod start;
pub mod stepper;
#[cfg(test)]
mod tests;
pub mod trained;

pub use control::{ControlJudge, train_control};
pub use error::TrainError;
pub use judge::MarketJudge;
pub use preloaded::{Kept, OnCheckpoint, Preloaded, Saved};
pub use run::{Algorithm, Ending, Judge};
pub use start::{train_on_market, train_with_preloaded_data};
