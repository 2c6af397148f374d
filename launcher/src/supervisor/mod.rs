//! Keeps watch over a job's workers: [`event`] says what can happen and be done, [`state`] decides, [`act`] does.

pub mod act;
pub mod clock;
pub mod event;
pub mod health;
pub mod journal;
pub mod observer;
pub mod pace;
pub mod record;
pub mod restart;
pub mod state;
pub mod steps;
pub mod verdict;
