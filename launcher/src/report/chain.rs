//! One fold's test part, or all of them one after another, in one form: policy, holding and chance.
//!
//! Test parts of a walk-forward never overlap, so their returns chain: equity at the end of one fold is the
//! stake of the next. What the folds' files do not hold, the distribution of chance over all folds together, is
//! estimated and marked as such.

use foxlaunch_shared::evaluation::{FoldResult, RandomBand, Span, Track};
use foxlaunch_shared::statistics::{Figures, figures};
use foxlaunch_shared::zone::Zone;

/// Policy, buy-and-hold and chance over the same bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The bars.
    pub test: Span,
    /// Start of each bar in nanoseconds since 1970 (UTC), matching `equity[1..]`.
    pub times_ns: Vec<i64>,
    /// The policy.
    pub policy: Track,
    /// Long from the first bar to the last.
    pub buy_and_hold: Track,
    /// Random policies with the policy's turnover and shares of long and short.
    pub random: RandomBand,
    /// Whether `random`'s quantiles, and `break_even`, are estimates ([`Comparison::chain`] of more than one fold).
    pub estimated: bool,
    /// Bars in a year.
    pub periods_per_year: f64,
    /// The zone of the days that daily figures are of.
    pub zone: Zone,
    /// The policy's total return at 0, 1 and 2 times the costs, as far as its folds say.
    pub costs: Vec<(f64, f64)>,
    /// The cost rate at which the policy would have earned nothing.
    pub break_even: Option<f64>,
    /// The policy's figures.
    pub figures: Figures,
    /// Those of holding.
    pub hold_figures: Figures,
}

impl Comparison {
    /// One fold's own.
    pub fn of(fold: &FoldResult) -> Comparison {
        let zone = Zone::parse(&fold.zone).unwrap_or_default();
        Comparison {
            test: fold.test.clone(),
            times_ns: fold.times_ns.clone(),
            policy: fold.policy.clone(),
            buy_and_hold: fold.buy_and_hold.clone(),
            random: fold.random.clone(),
            estimated: false,
            periods_per_year: fold.periods_per_year,
            costs: fold.costs.iter().map(|level| (level.factor, level.total_return)).collect(),
            break_even: fold.break_even,
            figures: figures(&fold.times_ns, &fold.policy.equity, fold.periods_per_year, &zone),
            hold_figures: figures(&fold.times_ns, &fold.buy_and_hold.equity, fold.periods_per_year, &zone),
            zone,
        }
    }

    /// All folds one after another, in the order of their test parts; none where there is no fold.
    pub fn chain(folds: &[FoldResult]) -> Option<Comparison> {
        let mut folds: Vec<&FoldResult> = folds.iter().collect();
        folds.sort_by_key(|fold| fold.test.first_ns);
        let (first, last) = (folds.first()?, folds.last()?);
        if folds.len() == 1 {
            return Some(Comparison::of(first));
        }
        let test = Span {
            first_ns: first.test.first_ns,
            last_ns: last.test.last_ns,
            bars: folds.iter().map(|fold| fold.test.bars).sum(),
        };
        let join = |pick: fn(&FoldResult) -> &Track| chain_tracks(&folds, pick);
        let times_ns: Vec<i64> = folds.iter().flat_map(|fold| fold.times_ns.iter().copied()).collect();
        let (policy, buy_and_hold) = (join(|fold| &fold.policy), join(|fold| &fold.buy_and_hold));
        let all = folds.iter().map(|fold| bars(fold)).sum::<f64>().max(1.0);
        let periods_per_year = folds.iter().map(|fold| bars(fold) * fold.periods_per_year).sum::<f64>() / all;
        let zone = Zone::parse(&first.zone).unwrap_or_default();
        Some(Comparison {
            test,
            figures: figures(&times_ns, &policy.equity, periods_per_year, &zone),
            hold_figures: figures(&times_ns, &buy_and_hold.equity, periods_per_year, &zone),
            zone,
            times_ns,
            policy,
            buy_and_hold,
            periods_per_year,
            random: RandomBand {
                runs: folds.iter().map(|fold| fold.random.runs).min().unwrap_or(0),
                total_return: chained_returns(&folds),
                sharpe: mean_sharpe(&folds),
                median: join(|fold| &fold.random.median),
            },
            estimated: true,
            break_even: break_even(&chained_costs(&folds), first.cost_rate),
            costs: chained_costs(&folds),
        })
    }
}

