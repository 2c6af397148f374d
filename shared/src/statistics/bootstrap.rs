//! How far figures may be from the true ones: the stationary bootstrap (Politis, Romano 1994), which keeps runs of days
//! together, since returns are not independent from day to day.

use super::Moments;

/// Resampled histories.
const DRAWS: usize = 1000;

/// 5 % and 95 % quantiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intervals {
    /// Of the Sharpe ratio for a year.
    pub sharpe: [f64; 2],
    /// Of the total return.
    pub total: [f64; 2],
}

/// Intervals of `returns`, of which a year has `per_year`, from blocks of a mean length of the cube root of their number.
/// The same returns give the same intervals. Zeros for fewer than 10.
pub fn intervals(returns: &[f64], per_year: f64) -> Intervals {
    let n = returns.len();
    if n < 10 {
        return Intervals { sharpe: [0.0; 2], total: [0.0; 2] };
    }
    let mut random = SplitMix(0x005e_ed0f_f0c5);
    let go_on = 1.0 - 1.0 / (n as f64).cbrt();
    let (mut sharpes, mut totals) = (Vec::with_capacity(DRAWS), Vec::with_capacity(DRAWS));
    let mut drawn = Vec::with_capacity(n);
    for _ in 0..DRAWS {
        drawn.clear();
        let mut at = random.below(n);
        while drawn.len() < n {
            drawn.push(returns[at]);
            at = if random.uniform() < go_on { (at + 1) % n } else { random.below(n) };
        }
        sharpes.push(Moments::of(&drawn).sharpe() * per_year.max(0.0).sqrt());
        totals.push(drawn.iter().map(|r| r.max(-1.0).ln_1p()).sum::<f64>().exp_m1());
    }
    Intervals { sharpe: ends(sharpes), total: ends(totals) }
}

fn ends(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    [0.05, 0.95].map(|q| values[(q * (values.len() - 1) as f64).round() as usize])
}

/// A small generator of random numbers (Steele, Lea, Flood 2014), enough for drawing rows.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below 1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum of uniform numbers: near enough to normal.
    fn noise(n: usize, mean: f64) -> Vec<f64> {
        let mut random = SplitMix(7);
        (0..n).map(|_| mean + 0.01 * ((0..12).map(|_| random.uniform()).sum::<f64>() - 6.0)).collect()
    }

    #[test]
    fn the_interval_of_independent_returns_is_as_wide_as_theory_says() {
        let returns = noise(1000, 0.0005);
        let Intervals { sharpe: [low, high], total } = intervals(&returns, 252.0);
        let middle = Moments::of(&returns).sharpe() * 252f64.sqrt();
        assert!(low < middle && middle < high);
        // the standard error of a daily ratio of n independent days is about 1 / sqrt(n); 90 % lie within 1.645 of it
        let expected = 2.0 * 1.645 * (252.0f64 / 1000.0).sqrt();
        assert!(((high - low) / expected - 1.0).abs() < 0.15, "{} instead of {expected}", high - low);
        let grown: f64 = returns.iter().map(|r| r.ln_1p()).sum::<f64>().exp_m1();
        assert!(total[0] < grown && grown < total[1]);
        assert_eq!(intervals(&returns, 252.0), intervals(&returns, 252.0));
    }

    #[test]
    fn returns_that_follow_each_other_widen_it() {
        let noise = noise(1000, 0.0);
        let smooth: Vec<f64> = noise.windows(8).map(|w| w.iter().sum::<f64>() / 8.0).collect();
        let width = |returns: &[f64]| {
            let [low, high] = intervals(returns, 252.0).sharpe;
            high - low
        };
        assert!(width(&smooth) > 1.5 * width(&noise), "{} and {}", width(&smooth), width(&noise));
        assert_eq!(intervals(&[0.1; 9], 252.0).sharpe, [0.0; 2]);
    }
}
