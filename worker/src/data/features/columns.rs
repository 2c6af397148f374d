//! The formulas of the features, each over whole columns. A value without its past is 0.

use crate::data::Bars;

/// ln(c(t) / c(t-lag)).
pub(super) fn log_return(bars: &Bars, lag: usize) -> Vec<f64> {
    lagged(bars.len(), lag, |t| (bars.close[t] / bars.close[t - lag]).ln())
}

/// ln(h / l).
pub(super) fn range(bars: &Bars) -> Vec<f64> {
    bars.high.iter().zip(&bars.low).map(|(h, l)| (h / l).ln()).collect()
}

/// ln(c / o).
pub(super) fn body(bars: &Bars) -> Vec<f64> {
    bars.close.iter().zip(&bars.open).map(|(c, o)| (c / o).ln()).collect()
}

/// ln(h / max(o, c)).
pub(super) fn upper_shadow(bars: &Bars) -> Vec<f64> {
    lagged(bars.len(), 0, |t| (bars.high[t] / bars.open[t].max(bars.close[t])).ln())
}

/// ln(min(o, c) / l).
pub(super) fn lower_shadow(bars: &Bars) -> Vec<f64> {
    lagged(bars.len(), 0, |t| (bars.open[t].min(bars.close[t]) / bars.low[t]).ln())
}

/// The root of the mean squared return over `window` bars: the mean is taken as 0, as is usual for short windows.
pub(super) fn volatility(bars: &Bars, window: usize) -> Vec<f64> {
    let squares: Vec<f64> = log_return(bars, 1).iter().map(|r| r * r).collect();
    lagged(bars.len(), window, |t| mean(&squares[t + 1 - window..=t]).sqrt())
}

/// ln((1 + v(t)) / (1 + mean of v over the `window` bars before t)): the 1 keeps markets without volume at 0.
pub(super) fn volume_surprise(bars: &Bars, window: usize) -> Vec<f64> {
    lagged(bars.len(), window, |t| ((1.0 + bars.volume[t]) / (1.0 + mean(&bars.volume[t - window..t]))).ln())
}

/// ln(c(t) / mean of c over `window` bars).
pub(super) fn distance(bars: &Bars, window: usize) -> Vec<f64> {
    lagged(bars.len(), window - 1, |t| (bars.close[t] / mean(&bars.close[t + 1 - window..=t])).ln())
}

/// ln(o(t) / c(t-1)).
pub(super) fn gap(bars: &Bars) -> Vec<f64> {
    lagged(bars.len(), 1, |t| (bars.open[t] / bars.close[t - 1]).ln())
}

/// ln((s(t) - s(t-1)) / interval): 0 where bars follow each other without a hole.
pub(super) fn elapsed(bars: &Bars) -> Vec<f64> {
    let interval = bars.interval_ns.max(1) as f64;
    lagged(bars.len(), 1, |t| (bars.start_ns[t].saturating_sub(bars.start_ns[t - 1]) as f64 / interval).ln())
}

fn lagged(len: usize, warm_up: usize, value: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..len).map(|t| if t < warm_up { 0.0 } else { value(t) }).collect()
}

fn mean(window: &[f64]) -> f64 {
    window.iter().sum::<f64>() / window.len() as f64
}
