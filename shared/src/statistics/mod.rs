//! What a curve of equity says: return, risk, how sure both are. Pure numbers, for workers and reports alike.

mod bootstrap;
mod normal;

pub use bootstrap::{Intervals, intervals};
pub use normal::{cumulative, quantile};

use crate::zone::Zone;
use serde::{Deserialize, Serialize};

/// Nanoseconds in a day.
const DAY_NS: i64 = 86_400_000_000_000;
/// Nanoseconds in a year of 365.25 days.
const YEAR_NS: f64 = 365.25 * 86_400e9;
/// The shortest part of a year from which a year's return is told.
const SHORTEST: f64 = 0.1;
/// The constant of Euler and Mascheroni.
const EULER: f64 = 0.577_215_664_901_532_9;

/// Figures of one curve of equity. Shares, not percent; a figure that has no meaning is 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Final equity over initial equity, minus 1.
    pub total_return: f64,
    /// The same for a year, compounded; none for less than a tenth of a year, which says nothing of one.
    pub cagr: Option<f64>,
    /// Standard deviation (ddof 1) of returns per bar, times the root of the bars in a year.
    pub volatility: f64,
    /// Mean over standard deviation of returns per bar, times the same root (Sharpe 1994, without a riskless rate).
    pub sharpe: f64,
    /// The same of returns per day (of the data's zone), times the root of the days with bars in a year.
    pub sharpe_daily: f64,
    /// Mean return per bar over the root of the mean squared loss, times the root of the bars in a year.
    pub sortino: f64,
    /// The largest fall from a peak, as a share of it.
    pub max_drawdown: f64,
    /// The longest time below an earlier peak, in bars.
    pub drawdown_bars: usize,
    /// The same in days.
    pub drawdown_days: f64,
    /// `cagr` over `max_drawdown`; none without either.
    pub calmar: Option<f64>,
    /// Days with bars: the observations of the figures below.
    pub days: usize,
    /// The probability that the true Sharpe ratio is above 0, from daily returns (Bailey, Lopez de Prado 2012).
    pub probabilistic_sharpe: f64,
    /// 5 % and 95 % quantile of `sharpe_daily` under resampling of blocks of days.
    pub sharpe_interval: [f64; 2],
    /// 5 % and 95 % quantile of `total_return` under the same.
    pub return_interval: [f64; 2],
}

/// The figures of `equity`, which starts with 1 before the first bar and goes on at the end of the bars that start at
/// `times_ns`; a year has `periods_per_year` bars, and days are those of `zone`.
pub fn figures(times_ns: &[i64], equity: &[f64], periods_per_year: f64, zone: &Zone) -> Figures {
    let (Some(first), Some(last)) = (times_ns.first(), times_ns.last()) else { return Figures::default() };
    if equity.len() != times_ns.len() + 1 {
        return Figures::default();
    }
    let returns = returns(equity);
    let total_return = equity[equity.len() - 1] / equity[0] - 1.0;
    // the last bar takes its time too
    let years = times_ns.len() as f64 / periods_per_year.max(1e-9);
    let cagr = if total_return > -1.0 { (total_return.ln_1p() / years).exp_m1() } else { -1.0 };
    let cagr = (years >= SHORTEST).then_some(cagr);
    let daily = daily_returns(times_ns, equity, zone);
    let span = last.saturating_sub(*first) as f64 / YEAR_NS;
    let days_per_year = if daily.len() > 1 && span > 0.0 { (daily.len() - 1) as f64 / span } else { 1.0 };
    let (max_drawdown, drawdown_bars, drawdown_days) = drawdown(times_ns, equity);
    let root = periods_per_year.max(0.0).sqrt();
    let losses = (returns.iter().map(|r| r.min(0.0).powi(2)).sum::<f64>() / returns.len() as f64).sqrt();
    let Intervals { sharpe, total } = intervals(&daily, days_per_year);
    Figures {
        total_return,
        cagr,
        volatility: Moments::of(&returns).deviation * root,
        sharpe: Moments::of(&returns).sharpe() * root,
        sharpe_daily: Moments::of(&daily).sharpe() * days_per_year.sqrt(),
        sortino: if losses > 0.0 { mean(&returns) / losses * root } else { 0.0 },
        max_drawdown,
        drawdown_bars,
        drawdown_days,
        calmar: cagr.filter(|_| max_drawdown > 0.0).map(|cagr| cagr / max_drawdown),
        days: daily.len(),
        probabilistic_sharpe: probabilistic_sharpe(&Moments::of(&daily), 0.0),
        sharpe_interval: sharpe,
        return_interval: total,
    }
}

