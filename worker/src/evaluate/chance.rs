//! Random positions with a wanted turnover, for policies to be compared with.

/// A random walk over positions: at each bar, with probability `redraw`, another position, any as likely as the
/// next; of those redraws the share `far` goes to the position farthest away instead, which is needed where a policy
/// trades more than any fair draw would.
#[derive(Clone, Debug)]
pub(super) struct Chance {
    redraw: f64,
    far: f64,
    farthest: Vec<usize>,
}

impl Chance {
    /// The walk over `positions` whose expected turnover per bar is `turnover`, as far as any walk can have it.
    pub(super) fn of_turnover(positions: &[f64], turnover: f64) -> Chance {
        let n = positions.len();
        let away = |i: usize, j: usize| (positions[i] - positions[j]).abs();
        let farthest: Vec<usize> =
            (0..n).map(|i| (0..n).max_by(|&a, &b| away(i, a).total_cmp(&away(i, b))).unwrap_or(i)).collect();
        if n < 2 {
            return Chance { redraw: 0.0, far: 0.0, farthest };
        }
        // mean distance to another position, from each position
        let other: Vec<f64> = (0..n).map(|i| (0..n).map(|j| away(i, j)).sum::<f64>() / (n - 1) as f64).collect();
        let fair = other.iter().sum::<f64>() / n as f64;
        if turnover <= fair {
            return Chance { redraw: if fair > 0.0 { turnover / fair } else { 0.0 }, far: 0.0, farthest };
        }
        let expected = |far: f64| {
            let mut share = vec![1.0 / n as f64; n];
            // the walk forgets where it began by a factor of at least (1 - 1/n) in each step
            for _ in 0..64 {
                let mut next: Vec<f64> = share.iter().map(|s| (1.0 - far) * (1.0 - s) / (n - 1) as f64).collect();
                share.iter().zip(&farthest).for_each(|(s, &f)| next[f] += far * s);
                share = next;
            }
            (0..n).map(|i| share[i] * ((1.0 - far) * other[i] + far * away(i, farthest[i]))).sum::<f64>()
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if expected(middle) < turnover { low = middle } else { high = middle }
        }
        Chance { redraw: 1.0, far: high, farthest }
    }

    /// The position after `position`, from two uniform draws in [0, 1).
    pub(super) fn next(&self, position: usize, whether: f64, which: f64) -> usize {
        let n = self.farthest.len();
        if whether >= self.redraw || n < 2 {
            return position;
        }
        if which < self.far {
            return self.farthest[position];
        }
        let among_others = ((which - self.far) / (1.0 - self.far) * (n - 1) as f64) as usize;
        let other = among_others.min(n - 2);
        if other < position { other } else { other + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Streams;
    use rand::RngExt;

    #[test]
    fn the_walk_has_the_wanted_turnover() {
        let positions = [-1.0, 0.0, 1.0];
        for wanted in [0.0, 0.01, 0.5, 1.2, 1.5, 1.9] {
            let chance = Chance::of_turnover(&positions, wanted);
            let mut draw = Streams::new(3).draw("test", 0, 0);
            let (mut at, mut sum, bars) = (1, 0.0, 200_000);
            for _ in 0..bars {
                let next = chance.next(at, draw.random(), draw.random());
                sum += f64::abs(positions[next] - positions[at]);
                at = next;
            }
            let got = sum / f64::from(bars);
            assert!((got - wanted).abs() < 0.01 + 0.02 * wanted, "wanted {wanted}, got {got}");
        }
    }

    #[test]
    fn a_turnover_beyond_reach_flips_at_every_bar() {
        let chance = Chance::of_turnover(&[-1.0, 0.0, 1.0], 5.0);
        assert_eq!((chance.next(0, 0.99, 0.99), chance.next(2, 0.5, 0.0)), (2, 0));
    }
}
