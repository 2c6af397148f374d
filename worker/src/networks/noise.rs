//! One sample of noise for all noisy weights of a network.

use super::network::{Network, Op};
use crate::kernels::{Scalar, noisy};
use crate::seed::{Streams, normal};

/// The scaled noise of each operation; empty where it has none.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise<T> {
    pub(super) of_ops: Vec<OfOp<T>>,
}

/// f(e) for the inputs and the outputs of one operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OfOp<T> {
    pub(super) inputs: Vec<T>,
    pub(super) outputs: Vec<T>,
}

impl<T: Scalar> Noise<T> {
    /// Sample number `number` for `purpose`, the same on every rank.
    pub fn draw(network: &Network, streams: &Streams, purpose: &str, number: u64) -> Noise<T> {
        let of_op = |(i, op): (usize, &Op)| {
            let Op::Linear { slots: (from, to), sigma: Some(_), .. } = op else { return OfOp::default() };
            let mut draw = streams.draw(purpose, i as u64, number);
            let mut scaled = |len: usize| {
                let mut normals: Vec<T> = (0..len).map(|_| T::of(normal(&mut draw))).collect();
                noisy::scale(&mut normals);
                normals
            };
            OfOp { inputs: scaled(network.slots()[*from].width), outputs: scaled(network.slots()[*to].width) }
        };
        Noise { of_ops: network.ops().iter().enumerate().map(of_op).collect() }
    }
}
