//! The two number types that is computed with on the host.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// A host number that training computes with: formulas are written once for both.
pub trait Scalar:
    Copy
    + Debug
    + Default
    + Send
    + Sync
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Sum
    + super::matrix::Element
    + 'static
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// The nearest value to `x`.
    fn of(x: f64) -> Self;

    /// The value in 64 bits, exactly.
    fn wide(self) -> f64;

    /// The square root, correctly rounded.
    fn root(self) -> Self;

    /// e to its power.
    fn exp(self) -> Self;

    /// e to the power of each, in place; in 32 bits quicker than one by one, and within 2e-7.
    fn exp_all(values: &mut [Self]);

    /// The natural logarithm.
    fn ln(self) -> Self;

    /// The hyperbolic tangent.
    fn tanh(self) -> Self;

    /// The hyperbolic tangent of each, in place; in 32 bits quicker than one by one, and within 3e-7.
    fn tanh_all(values: &mut [Self]);

    /// The cosine.
    fn cos(self) -> Self;

    /// Without its sign.
    fn abs(self) -> Self;

    /// The whole number at or below it.
    fn floor(self) -> Self;

    /// The larger of both; the other one where one is not a number.
    fn max(self, other: Self) -> Self;

    /// The smaller of both; the other one where one is not a number.
    fn min(self, other: Self) -> Self;

    /// `self * by + to`, rounded once.
    fn mul_add(self, by: Self, to: Self) -> Self;
}

macro_rules! scalar {
    ($t:ident, $exp_all:expr, $tanh_all:expr) => {
        impl Scalar for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline]
            fn of(x: f64) -> Self {
                x as $t
            }

            #[inline]
            fn wide(self) -> f64 {
                f64::from(self)
            }

            #[inline]
            fn root(self) -> Self {
                self.sqrt()
            }

            #[inline]
            fn exp(self) -> Self {
                $t::exp(self)
            }

            #[inline]
            fn ln(self) -> Self {
                $t::ln(self)
            }

            #[inline]
            fn tanh(self) -> Self {
                $t::tanh(self)
            }

            fn exp_all(values: &mut [Self]) {
                $exp_all(values)
            }

            fn tanh_all(values: &mut [Self]) {
                $tanh_all(values)
            }

            #[inline]
            fn cos(self) -> Self {
                $t::cos(self)
            }

            #[inline]
            fn abs(self) -> Self {
                $t::abs(self)
            }

            #[inline]
            fn floor(self) -> Self {
                $t::floor(self)
            }

            #[inline]
            fn max(self, other: Self) -> Self {
                $t::max(self, other)
            }

            #[inline]
            fn min(self, other: Self) -> Self {
                $t::min(self, other)
            }

            #[inline]
            fn mul_add(self, by: Self, to: Self) -> Self {
                $t::mul_add(self, by, to)
            }
        }
    };
}

scalar!(f32, super::exp::exp_all, super::tanh::tanh_all);
scalar!(f64, |values: &mut [f64]| values.iter_mut().for_each(|x| *x = x.exp()), |values: &mut [f64]| values
    .iter_mut()
    .for_each(|x| *x = x.tanh()));
