//! The two number types that variables may have on the host.

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Sub};

/// A host number that training computes with.
pub trait Scalar:
    Copy
    + Debug
    + Send
    + Sync
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + 'static
{
    /// Zero.
    const ZERO: Self;

    /// The nearest value to `x`.
    fn of(x: f64) -> Self;

    /// The value in 64 bits, exactly.
    fn wide(self) -> f64;

    /// The square root, correctly rounded.
    fn root(self) -> Self;
}

macro_rules! scalar {
    ($t:ty) => {
        impl Scalar for $t {
            const ZERO: Self = 0.0;

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
        }
    };
}

scalar!(f32);
scalar!(f64);
