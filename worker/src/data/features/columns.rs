//! The formulas of the features, each over whole columns of a stretch of bars. A value without its past means nothing:
//! [`super::Chosen::compute`] leaves those out.

use super::rolling::{deviations, maxima, means, minima, sums};
use crate::data::Bars;
use std::f64::consts::{LN_2, TAU};
use std::ops::Range;

const DAY: i64 = 86_400_000_000_000;
const WEEK: i64 = 7 * DAY;

/// A stretch of bars, and what many features need of it: logarithms of prices, and returns.
pub(super) struct Stretch<'a> {
    interval_ns: i64,
    start_ns: &'a [i64],
    high: &'a [f64],
    low: &'a [f64],
    close: &'a [f64],
    volume: &'a [f64],
    ln_open: Vec<f64>,
    ln_high: Vec<f64>,
    ln_low: Vec<f64>,
    ln_close: Vec<f64>,
    /// ln(c(t) / c(t-1)), 0 for the first.
    returns: Vec<f64>,
}

impl<'a> Stretch<'a> {
    /// The bars of `bars` in `range`.
    pub(super) fn new(bars: &'a Bars, range: Range<usize>) -> Stretch<'a> {
        let ln = |x: &[f64]| x[range.clone()].iter().map(|x| x.ln()).collect::<Vec<f64>>();
        let ln_close = ln(&bars.close);
        Stretch {
            interval_ns: bars.interval_ns,
            start_ns: &bars.start_ns[range.clone()],
            high: &bars.high[range.clone()],
            low: &bars.low[range.clone()],
            close: &bars.close[range.clone()],
            volume: &bars.volume[range.clone()],
            ln_open: ln(&bars.open),
            ln_high: ln(&bars.high),
            ln_low: ln(&bars.low),
            returns: changes(&ln_close, 1),
            ln_close,
        }
    }

    fn zip(&self, f: impl Fn(usize) -> f64) -> Vec<f64> {
        (0..self.close.len()).map(f).collect()
    }

    /// Like [`Stretch::zip`], for what needs the bar before; 0 for the first.
    fn after(&self, f: impl Fn(usize) -> f64) -> Vec<f64> {
        self.zip(|t| if t == 0 { 0.0 } else { f(t) })
    }

    pub(super) fn log_return(&self, lag: usize) -> Vec<f64> {
        changes(&self.ln_close, lag)
    }

    pub(super) fn range(&self) -> Vec<f64> {
        self.zip(|t| self.ln_high[t] - self.ln_low[t])
    }

    pub(super) fn body(&self) -> Vec<f64> {
        self.zip(|t| self.ln_close[t] - self.ln_open[t])
    }

    pub(super) fn upper_shadow(&self) -> Vec<f64> {
        self.zip(|t| self.ln_high[t] - self.ln_open[t].max(self.ln_close[t]))
    }

    pub(super) fn lower_shadow(&self) -> Vec<f64> {
        self.zip(|t| self.ln_open[t].min(self.ln_close[t]) - self.ln_low[t])
    }

    pub(super) fn close_location(&self) -> Vec<f64> {
        self.zip(|t| place(self.close[t], self.low[t], self.high[t]))
    }

    pub(super) fn true_range(&self, window: usize) -> Vec<f64> {
        let (h, l, c) = (&self.ln_high, &self.ln_low, &self.ln_close);
        means(&self.after(|t| h[t].max(c[t - 1]) - l[t].min(c[t - 1])), window)
    }

    pub(super) fn parkinson(&self, window: usize) -> Vec<f64> {
        let squares: Vec<f64> = self.range().iter().map(|x| x * x).collect();
        means(&squares, window).iter().map(|m| (m / (4.0 * LN_2)).sqrt()).collect()
    }

    pub(super) fn garman_klass(&self, window: usize) -> Vec<f64> {
        let (range, body) = (self.range(), self.body());
        let terms = self.zip(|t| 0.5 * range[t] * range[t] - (2.0 * LN_2 - 1.0) * body[t] * body[t]);
        means(&terms, window).iter().map(|m| m.max(0.0).sqrt()).collect()
    }

    pub(super) fn rogers_satchell(&self, window: usize) -> Vec<f64> {
        let (o, h, l, c) = (&self.ln_open, &self.ln_high, &self.ln_low, &self.ln_close);
        let terms = self.zip(|t| (h[t] - c[t]) * (h[t] - o[t]) + (l[t] - c[t]) * (l[t] - o[t]));
        means(&terms, window).iter().map(|m| m.max(0.0).sqrt()).collect()
    }

    pub(super) fn volatility(&self, window: usize) -> Vec<f64> {
        let squares: Vec<f64> = self.returns.iter().map(|r| r * r).collect();
        means(&squares, window).iter().map(|m| m.sqrt()).collect()
    }

    pub(super) fn volatility_ratio(&self, short: usize, long: usize) -> Vec<f64> {
        let (short, long) = (self.volatility(short), self.volatility(long));
        self.zip(|t| share(short[t], long[t]))
    }

    pub(super) fn downside(&self, window: usize) -> Vec<f64> {
        let squares: Vec<f64> = self.returns.iter().map(|r| r.min(0.0).powi(2)).collect();
        means(&squares, window).iter().map(|m| m.sqrt()).collect()
    }

    pub(super) fn skewness(&self, window: usize) -> Vec<f64> {
        let cubes: Vec<f64> = self.returns.iter().map(|r| r * r * r).collect();
        let (cubes, deviation) = (means(&cubes, window), self.volatility(window));
        self.zip(|t| share(cubes[t], deviation[t].powi(3)))
    }

    pub(super) fn volume_change(&self) -> Vec<f64> {
        self.after(|t| ((1.0 + self.volume[t]) / (1.0 + self.volume[t - 1])).ln())
    }

    pub(super) fn volume_surprise(&self, window: usize) -> Vec<f64> {
        let means = means(self.volume, window);
        self.after(|t| ((1.0 + self.volume[t]) / (1.0 + means[t - 1])).ln())
    }

    pub(super) fn volume_trend(&self, short: usize, long: usize) -> Vec<f64> {
        let (short, long) = (means(self.volume, short), means(self.volume, long));
        self.zip(|t| ((1.0 + short[t]) / (1.0 + long[t])).ln())
    }

    pub(super) fn volume_spread(&self, window: usize) -> Vec<f64> {
        let logs = self.zip(|t| self.volume[t].ln_1p());
        deviations(&logs, &means(&logs, window), window)
    }

    pub(super) fn signed_volume(&self, window: usize) -> Vec<f64> {
        let signed = self.zip(|t| if self.returns[t] == 0.0 { 0.0 } else { self.returns[t].signum() * self.volume[t] });
        let (signed, all) = (sums(&signed, window), sums(self.volume, window));
        self.zip(|t| share(signed[t], all[t]))
    }

    pub(super) fn vwap_distance(&self, window: usize) -> Vec<f64> {
        let typical = self.zip(|t| (self.high[t] + self.low[t] + self.close[t]) / 3.0);
        let weighted = self.zip(|t| typical[t] * self.volume[t]);
        let (weighted, all, plain) = (sums(&weighted, window), sums(self.volume, window), means(&typical, window));
        self.zip(|t| {
            let average = if all[t] > 0.0 { weighted[t] / all[t] } else { plain[t] };
            self.ln_close[t] - average.ln()
        })
    }

    pub(super) fn distance(&self, window: usize) -> Vec<f64> {
        let means = means(self.close, window);
        self.zip(|t| (self.close[t] / means[t]).ln())
    }

    pub(super) fn z_score(&self, window: usize) -> Vec<f64> {
        let means = means(&self.ln_close, window);
        let spread = deviations(&self.ln_close, &means, window);
        // rounding of the mean alone leaves about 1e-15
        self.zip(|t| if spread[t] > 1e-12 { (self.ln_close[t] - means[t]) / spread[t] } else { 0.0 })
    }

    pub(super) fn relative_strength(&self, window: usize) -> Vec<f64> {
        let up: Vec<f64> = self.returns.iter().map(|r| r.max(0.0)).collect();
        let down: Vec<f64> = self.returns.iter().map(|r| (-r).max(0.0)).collect();
        let (up, down) = (sums(&up, window), sums(&down, window));
        self.zip(|t| if up[t] + down[t] > 0.0 { up[t] / (up[t] + down[t]) - 0.5 } else { 0.0 })
    }

    pub(super) fn channel(&self, window: usize) -> Vec<f64> {
        let (low, high) = (minima(self.low, window), maxima(self.high, window));
        self.zip(|t| place(self.close[t], low[t], high[t]))
    }

    pub(super) fn below_high(&self, window: usize) -> Vec<f64> {
        let high = maxima(&self.ln_high, window);
        self.zip(|t| self.ln_close[t] - high[t])
    }

    pub(super) fn above_low(&self, window: usize) -> Vec<f64> {
        let low = minima(&self.ln_low, window);
        self.zip(|t| self.ln_close[t] - low[t])
    }

    pub(super) fn trend(&self, short: usize, long: usize) -> Vec<f64> {
        let (short, long) = (means(self.close, short), means(self.close, long));
        self.zip(|t| (short[t] / long[t]).ln())
    }

    pub(super) fn efficiency(&self, window: usize) -> Vec<f64> {
        let way: Vec<f64> = self.returns.iter().map(|r| r.abs()).collect();
        let (way, net) = (sums(&way, window), self.log_return(window));
        self.zip(|t| share(net[t].abs(), way[t]))
    }

    pub(super) fn autocorrelation(&self, window: usize) -> Vec<f64> {
        let squares: Vec<f64> = self.returns.iter().map(|r| r * r).collect();
        let products = self.after(|t| self.returns[t] * self.returns[t - 1]);
        let (products, squares) = (sums(&products, window), sums(&squares, window));
        self.zip(|t| share(products[t], squares[t]))
    }

    pub(super) fn up_share(&self, window: usize) -> Vec<f64> {
        let up: Vec<f64> = self.returns.iter().map(|r| f64::from(u8::from(*r > 0.0))).collect();
        means(&up, window).iter().map(|m| m - 0.5).collect()
    }

    pub(super) fn gap(&self) -> Vec<f64> {
        self.after(|t| self.ln_open[t] - self.ln_close[t - 1])
    }

    pub(super) fn elapsed(&self) -> Vec<f64> {
        let interval = self.interval_ns.max(1) as f64;
        self.after(|t| (self.start_ns[t].saturating_sub(self.start_ns[t - 1]) as f64 / interval).ln())
    }

    /// `wave` of the share of `period` that has passed at the end of each bar; a week begins on Monday.
    fn cycle(&self, period: i64, wave: fn(f64) -> f64) -> Vec<f64> {
        // day 0 was a Thursday
        let origin = if period == WEEK { 3 * DAY } else { 0 };
        let end = |t: usize| self.start_ns[t].saturating_add(self.interval_ns).saturating_add(origin);
        self.zip(|t| wave(TAU * (end(t).rem_euclid(period) as f64 / period as f64)))
    }

    pub(super) fn day(&self, wave: fn(f64) -> f64) -> Vec<f64> {
        self.cycle(DAY, wave)
    }

    pub(super) fn week(&self, wave: fn(f64) -> f64) -> Vec<f64> {
        self.cycle(WEEK, wave)
    }
}

/// x(t) - x(t - lag), 0 where there is no such value.
fn changes(x: &[f64], lag: usize) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    for ((y, now), before) in out.iter_mut().zip(x).skip(lag).zip(x) {
        *y = now - before;
    }
    out
}

/// Where `x` lies from `low` to `high`, from -0.5 to 0.5; 0 where both are the same.
fn place(x: f64, low: f64, high: f64) -> f64 {
    if high > low { (x - low) / (high - low) - 0.5 } else { 0.0 }
}

/// `part` of `whole`, which is not negative; 0 where `whole` is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
