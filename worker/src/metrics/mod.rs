//! What training measured: summed between two records ([`Meter`]), then written as lines of JSON and for
//! TensorBoard ([`Sink`]).

mod meter;
mod sink;
pub mod tensorboard;

pub use meter::Meter;
pub use sink::{MetricsError, Sink};