/// Returns at each level of costs, compounded over the folds; none where a fold lacks them.
fn chained_costs(folds: &[&FoldResult]) -> Vec<(f64, f64)> {
    let levels = folds.first().map_or(&[][..], |fold| &fold.costs);
    if folds.iter().any(|fold| fold.costs.len() != levels.len()) {
        return Vec::new();
    }
    let grown = |k: usize| folds.iter().map(|fold| 1.0 + fold.costs[k].total_return).product::<f64>() - 1.0;
    levels.iter().enumerate().map(|(k, level)| (level.factor, grown(k))).collect()
}

/// Where the line through the logarithms of equity without costs and with costs of `cost_rate` meets 0: nearly a line is
/// what they are.
fn break_even(costs: &[(f64, f64)], cost_rate: f64) -> Option<f64> {
    let at = |factor: f64| costs.iter().find(|(f, _)| *f == factor).map(|(_, total)| total.ln_1p());
    let (gross, net) = (at(0.0)?, at(1.0)?);
    (gross > 0.0 && net < gross).then(|| cost_rate * gross / (gross - net))
}

/// Equity compounded over the folds, and its figures. Averages are weighted by bars.
fn chain_tracks(folds: &[&FoldResult], pick: fn(&FoldResult) -> &Track) -> Track {
    let mut equity = vec![1.0];
    let (mut turnover, mut time_in_market, mut trades) = (0.0, 0.0, 0);
    let (mut gained, mut exposure) = (0.0, 0.0);
    let mut moments = Moments::default();
    let mut annual = 0.0;
    for fold in folds {
        let track = pick(fold);
        let stake = equity.last().copied().unwrap_or(1.0);
        equity.extend(track.equity.iter().skip(1).map(|value| stake * value));
        for pair in track.equity.windows(2).filter(|pair| pair[0] > 0.0) {
            moments.add(pair[1] / pair[0] - 1.0);
        }
        let bars = bars(fold);
        turnover += bars * track.turnover;
        time_in_market += bars * track.time_in_market;
        gained += bars * track.time_in_market * track.hit_rate;
        exposure += bars * track.exposure;
        annual += bars * fold.periods_per_year;
        trades += track.trades;
    }
    let all: f64 = folds.iter().map(|fold| bars(fold)).sum::<f64>().max(1.0);
    Track {
        total_return: equity.last().copied().unwrap_or(1.0) - 1.0,
        sharpe: moments.sharpe(annual / all),
        max_drawdown: max_drawdown(&equity),
        turnover: turnover / all,
        time_in_market: time_in_market / all,
        hit_rate: if time_in_market > 0.0 { gained / time_in_market } else { 0.0 },
        exposure: exposure / all,
        trades,
        equity,
    }
}

/// Points in time of a fold's test part.
fn bars(fold: &FoldResult) -> f64 {
    fold.times_ns.len() as f64
}

/// The largest fall from a peak, as a share of the peak.
pub fn max_drawdown(equity: &[f64]) -> f64 {
    drawdowns(equity).fold(0.0, f64::max)
}

/// How far each point lies below the highest before it, as a share of that peak.
pub fn drawdowns(equity: &[f64]) -> impl Iterator<Item = f64> {
    let mut peak = f64::MIN_POSITIVE;
    equity.iter().map(move |value| {
        peak = peak.max(*value);
        1.0 - value / peak
    })
}

/// Quantiles of the chained return of chance: log returns add; medians add, and distances of the outer
/// quantiles from the median add as independent errors do, by their squares.
fn chained_returns(folds: &[&FoldResult]) -> [f64; 3] {
    let log = |share: f64| share.max(-1.0 + 1e-12).ln_1p();
    let (mut middle, mut below, mut above) = (0.0, 0.0, 0.0);
    for fold in folds {
        let [low, median, high] = fold.random.total_return.map(log);
        middle += median;
        below += (median - low).powi(2);
        above += (high - median).powi(2);
    }
    [middle - below.sqrt(), middle, middle + above.sqrt()].map(f64::exp_m1)
}

