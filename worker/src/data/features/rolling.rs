//! Sums, extremes and spreads over windows that end at each bar, for all bars at once.
//!
//! A window's value is put together from windows of 1, 2, 4… bars, each from two of the half length. So it takes about
//! log2 of the window's length in passes, each over whole columns, and depends on the values in its window alone, down to
//! the last bit: unlike a running sum, which keeps the rounding of all that went before.

/// What `join` makes of the windows of 1, 2, 4… values, for the window of `window` values that ends at each. Values of
/// windows that begin before the column are of no use.
fn joined(x: &[f64], window: usize, mut take: impl FnMut(&[f64], usize)) {
    let mut part = x.to_vec();
    let (mut length, mut rest) = (1, window);
    while rest > 0 {
        take(&part, length);
        rest /= 2;
        if rest > 0 {
            let mut longer = part.clone();
            for (y, x) in longer.iter_mut().skip(length).zip(&part) {
                *y += x;
            }
            part = longer;
            length *= 2;
        }
    }
}

/// The sum of the `window` values up to each.
pub(super) fn sums(x: &[f64], window: usize) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    let mut behind = 0;
    joined(x, window, |part, length| {
        if window & length != 0 {
            for (y, x) in out.iter_mut().skip(behind).zip(part) {
                *y += x;
            }
            behind += length;
        }
    });
    out
}

/// The mean of the `window` values up to each.
pub(super) fn means(x: &[f64], window: usize) -> Vec<f64> {
    let mut out = sums(x, window);
    out.iter_mut().for_each(|y| *y /= window as f64);
    out
}

/// The standard deviation (ddof 0) of the `window` values up to each, whose means are `means`.
pub(super) fn deviations(x: &[f64], means: &[f64], window: usize) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    for back in 0..window {
        for ((y, m), x) in out.iter_mut().zip(means).skip(back).zip(x) {
            *y += (x - m) * (x - m);
        }
    }
    out.iter_mut().for_each(|y| *y = (*y / window as f64).sqrt());
    out
}

/// The largest of the `window` values up to each.
pub(super) fn maxima(x: &[f64], window: usize) -> Vec<f64> {
    extremes(x, window, f64::max)
}

/// The smallest of the `window` values up to each.
pub(super) fn minima(x: &[f64], window: usize) -> Vec<f64> {
    extremes(x, window, f64::min)
}

/// Two windows of a power of 2 that overlap make any window, since a value may count twice.
fn extremes(x: &[f64], window: usize, pick: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut part = x.to_vec();
    let mut length = 1;
    while length < window {
        let step = length.min(window - length);
        let mut longer = part.clone();
        for (y, x) in longer.iter_mut().skip(step).zip(&part) {
            *y = pick(*y, *x);
        }
        part = longer;
        length += step;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn windows_equal_their_definition(x in prop::collection::vec(-9.0..9.0f64, 1..90), window in 1..65usize) {
            let (sum, max, min) = (sums(&x, window), maxima(&x, window), minima(&x, window));
            let mean = means(&x, window);
            let spread = deviations(&x, &mean, window);
            for t in window - 1..x.len() {
                let own = &x[t + 1 - window..=t];
                let m = own.iter().sum::<f64>() / window as f64;
                prop_assert!((sum[t] - own.iter().sum::<f64>()).abs() < 1e-9);
                prop_assert_eq!(max[t], own.iter().copied().fold(f64::MIN, f64::max));
                prop_assert_eq!(min[t], own.iter().copied().fold(f64::MAX, f64::min));
                let variance = own.iter().map(|v| (v - m).powi(2)).sum::<f64>() / window as f64;
                prop_assert!((spread[t] - variance.sqrt()).abs() < 1e-9);
            }
        }

        #[test]
        fn a_window_knows_nothing_of_what_lies_before_it(x in prop::collection::vec(-9.0..9.0f64, 70), window in 1..60usize) {
            let late = sums(&x[5..], window);
            prop_assert_eq!(&sums(&x, window)[5 + window..], &late[window..]);
        }
    }
}
