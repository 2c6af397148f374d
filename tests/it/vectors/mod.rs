//! Reference values, one test a kind: what the library computes, in 64 bits to 1e-9 and in 32 bits to 2e-5, gradients
//! included. Fields whose names say WRONG, or what they would be under a fault, are asserted not to be computed.
//!
//! `FOXLAUNCH_VECTORS=FILE cargo test -p foxlaunch-tests vectors` reads another file of the same form.

mod data_parallel;
mod finance;
pub(crate) mod harness;
mod policy;
mod replay;
mod values;