/// Returns per bar of an equity.
pub fn returns(equity: &[f64]) -> Vec<f64> {
    equity.windows(2).map(|pair| if pair[0] > 0.0 { pair[1] / pair[0] - 1.0 } else { 0.0 }).collect()
}

/// Returns per day of `zone` of an equity that goes on at the bars that start at `times_ns`.
pub fn daily_returns(times_ns: &[i64], equity: &[f64], zone: &Zone) -> Vec<f64> {
    let mut ends = vec![equity.first().copied().unwrap_or(1.0)];
    let mut day = None;
    for (ns, value) in times_ns.iter().zip(equity.iter().skip(1)) {
        let today = Some(zone.day(*ns));
        if day == today {
            ends.pop();
        }
        ends.push(*value);
        day = today;
    }
    returns(&ends)
}

/// Depth, and length in bars and in days, of the worst falls from a peak: the deepest and the longest may be two.
fn drawdown(times_ns: &[i64], equity: &[f64]) -> (f64, usize, f64) {
    let (mut peak, mut at) = (equity[0], 0);
    let (mut depth, mut bars, mut ns) = (0.0f64, 0, 0);
    let time = |t: usize| times_ns[t.saturating_sub(1)];
    for (t, value) in equity.iter().enumerate() {
        if *value >= peak {
            (peak, at) = (*value, t);
        } else {
            depth = depth.max(1.0 - value / peak);
            bars = bars.max(t - at);
            ns = ns.max(time(t).saturating_sub(time(at)));
        }
    }
    (depth, bars, ns as f64 / DAY_NS as f64)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Moments of returns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (ddof 1).
    pub deviation: f64,
    /// Their skewness.
    pub skewness: f64,
    /// Their kurtosis, 3 for a normal distribution.
    pub kurtosis: f64,
}

impl Moments {
    /// The moments of `values`; deviation and what follows are 0 where they do not vary.
    pub fn of(values: &[f64]) -> Moments {
        let count = values.len();
        let mean = mean(values);
        if count < 2 || values.iter().all(|x| *x == values[0]) {
            return Moments { count, mean, ..Moments::default() };
        }
        let central = |k: i32| values.iter().map(|x| (x - mean).powi(k)).sum::<f64>() / count as f64;
        let variance = central(2);
        Moments {
            count,
            mean,
            deviation: (variance * count as f64 / (count - 1) as f64).sqrt(),
            skewness: central(3) / variance.powf(1.5),
            kurtosis: central(4) / variance.powi(2),
        }
    }

    /// The Sharpe ratio per period; 0 where nothing varies.
    pub fn sharpe(&self) -> f64 {
        if self.deviation > 0.0 { self.mean / self.deviation } else { 0.0 }
    }
}

/// The probability that the true Sharpe ratio per period is above `benchmark`
/// (Bailey, Lopez de Prado 2012, "The Sharpe ratio efficient frontier"; kurtosis as 3 for the normal distribution).
pub fn probabilistic_sharpe(returns: &Moments, benchmark: f64) -> f64 {
    let ratio = returns.sharpe();
    let spread = 1.0 - returns.skewness * ratio + (returns.kurtosis - 1.0) / 4.0 * ratio * ratio;
    if returns.count < 2 || returns.deviation <= 0.0 || spread <= 0.0 {
        return 0.5;
    }
    cumulative((ratio - benchmark) * ((returns.count - 1) as f64).sqrt() / spread.sqrt())
}

