//! The exponential of many 32-bit numbers: a polynomial instead of the library's function, which takes one number at a time.
//! The same bits whatever the processor's instructions are: each step is rounded once in all forms.

use super::widest;

/// Below this e^x is no normal 32-bit number, and is taken for 0.
const LEAST: f32 = -87.336_54;
/// Above this e^x is more than any 32-bit number.
const MOST: f32 = 88.722_83;
/// ln 2, in a part whose products with small whole numbers are exact, and the rest.
const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
/// 1/2!, 1/3!, ..., 1/7!, a little off for the least error, as in Cephes' expf.
const FACTORS: [f32; 6] = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1];

/// e^x = 2^n e^r, r within half of ln 2.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let within = if x > LEAST { x } else { LEAST };
    let within = if within < MOST { within } else { MOST };
    // the nearest whole number, by the place where 32 bits have no fractions left
    let shift = 12_582_912.0f32;
    let shifted = within * std::f32::consts::LOG2_E + shift;
    let (n, whole) = (shifted - shift, (shifted.to_bits() as i32).wrapping_sub(shift.to_bits() as i32));
    let r = (within - n * LN_2.0) - n * LN_2.1;
    let mut sum = FACTORS[0];
    let mut i = 1;
    while i < 6 {
        sum = sum * r + FACTORS[i];
        i += 1;
    }
    let y = sum * (r * r) + r + 1.0;
    // 2^n in two factors, since 2^128 is no 32-bit number though 2^128 e^r can be
    let half = whole >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    let y = y * power(half) * power(whole.wrapping_sub(half));
    let y = if x < LEAST { 0.0 } else { y };
    let y = if x > MOST { f32::INFINITY } else { y };
    // what is no number stays none
    if x.is_nan() { x } else { y }
}

/// Replaces each of `values` by e to its power, within 2e-7 of it; by 0 where that is no normal number.
pub(super) fn exp_all(values: &mut [f32]) {
    widest(|| values.iter_mut().for_each(|x| *x = exp(*x)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_near_the_library_s_everywhere() {
        let mut xs: Vec<f32> = (-87_300..=88_700).map(|i| i as f32 * 1e-3).collect();
        xs.extend([0.0, -0.0, 1e-30, -1e-30, LEAST + 1e-5, MOST - 1e-5]);
        let mut ys = xs.clone();
        exp_all(&mut ys);
        for (x, y) in xs.iter().zip(&ys) {
            let expected = f64::from(*x).exp();
            assert!((f64::from(*y) - expected).abs() <= 2e-7 * expected, "{x}: {y}, expected {expected}");
        }
        let mut ends = [-88.0, -1e30, f32::NEG_INFINITY, 89.0, f32::INFINITY, f32::NAN];
        exp_all(&mut ends);
        assert_eq!(ends[..5], [0.0, 0.0, 0.0, f32::INFINITY, f32::INFINITY]);
        assert!(ends[5].is_nan());
    }

    #[test]
    fn every_form_has_the_same_bits() {
        let xs: Vec<f32> = (-999..=999).map(|i| i as f32 * 0.087).collect();
        let mut all = xs.clone();
        exp_all(&mut all);
        let one_by_one: Vec<f32> = xs.iter().map(|x| exp(*x)).collect();
        assert_eq!(all, one_by_one);
    }
}
