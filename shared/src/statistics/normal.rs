//! The normal distribution.

use std::f64::consts::{PI, SQRT_2};

/// The probability that a standard normal value is below `x`, to about 1e-15.
pub fn cumulative(x: f64) -> f64 {
    match x {
        x if x.is_nan() => 0.5,
        x if x < 0.0 => 0.5 * upper(-x / SQRT_2),
        x => 1.0 - 0.5 * upper(x / SQRT_2),
    }
}

/// erfc(z) for z >= 0: the series of erf near 0, the continued fraction of Laplace further out.
fn upper(z: f64) -> f64 {
    if z > 27.0 {
        return 0.0;
    }
    if z < 2.0 {
        // erf(z) = 2 / sqrt(pi) exp(-z^2) sum of 2^k z^(2k+1) / (1 3 5 .. (2k+1)): no term cancels another
        let (mut term, mut sum) = (z, z);
        for k in 1..200 {
            term *= 2.0 * z * z / f64::from(2 * k + 1);
            sum += term;
            if term < sum * 1e-17 {
                break;
            }
        }
        return 1.0 - 2.0 / PI.sqrt() * (-z * z).exp() * sum;
    }
    let mut fraction = z;
    for k in (1..=120).rev() {
        fraction = z + f64::from(k) / 2.0 / fraction;
    }
    (-z * z).exp() / PI.sqrt() / fraction
}

/// The value below which a standard normal one lies with probability `p`; infinite for 0 and 1.
pub fn quantile(p: f64) -> f64 {
    if !(p > 0.0 && p < 1.0) {
        return if p >= 1.0 { f64::INFINITY } else { f64::NEG_INFINITY };
    }
    if p > 0.5 {
        // where p is exact, 1 - p is
        return -quantile(1.0 - p);
    }
    // between bounds, since Newton's steps leap far out in the tails
    let (mut low, mut high) = (-40.0f64, 0.0f64);
    let mut x = -1.0;
    for _ in 0..200 {
        let wrong = cumulative(x) - p;
        if wrong > 0.0 {
            high = x
        } else {
            low = x
        }
        let slope = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
        let step = x - wrong / slope;
        let next = if step > low && step < high { step } else { 0.5 * (low + high) };
        if (next - x).abs() <= 1e-15 * x.abs().max(1e-300) {
            return next;
        }
        x = next;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        for (x, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (-1.0, 0.158_655_253_931_457_05),
            (1.959_963_984_540_054, 0.975),
            (-3.0, 0.001_349_898_031_630_094_5),
            (-6.0, 9.865_876_450_376_98e-10),
            (5.0, 0.999_999_713_348_428_1),
        ] {
            assert!((cumulative(x) / p - 1.0).abs() < 1e-13, "{x}: {}", cumulative(x));
            assert!((quantile(p) - x).abs() < 1e-9 * x.abs().max(1.0), "{p}: {}", quantile(p));
        }
        assert_eq!((quantile(0.0), quantile(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!((cumulative(-50.0), cumulative(50.0)), (0.0, 1.0));
    }

    proptest! {
        #[test]
        fn each_is_the_others_inverse(p in 1e-12..0.5f64) {
            prop_assert!((cumulative(quantile(p)) / p - 1.0).abs() < 1e-11);
        }

        #[test]
        fn it_rises(x in -8.0..8.0f64, step in 1e-6..1.0f64) {
            prop_assert!(cumulative(x) <= cumulative(x + step));
        }
    }
}
