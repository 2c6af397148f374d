//! Networks: named parameters and a forward pass. None of them knows of ranks, collectives or the world.

mod q_network;

pub use q_network::QNetwork;
