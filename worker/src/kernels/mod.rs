//! Our own kernels.
//!
//! Operations of networks and losses, each with its gradient, on the host, for 32 and 64 bits:
//!
//! | module | what it computes |
//! |---|---|
//! | [`matrix`] | products, in one order of sums whatever the batch and the processor |
//! | [`linear`] | linear layer, bias, activation |
//! | [`noisy`] | factorised noise on a layer's weights |
//! | [`dueling`] | value and advantages become values of actions |
//! | [`product`] | features times embeddings of samples |
//! | [`softmax`] | softmax, log sum exp |
//! | [`tanh`] | the hyperbolic tangent of many numbers |
//! | [`categorical`] | C51: projection onto atoms, cross entropy |
//! | [`quantile`] | IQN: cosines, quantile Huber loss |
//! | [`td`] | targets, Huber's and squared loss of plain values |
//! | [`conservative`] | the penalty of CQL(H) |
//! | [`advantage`] | generalised advantages |
//! | [`moments`] | mean and spread, also of parts put together |
//! | [`policy`] | distributions over actions, the clipped losses of PPO |
//! | [`exact`] | logarithm, power, cosine with the same bits everywhere |
//!
//! Each has tests against finite differences and the reference vectors; `networks` tests them against candle's autograd.
//!
//! Operations over flat buffers ([`flat`]), with a CUDA form that gives the same bits. The CUDA forms are text (`.cu`),
//! compiled at start by NVRTC for the device at hand, so that building the worker needs no compiler of ours:
//!
//! | text | what it computes | launched by |
//! |---|---|---|
//! | `exact.cu` | [`exact`], and the random streams of `seed.rs` | `replay.cu` |
//! | `flat.cu` | [`flat`], the norm, AdamW | `device`, `device_adamw` |
//! | `layers.cu` | [`linear`], [`noisy`], [`dueling`] | `layers` |
//! | `losses.cu` | [`td`], [`categorical`], [`conservative`], what rides behind the gradients | `losses` |
//! | `quantile.cu` | [`quantile`], [`product`] | `device_quantile` |
//! | `replay.cu` | the replay memory, noise, levels | `device_replay` |

pub mod advantage;
pub mod categorical;
pub mod conservative;
#[cfg(feature = "cuda")]
pub mod device;
#[cfg(feature = "cuda")]
pub mod device_adamw;
#[cfg(feature = "cuda")]
pub mod device_quantile;
#[cfg(feature = "cuda")]
pub mod device_replay;
pub mod dueling;
pub mod exact;
mod exp;
pub mod flat;
#[cfg(feature = "cuda")]
pub mod layers;
pub mod linear;
#[cfg(feature = "cuda")]
pub mod losses;
pub mod matrix;
pub mod moments;
pub mod noisy;
pub mod policy;
pub mod product;
pub mod quantile;
pub mod replay;
mod scalar;
pub mod softmax;
pub mod tanh;
pub mod td;
#[cfg(test)]
mod tests;
mod wide;

pub use scalar::Scalar;
pub use wide::widest;
