//! Our own kernels: each a host form, and a CUDA form that gives the same bits.
//!
//! The CUDA forms are text (`.cu`), compiled at start by NVRTC for the device at hand, so that building the worker needs
//! no compiler of ours.

#[cfg(feature = "cuda")]
pub mod device;
#[cfg(feature = "cuda")]
pub mod device_adamw;
pub mod flat;
