//! The hyperbolic tangent of many 32-bit numbers: a quotient of polynomials instead of the library's function, which takes
//! one number at a time. The same bits whatever the processor's instructions are: each step is rounded once in all forms.

/// Beyond this the tangent is 1 in 32 bits.
const MOST: f32 = 7.905_311;
/// Factors of x, x^3, ..., x^13 over those of 1, x^2, ..., x^6: a minimax fit, as in Eigen.
const ABOVE: [f32; 7] =
    [4.893_524_6e-3, 6.372_619_3e-4, 1.485_722_4e-5, 5.122_297_1e-8, -8.604_672e-11, 2.000_188e-13, -2.760_768_5e-16];
const BELOW: [f32; 4] = [4.893_525e-3, 2.268_434_6e-3, 1.185_347_1e-4, 1.198_258_4e-6];

#[inline(always)]
fn tanh(x: f32) -> f32 {
    // a number that is none stays none
    let x = if x > MOST { MOST } else { x };
    let x = if x < -MOST { -MOST } else { x };
    let square = x * x;
    let mut above = ABOVE[6];
    let mut i = 6;
    while i > 0 {
        i -= 1;
        above = above.mul_add(square, ABOVE[i]);
    }
    let below = BELOW[3].mul_add(square, BELOW[2]).mul_add(square, BELOW[1]).mul_add(square, BELOW[0]);
    x * above / below
}

#[inline(always)]
fn each(values: &mut [f32]) {
    values.iter_mut().for_each(|x| *x = tanh(*x));
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[target_feature(enable = "avx512f")]
    pub(super) fn wide(values: &mut [f32]) {
        super::each(values);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn narrow(values: &mut [f32]) {
        super::each(values);
    }
}

/// Replaces each of `values` by its hyperbolic tangent, within 3e-7 of it.
pub fn tanh_all(values: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has these instructions.
            return unsafe { x86::wide(values) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: as above.
            return unsafe { x86::narrow(values) };
        }
    }
    each(values);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_near_the_library_s_everywhere_and_odd_and_within_one() {
        let mut xs: Vec<f32> = (-12_000..=12_000).map(|i| i as f32 * 1e-3).collect();
        xs.extend([1e-30, -1e-30, 1e-5, 100.0, -100.0, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, 0.0]);
        let mut ys = xs.clone();
        tanh_all(&mut ys);
        for (x, y) in xs.iter().zip(&ys) {
            let expected = f64::from(*x).tanh();
            let error = (f64::from(*y) - expected).abs();
            assert!(error <= 3e-7 * expected.abs().max(1e-30), "{x}: {y}, expected {expected}");
            assert!(y.abs() <= 1.0, "{x}: {y}");
        }
        let mut mirrored: Vec<f32> = xs.iter().map(|x| -x).collect();
        tanh_all(&mut mirrored);
        assert!(mirrored.iter().zip(&ys).all(|(a, b)| *a == -b));
        let mut none = [f32::NAN];
        tanh_all(&mut none);
        assert!(none[0].is_nan());
    }

    #[test]
    fn every_form_has_the_same_bits() {
        let xs: Vec<f32> = (-999..=999).map(|i| i as f32 * 0.0137).collect();
        let (mut all, mut plain) = (xs.clone(), xs.clone());
        tanh_all(&mut all);
        each(&mut plain);
        assert_eq!(all, plain);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let mut narrow = xs;
            // SAFETY: the processor has these instructions.
            unsafe { x86::narrow(&mut narrow) };
            assert_eq!(narrow, plain);
        }
    }
}