/// The largest Sharpe ratio per period that the best of `trials` independent ones without skill is expected to have,
/// where theirs vary with standard deviation `deviation`
/// (Bailey, Lopez de Prado 2014, "The deflated Sharpe ratio", equation 1); 0 for one trial.
pub fn expected_best_sharpe(trials: usize, deviation: f64) -> f64 {
    if trials < 2 {
        return 0.0;
    }
    let n = trials as f64;
    deviation * ((1.0 - EULER) * quantile(1.0 - 1.0 / n) + EULER * quantile(1.0 - 1.0 / (n * std::f64::consts::E)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    #[test]
    fn figures_by_hand() {
        let times: Vec<i64> = (0..4).map(|t| t * DAY_NS).collect();
        let f = figures(&times, &[1.0, 1.1, 0.99, 0.99, 1.21], 4.0, &Zone::default());
        assert!((f.total_return - 0.21).abs() < 1e-12 && (f.cagr.unwrap() - 0.21).abs() < 1e-12, "{f:?}");
        assert!((f.max_drawdown - 0.1).abs() < 1e-12);
        assert_eq!((f.drawdown_bars, f.drawdown_days, f.days), (2, 2.0, 4));
        assert!((f.calmar.unwrap() - 2.1).abs() < 1e-9);
        let r: [f64; 4] = [0.1, -0.1, 0.0, 1.21 / 0.99 - 1.0];
        let m = r.iter().sum::<f64>() / 4.0;
        let s = (r.iter().map(|x| (x - m).powi(2)).sum::<f64>() / 3.0).sqrt();
        assert!((f.volatility - s * 2.0).abs() < 1e-12 && (f.sharpe - m / s * 2.0).abs() < 1e-12);
        assert!((f.sortino - m / (0.01f64 / 4.0).sqrt() * 2.0).abs() < 1e-9);
        assert!((f.sharpe_daily - m / s * 365.25f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn days_are_those_of_the_zone_and_a_bar_of_none_is_none() {
        let times = [22 * HOUR, 23 * HOUR, 24 * HOUR, 25 * HOUR];
        let daily = daily_returns(&times, &[1.0, 1.1, 1.2, 1.5, 1.8], &Zone::default());
        assert!((daily[0] - 0.2).abs() < 1e-12 && (daily[1] - 0.5).abs() < 1e-12 && daily.len() == 2, "{daily:?}");
        // two hours to the west all four are of one day
        let west = daily_returns(&times, &[1.0, 1.1, 1.2, 1.5, 1.8], &Zone::ahead(-2 * 3600));
        assert!((west[0] - 0.8).abs() < 1e-12 && west.len() == 1, "{west:?}");
        assert_eq!(figures(&[], &[1.0], 252.0, &Zone::default()), Figures::default());
        let flat = figures(&times, &[1.0; 5], 252.0, &Zone::default());
        assert_eq!((flat.sharpe, flat.sortino, flat.calmar, flat.probabilistic_sharpe), (0.0, 0.0, None, 0.5));
        // four bars of 252 say nothing of a year
        assert_eq!(flat.cagr, None);
        let ruined = figures(&times, &[1.0, 0.5, 0.0, 0.0, 0.0], 4.0, &Zone::default());
        assert_eq!((ruined.total_return, ruined.cagr, ruined.max_drawdown), (-1.0, Some(-1.0), 1.0));
    }

    #[test]
    fn more_trials_ask_for_more() {
        assert_eq!(expected_best_sharpe(1, 0.1), 0.0);
        let best: Vec<f64> = [2, 10, 100, 1000].iter().map(|n| expected_best_sharpe(*n, 0.1)).collect();
        assert!(best.is_sorted() && best[0] > 0.0, "{best:?}");
    }
}
