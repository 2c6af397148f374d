//! Random positions like a policy's own, out of time: what a policy is compared with.

/// A random walk over positions that holds each as often as a policy did, and trades as much.
///
/// It is a Markov chain. Its transitions are those that the policy made, counted on the policy's path closed to a
/// ring (from the last bar back to the first), so that its stationary distribution is the policy's share of bars in
/// each position; the first position is drawn from those shares. What remains is to trade as much: every chance of a
/// change is multiplied by one factor, which leaves the shares as they are, so that the expected traded value, entry
/// and close included, is the policy's.
///
/// A policy that leans to one side so meets random policies that lean as much, and a drift of the market is no skill.
#[derive(Clone, Debug)]
pub(super) struct Chance {
    /// Share of bars in each position, summed up to and including it.
    first: Vec<f64>,
    /// For each position held, the same of the next one.
    next: Vec<Vec<f64>>,
}

impl Chance {
    /// The walk over `positions` like the `paths` of a policy, one for each instrument: the position, as an index,
    /// after each decision.
    pub(super) fn like(positions: &[f64], paths: &[Vec<usize>]) -> Chance {
        let n = positions.len();
        let mut counts = vec![vec![0.0; n]; n];
        // value traded at the ends, where a walk comes from flat and is closed, and in between
        let (mut ends, mut between) = (0.0, 0.0);
        for path in paths.iter().filter(|path| !path.is_empty()) {
            ends += positions[path[0]].abs() + positions[path[path.len() - 1]].abs();
            for pair in path.windows(2) {
                counts[pair[0]][pair[1]] += 1.0;
                between += (positions[pair[0]] - positions[pair[1]]).abs();
            }
            counts[path[path.len() - 1]][path[0]] += 1.0;
        }
        let visits: Vec<f64> = counts.iter().map(|row| row.iter().sum()).collect();
        let bars: f64 = visits.iter().sum();
        let walks = paths.iter().filter(|path| !path.is_empty()).count() as f64;
        // expected: value at the two ends of each walk, and value of one step
        let at_ends = 2.0 * walks * (0..n).map(|i| visits[i] * positions[i].abs()).sum::<f64>() / bars;
        let away = |i: usize, j: usize| (positions[i] - positions[j]).abs();
        let step =
            (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| counts[i][j] * away(i, j)).sum::<f64>()
                / bars;
        // no chance may rise above 1
        let most = (0..n).filter(|&i| visits[i] > counts[i][i]).map(|i| visits[i] / (visits[i] - counts[i][i]));
        let most = most.fold(f64::INFINITY, f64::min);
        let factor = match (bars - walks) * step {
            expected if expected > 0.0 => ((ends + between - at_ends) / expected).clamp(0.0, most),
            _ => 0.0,
        };
        let row = |i: usize| -> Vec<f64> {
            let chance = |j: usize| match visits[i] {
                0.0 => f64::from(u8::from(i == j)),
                _ if i == j => 1.0 - factor * (1.0 - counts[i][i] / visits[i]),
                visits => factor * counts[i][j] / visits,
            };
            summed((0..n).map(chance))
        };
        Chance { first: summed(visits.iter().map(|v| v / bars)), next: (0..n).map(row).collect() }
    }

    /// The position after the first decision, from a uniform draw in [0, 1).
    pub(super) fn first(&self, draw: f64) -> usize {
        pick(&self.first, draw)
    }

    /// The position after `position`, from a uniform draw in [0, 1).
    pub(super) fn next(&self, position: usize, draw: f64) -> usize {
        pick(&self.next[position], draw)
    }
}

fn summed(shares: impl Iterator<Item = f64>) -> Vec<f64> {
    shares
        .scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        })
        .collect()
}

/// The first whose sum is above `draw`; where rounding left the last sum below it, the last that has a share.
fn pick(sums: &[f64], draw: f64) -> usize {
    let last = sums[sums.len() - 1];
    let at = sums.partition_point(|sum| *sum <= draw);
    if at < sums.len() { at } else { sums.partition_point(|sum| *sum < last) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Streams;
    use rand::RngExt;

    const POSITIONS: [f64; 3] = [-1.0, 0.0, 1.0];

    /// Value traded per walk, and the share of bars in each position, of `walks` random walks of `bars` decisions.
    fn measured(chance: &Chance, bars: usize, walks: usize) -> (f64, [f64; 3]) {
        let mut draw = Streams::new(3).draw("test", 0, 0);
        let (mut traded, mut share) = (0.0, [0.0; 3]);
        for _ in 0..walks {
            let mut at = chance.first(draw.random());
            traded += POSITIONS[at].abs();
            share[at] += 1.0;
            for _ in 1..bars {
                let next = chance.next(at, draw.random());
                traded += f64::abs(POSITIONS[next] - POSITIONS[at]);
                share[next] += 1.0;
                at = next;
            }
            traded += POSITIONS[at].abs();
        }
        (traded / walks as f64, share.map(|s| s / (walks * bars) as f64))
    }

    #[test]
    fn the_walk_trades_as_much_and_leans_as_much_as_the_path() {
        let paths: [Vec<usize>; 5] = [
            (0..400).map(|t| if t % 40 < 36 { 2 } else { 0 }).collect(),
            (0..400).map(|t| t / 7 % 3).collect(),
            // at every bar a flip
            (0..400).map(|t| t % 2 * 2).collect(),
            // one change on the way
            (0..400).map(|t| if t < 100 { 2 } else { 1 }).collect(),
            (0..400).map(|t| if t < 200 { t % 2 * 2 } else { 1 }).collect(),
        ];
        for (i, path) in paths.iter().enumerate() {
            let mut share = [0.0; 3];
            path.iter().for_each(|p| share[*p] += 1.0 / 400.0);
            let moves: f64 = path.windows(2).map(|w| f64::abs(POSITIONS[w[0]] - POSITIONS[w[1]])).sum();
            let traded = moves + POSITIONS[path[0]].abs() + POSITIONS[path[399]].abs();
            let (got, shares) = measured(&Chance::like(&POSITIONS, std::slice::from_ref(path)), 400, 4000);
            assert!((got - traded).abs() < 0.03 * traded, "path {i}: {traded}, got {got}");
            for (got, expected) in shares.iter().zip(share) {
                assert!((got - expected).abs() < 0.02, "path {i}: {share:?}, got {shares:?}");
            }
        }
    }

    #[test]
    fn a_path_that_never_changes_is_walked_as_it_is() {
        let chance = Chance::like(&POSITIONS, &[vec![2; 50], vec![2; 3], Vec::new()]);
        for draw in [0.0, 0.5, 1.0 - f64::EPSILON / 2.0] {
            assert_eq!((chance.first(draw), chance.next(2, draw), chance.next(0, draw)), (2, 2, 0));
        }
    }

    #[test]
    fn every_draw_gives_a_position_that_the_path_had() {
        let chance = Chance::like(&POSITIONS, &[vec![0, 1, 1, 0, 1, 0, 0]]);
        for draw in (0..1000).map(|i| f64::from(i) / 1000.0).chain([1.0 - f64::EPSILON / 2.0]) {
            assert!(chance.first(draw) < 2 && chance.next(0, draw) < 2 && chance.next(1, draw) < 2);
        }
    }
}
