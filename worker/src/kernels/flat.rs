//! Operations over flat f32 buffers: here on the host, in [`device`](super::device) on a GPU, with the same bits.

/// Blocks of the norm's first half.
pub const NORM_BLOCKS: usize = 128;
/// Threads of a block.
pub const BLOCK: usize = 256;

/// Multiplies each of `values` by `factor`.
pub fn scale(values: &mut [f32], factor: f32) {
    values.iter_mut().for_each(|x| *x *= factor);
}

/// Adds `from` to `to`, element by element. Both have one length.
pub fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// The Euclidean norm of `values`, summed in 64 bits in the order in which the device sums it: this is the reference
/// for the device's kernel, while training on the host takes the quicker `optimizer::global_norm`.
pub fn norm(values: &[f32]) -> f64 {
    let threads = NORM_BLOCKS * BLOCK;
    let mut sums = vec![0.0f64; threads];
    for row in values.chunks(threads) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
    }
    let mut parts: Vec<f64> = sums.chunks_mut(BLOCK).map(pairwise).collect();
    parts.resize(BLOCK, 0.0);
    pairwise(&mut parts).sqrt()
}

/// Adds the second half onto the first until one value is left. A power of two of values.
fn pairwise(sums: &mut [f64]) -> f64 {
    let mut half = sums.len() / 2;
    while half > 0 {
        let (to, from) = sums.split_at_mut(half);
        to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
        half /= 2;
    }
    sums[0]
}

/// What a gradient of norm `norm` is multiplied by so that it is at most about `max_norm`, as the device computes it: 1
/// where `max_norm` is 0, and not a number where `norm` is none.
pub fn clip(norm: f64, max_norm: f64) -> f64 {
    let factor = max_norm / (norm + 1e-6);
    if max_norm == 0.0 || factor > 1.0 { 1.0 } else { factor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_element_counts_once(n in 0usize..100_000, at: prop::sample::Index) {
            let mut values = vec![1.0f32; n];
            prop_assert_eq!(norm(&values), (n as f64).sqrt());
            if n > 0 {
                values[at.index(n)] = 3.0;
                prop_assert_eq!(norm(&values), (n as f64 + 8.0).sqrt());
            }
        }
    }

    #[test]
    fn a_norm_that_is_no_number_is_not_hidden() {
        assert!(clip(f64::NAN, 1.0).is_nan());
        assert_eq!(clip(f64::INFINITY, 1.0), 0.0);
        assert_eq!(clip(0.5, 1.0), 1.0);
        assert_eq!(clip(1e9, 0.0), 1.0);
        assert!((clip(4.0, 1.0) - 0.25).abs() < 1e-6);
    }

    #[test]
    fn scale_and_add_are_element_wise() {
        let mut values = [1.0, -2.0, 0.5];
        scale(&mut values, 2.0);
        add(&mut values, &[0.5, 0.5, 0.5]);
        assert_eq!(values, [2.5, -3.5, 1.5]);
    }
}
