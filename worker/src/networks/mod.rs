//! Networks: a list of operations over one flat buffer of parameters. None of them knows of ranks, collectives or the
//! world.
//!
//! | module | what it is |
//! |---|---|
//! | [`network`] | the list, and where its parameters lie |
//! | [`host`] | computed by the kernels, on the host |
//! | `device`, `device_plan` | computed by the kernels, on a CUDA device |
//! | [`candle_form`] | computed by candle: on GPUs, and the oracle of the tests |
//! | [`noise`] | one sample of noise for noisy weights |
//! | [`actor_critic`] | a policy and a value |
//! | [`q_values`] | values of actions: plain, dueling, categorical, quantile |

pub mod actor_critic;
pub mod candle_form;
#[cfg(feature = "cuda")]
pub mod device;
#[cfg(feature = "cuda")]
pub mod device_plan;
pub mod host;
pub mod network;
pub mod noise;
pub mod q_values;
#[cfg(test)]
mod tests;

pub use actor_critic::ActorCriticSettings;
pub use candle_form::CandleNetwork;
pub use host::{HostNetwork, Levels, Pass};
pub use network::Network;
pub use noise::Noise;
pub use q_values::{Head, QSettings};
