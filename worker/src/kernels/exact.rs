//! Logarithm, exponential, power and cosine of 64 bits in the same few operations on the host and on the device
//! (`exact.cu`), each of which IEEE 754 rounds in one way: so both give the same bits, as do hosts with different
//! libraries. For what decides a draw: noise, masses of priorities, weights.
//!
//! The polynomials are fdlibm's (Sun Microsystems 1993). Errors are below 2 units in the last place, and of [`power`]
//! below |a ln x| of them more.

const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
const LOG: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_4e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_6e-1,
];
const EXP: [f64; 5] = [
    1.666_666_666_666_660_2e-1,
    -2.777_777_777_701_559_3e-3,
    6.613_756_321_437_934e-5,
    -1.653_390_220_546_525_2e-6,
    4.138_136_797_057_238_5e-8,
];
const SIN: [f64; 6] = [
    -1.666_666_666_666_663_2e-1,
    8.333_333_333_322_49e-3,
    -1.984_126_982_985_795e-4,
    2.755_731_370_707_006_8e-6,
    -2.505_076_025_340_686_3e-8,
    1.589_690_995_211_55e-10,
];
const COS: [f64; 6] = [
    4.166_666_666_666_66e-2,
    -1.388_888_888_887_411e-3,
    2.480_158_728_947_673e-5,
    -2.755_731_435_139_066_3e-7,
    2.087_572_321_298_175e-9,
    -1.135_964_755_778_819_5e-11,
];

/// 2^n, n from -1022 to 1023.
fn two_to(n: i64) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// The natural logarithm of `x`.
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    // numbers without a leading one are brought among the others
    let (scaled, shift) = if x < f64::MIN_POSITIVE { (x * two_to(54), 54) } else { (x, 0) };
    // x = 2^k m, m from sqrt(1/2) to sqrt(2)
    let bits = scaled.to_bits().wrapping_add((0x3ff0_0000 - 0x3fe6_a09e) << 32);
    let k = (bits >> 52) as i64 - 1023 - shift;
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(0x3fe6_a09e << 32));
    let f = m - 1.0;
    let half = 0.5 * f * f;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (LOG[1] + w * (LOG[3] + w * LOG[5]));
    let odd = z * (LOG[0] + w * (LOG[2] + w * (LOG[4] + w * LOG[6])));
    let k = k as f64;
    s * (half + (odd + even)) + k * LN2_LOW - half + f + k * LN2_HIGH
}

/// e^x; what is smaller than 2^-1022 is 0.
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > 709.0 {
        // twice, so that what is just below the largest number is still one
        return if x > 710.0 { f64::INFINITY } else { exp(x - 1.0) * std::f64::consts::E };
    }
    if x < -708.0 {
        return 0.0;
    }
    let k = (x * std::f64::consts::LOG2_E + 0.5).floor();
    let high = x - k * LN2_HIGH;
    let low = k * LN2_LOW;
    let r = high - low;
    let z = r * r;
    let c = r - z * (EXP[0] + z * (EXP[1] + z * (EXP[2] + z * (EXP[3] + z * EXP[4]))));
    (1.0 + (r * c / (2.0 - c) - low + high)) * two_to(k as i64)
}

/// x^a for x of 0 or more; 1 where a is 0.
pub fn power(x: f64, a: f64) -> f64 {
    if a == 0.0 {
        1.0
    } else if a == 1.0 {
        x
    } else if a == 0.5 {
        x.sqrt()
    } else {
        exp(a * ln(x))
    }
}

/// The cosine of `turns` whole turns, from 0 to below 1.
pub fn cos_turns(turns: f64) -> f64 {
    let quarter = (4.0 * turns + 0.5).floor();
    let x = (turns - 0.25 * quarter) * std::f64::consts::TAU;
    let z = x * x;
    let cos = 1.0 - 0.5 * z + z * z * (COS[0] + z * (COS[1] + z * (COS[2] + z * (COS[3] + z * (COS[4] + z * COS[5])))));
    let sin = x + x * z * (SIN[0] + z * (SIN[1] + z * (SIN[2] + z * (SIN[3] + z * (SIN[4] + z * SIN[5])))));
    match quarter as i64 {
        1 => -sin,
        2 => -cos,
        3 => sin,
        _ => cos,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(ours: f64, theirs: f64, units: f64) -> bool {
        (ours - theirs).abs() <= units * f64::EPSILON * theirs.abs() || ours.to_bits() == theirs.to_bits()
    }

    #[test]
    fn the_ends_are_right() {
        assert_eq!((ln(1.0), ln(0.0), ln(f64::INFINITY)), (0.0, f64::NEG_INFINITY, f64::INFINITY));
        assert!(ln(-1.0).is_nan() && ln(f64::NAN).is_nan() && exp(f64::NAN).is_nan() && power(f64::NAN, 0.6).is_nan());
        assert_eq!((exp(0.0), exp(-1e9), exp(1e9)), (1.0, 0.0, f64::INFINITY));
        assert_eq!((power(0.0, 0.6), power(0.0, 0.0), power(9.0, 0.5), power(0.3, 1.0)), (0.0, 1.0, 3.0, 0.3));
        assert_eq!((power(0.0, -0.4), power(f64::INFINITY, 0.6)), (f64::INFINITY, f64::INFINITY));
        assert_eq!((cos_turns(0.0), cos_turns(0.25), cos_turns(0.5), cos_turns(0.75)), (1.0, 0.0, -1.0, 0.0));
        assert!(near(ln(5e-324), 5e-324f64.ln(), 2.0) && near(exp(709.5), 709.5f64.exp(), 4.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn they_are_those_of_the_library_to_the_last_places(
            x in -300.0..300.0f64, scale in -300i32..300, turns in 0.0..1.0f64, a in -1.0..1.0f64,
        ) {
            let y = (1.0 + x.abs() / 300.0) * 10f64.powi(scale);
            prop_assert!(near(ln(y), y.ln(), 2.0), "ln {y}: {} {}", ln(y), y.ln());
            prop_assert!(near(exp(x), x.exp(), 2.0), "exp {x}: {} {}", exp(x), x.exp());
            let units = 4.0 + (a * y.ln()).abs();
            prop_assert!(near(power(y, a), y.powf(a), 2.0 * units), "{y}^{a}: {} {}", power(y, a), y.powf(a));
            let cos = (turns * std::f64::consts::TAU).cos();
            prop_assert!((cos_turns(turns) - cos).abs() < 1e-15, "cos {turns}: {} {cos}", cos_turns(turns));
        }
    }
}
