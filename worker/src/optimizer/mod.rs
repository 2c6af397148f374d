//! The optimiser: AdamW with visible state, and the clip before it.
//!
//! Both work on the flat, averaged gradient in layout order; only the last step, into the variables, goes
//! entry by entry.

mod adamw;
mod clip;
#[cfg(feature = "cuda")]
mod device;

pub use crate::kernels::Scalar;
pub use adamw::{AdamW, AdamWSettings, Moment, Moments, OptimizerError};
pub use clip::{clip_coefficient, global_norm};
#[cfg(feature = "cuda")]
pub use device::DeviceAdamW;
