#![doc = include_str!("../README.md")]
//!
//! # The map
//!
//! Layers, each using only those above it:
//!
//! 1. [`collectives`]: sum, gather and broadcast between processes;
//! 2. [`world`]: which of them this process is, and its line to the launcher;
//! 3. [`parallel`]: gradients and weights as flat buffers, summed or averaged over the world;
//!
//! Beside them [`optimizer`] steps, [`kernels`] has the device's own forms, [`networks`] know nothing of ranks, and
//! [`seed`] draws the same on every rank.
//!
//! The trainers stand on these (feature `trainers`): `data` becomes [`environments`], `replay` remembers, `trainers` has
//! one file for each algorithm, `checkpoint` and `metrics` keep what they made, `evaluate` judges it, and `jobs` turns
//! settings into a trainer.

#[cfg(feature = "trainers")]
pub mod checkpoint;
pub mod collectives;
#[cfg(feature = "trainers")]
pub mod data;
pub mod environments;
#[cfg(feature = "trainers")]
pub mod evaluate;
#[cfg(feature = "trainers")]
pub mod jobs;
pub mod kernels;
#[cfg(feature = "trainers")]
pub mod metrics;
pub mod networks;
pub mod optimizer;
pub mod parallel;
#[cfg(feature = "trainers")]
pub mod replay;
pub mod seed;
#[cfg(feature = "trainers")]
pub mod trainers;
#[cfg(test)]
mod vectors;
pub mod world;
