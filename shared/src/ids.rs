//! Who is meant: small types that keep one number from being taken for another.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A worker's number in the world, from 0.
    Rank
}
number! {
    /// A worker's number on its host, from 0; the same as [`Rank`] on one host.
    LocalRank
}
number! {
    /// How many workers there are.
    WorldSize
}
number! {
    /// Which start of the whole world this is, from 1. Every restart counts one up, and what still
    /// arrives from an earlier attempt is dropped.
    Attempt
}

impl Attempt {
    /// The first attempt.
    pub const FIRST: Attempt = Attempt(1);

    /// The attempt after this one.
    pub fn next(self) -> Attempt {
        Attempt(self.0 + 1)
    }
}

impl WorldSize {
    /// All ranks, in order.
    pub fn ranks(self) -> impl Iterator<Item = Rank> {
        (0..self.0).map(Rank)
    }
}

/// What a worker computes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceId {
    /// The host's processor.
    Cpu,
    /// An NVIDIA device, by the token that `CUDA_VISIBLE_DEVICES` takes for it: an ordinal, `GPU-…` or
    /// `MIG-…`, passed on as it was given.
    Cuda(String),
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceId::Cpu => f.write_str("cpu"),
            DeviceId::Cuda(token) => write!(f, "cuda:{token}"),
        }
    }
}

/// A run's name: the last part of its folder's path, or what its maker chose.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