/// Quantiles of the Sharpe ratio of chance over all folds, as of an average weighted by bars.
fn mean_sharpe(folds: &[&FoldResult]) -> [f64; 3] {
    let all: f64 = folds.iter().map(|fold| bars(fold)).sum::<f64>().max(1.0);
    let (mut middle, mut below, mut above) = (0.0, 0.0, 0.0);
    for fold in folds {
        let weight = bars(fold) / all;
        let [low, median, high] = fold.random.sharpe;
        middle += weight * median;
        below += (weight * (median - low)).powi(2);
        above += (weight * (high - median)).powi(2);
    }
    [middle - below.sqrt(), middle, middle + above.sqrt()]
}

/// Running mean and squared deviations (Welford 1962).
#[derive(Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    /// As [`Track::sharpe`].
    fn sharpe(&self, periods_per_year: f64) -> f64 {
        let deviation = (self.squares / (self.count - 1.0)).sqrt();
        if self.count > 1.0 && deviation > 1e-15 { self.mean / deviation * periods_per_year.sqrt() } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn equity_compounds_and_the_deepest_fall_may_span_two_folds() {
        let mut folds = vec![sample::fold(0, &[1.0, 1.2, 1.1]), sample::fold(1, &[1.0, 0.8, 0.9])];
        folds.reverse();
        let all = Comparison::chain(&folds).expect("two folds");
        for (got, want) in all.policy.equity.iter().zip([1.0, 1.2, 1.1, 0.88, 0.99]) {
            assert!((got - want).abs() < 1e-12, "{:?}", all.policy.equity);
        }
        assert!((all.policy.total_return + 0.01).abs() < 1e-12);
        assert!((all.policy.max_drawdown - (1.0 - 0.88 / 1.2)).abs() < 1e-12);
        assert_eq!(all.times_ns.len() + 1, all.policy.equity.len());
        assert!(all.times_ns.is_sorted());
    }

    #[test]
    fn sharpe_is_that_of_all_returns_together() {
        let folds = [sample::fold(0, &[1.0, 1.1, 1.1]), sample::fold(1, &[1.0, 1.0, 0.9])];
        // returns 0.1, 0, 0, -0.1: mean 0; then with one more gain.
        assert!(Comparison::chain(&folds).expect("folds").policy.sharpe.abs() < 1e-12);
        let folds = [sample::fold(0, &[1.0, 1.1, 1.1]), sample::fold(1, &[1.0, 1.0, 1.1])];
        let mean = 0.05;
        let deviation = (4.0 * 0.05f64.powi(2) / 3.0).sqrt();
        let want = mean / deviation * 252f64.sqrt();
        assert!((Comparison::chain(&folds).expect("folds").policy.sharpe - want).abs() < 1e-9);
    }

    #[test]
    fn one_fold_keeps_its_exact_band_and_more_give_a_narrower_one_than_their_product() {
        let one = sample::fold(0, &[1.0, 1.1]);
        let alone = Comparison::chain(std::slice::from_ref(&one)).expect("a fold");
        assert!(!alone.estimated);
        assert_eq!(alone.random, one.random);

        let two = [one.clone(), sample::fold(1, &[1.0, 1.1])];
        let both = Comparison::chain(&two).expect("folds");
        let [low, median, high] = both.random.total_return;
        let [l, m, h] = one.random.total_return;
        assert!(both.estimated && low < median && median < high);
        assert!((median - ((1.0 + m).powi(2) - 1.0)).abs() < 1e-12);
        assert!(low > (1.0 + l).powi(2) - 1.0 && high < (1.0 + h).powi(2) - 1.0);
    }

    #[test]
    fn nothing_chains_to_nothing() {
        assert_eq!(Comparison::chain(&[]), None);
    }
}
