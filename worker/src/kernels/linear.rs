//! A linear layer: `y = f(x W^T + b)` with W of shape [outputs, inputs], and its gradient.
//!
//! ```text
//! dz = dy f'(z)      dW = dz^T x      db = sum over rows of dz      dx = dz W
//! ```
//!
//! W is packed once for each of the two products that read it ([`Panels`]), and serves until it changes.

use super::matrix::{Left, Panels, Product, Start, multiply};
use super::{Scalar, widest};

/// What follows the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    None,
    /// max(0, z).
    Relu,
    /// The hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// f(z), in place.
    pub fn apply<T: Scalar>(self, z: &mut [T]) {
        match self {
            Activation::None => {}
            // not `max`, which would hide what is not a number
            Activation::Relu => widest(|| z.iter_mut().for_each(|z| *z = if *z < T::ZERO { T::ZERO } else { *z })),
            Activation::Tanh => T::tanh_all(z),
        }
    }

    /// The gradient by z from that by f(z), in place; `y` is f(z). The slope of the rectifier at 0 is 0.
    pub fn backward<T: Scalar>(self, y: &[T], gradient: &mut [T]) {
        let pairs = y.iter().zip(gradient);
        match self {
            Activation::None => {}
            Activation::Relu => widest(|| pairs.for_each(|(y, g)| *g = if *y > T::ZERO { *g } else { T::ZERO })),
            Activation::Tanh => pairs.for_each(|(y, g)| *g *= T::ONE - *y * *y),
        }
    }
}

/// Packs W, `[outputs][inputs]`, for [`forward`].
pub fn pack_forward<T: Scalar>(panels: &mut Panels<T>, weight: &[T], outputs: usize, inputs: usize) {
    panels.pack_transposed(weight, inputs, outputs);
}

/// Packs W, `[outputs][inputs]`, for [`backward_input`].
pub fn pack_backward<T: Scalar>(panels: &mut Panels<T>, weight: &[T], outputs: usize, inputs: usize) {
    panels.pack(weight, outputs, inputs);
}

/// y, `[rows][outputs]`, of x, `[rows][inputs]`.
pub fn forward<T: Scalar>(x: &[T], weight: &Panels<T>, bias: &[T], activation: Activation, y: &mut [T]) {
    multiply(Product { left: Left::Rows(x), right: weight, start: Start::Row(bias), out: y });
    activation.apply(y);
}

/// dW, `[outputs][inputs]`, of dz, `[rows][outputs]`, and x, `[rows][inputs]`, which `panels` lends room to pack; set, or
/// with `add` added to what is there.
pub fn backward_weight<T: Scalar>(
    dz: &[T],
    x: &[T],
    (rows, inputs): (usize, usize),
    panels: &mut Panels<T>,
    add: bool,
    gradient: &mut [T],
) {
    panels.pack(x, rows, inputs);
    multiply(Product { left: Left::Columns(dz), right: panels, start: start(add), out: gradient });
}

/// db, `[outputs]`, of dz, `[rows][outputs]`, in the order of the rows; set, or with `add` added to what is there.
pub fn backward_bias<T: Scalar>(dz: &[T], add: bool, gradient: &mut [T]) {
    if !add {
        gradient.fill(T::ZERO);
    }
    widest(|| {
        for row in dz.chunks_exact(gradient.len().max(1)) {
            gradient.iter_mut().zip(row).for_each(|(g, d)| *g += *d);
        }
    });
}

/// dx, `[rows][inputs]`, of dz, `[rows][outputs]`; set, or with `add` added to what is there.
pub fn backward_input<T: Scalar>(dz: &[T], weight: &Panels<T>, add: bool, gradient: &mut [T]) {
    multiply(Product { left: Left::Rows(dz), right: weight, start: start(add), out: gradient });
}

fn start<T>(add: bool) -> Start<'static, T> {
    if add { Start::There } else { Start::Zero }
}
