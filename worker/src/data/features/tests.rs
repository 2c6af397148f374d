use super::*;
use crate::data::Dataset;
use proptest::prelude::*;
use std::f64::consts::{LN_2, TAU};

/// A walk of prices and volumes, with holes in time, from a list of numbers.
fn bars(steps: &[(f64, f64, u8)]) -> Bars {
    let mut bars = Bars { symbol: "X".to_owned(), interval_ns: 60_000_000_000, ..Bars::default() };
    let (mut close, mut start) = (100.0f64, 1_700_000_000_000_000_000i64);
    for &(step, volume, hole) in steps {
        let open = close * (1.0 + 0.3 * step);
        close = open * (1.0 + step);
        start += bars.interval_ns * (1 + i64::from(hole % 3));
        bars.start_ns.push(start);
        bars.open.push(open);
        bars.high.push(open.max(close) * (1.0 + 0.01 * f64::from(hole % 5)));
        bars.low.push(open.min(close) * (1.0 - 0.01 * f64::from(hole % 7)));
        bars.close.push(close);
        bars.volume.push(volume);
    }
    bars
}

fn steps(len: usize) -> impl Strategy<Value = Vec<(f64, f64, u8)>> {
    prop::collection::vec((-0.1..0.1f64, 0.0..1e6f64, any::<u8>()), len)
}

/// The feature `name` at bar `t`, straight from its definition: loops over the bars of its window, nothing shared.
fn by_definition(b: &Bars, name: &str, t: usize) -> f64 {
    let (o, h, l, c, v) = (&b.open, &b.high, &b.low, &b.close, &b.volume);
    let r = |t: usize| (c[t] / c[t - 1]).ln();
    let window = |n: usize| t + 1 - n..=t;
    let mean = |n: usize, f: &dyn Fn(usize) -> f64| window(n).map(f).sum::<f64>() / n as f64;
    let sum = |n: usize, f: &dyn Fn(usize) -> f64| window(n).map(f).sum::<f64>();
    let highest = |n: usize| window(n).map(|i| h[i]).fold(f64::MIN, f64::max);
    let lowest = |n: usize| window(n).map(|i| l[i]).fold(f64::MAX, f64::min);
    let over = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    let volatility = |n: usize| mean(n, &|i| r(i).powi(2)).sqrt();
    let spread = |n: usize, f: &dyn Fn(usize) -> f64| {
        let m = mean(n, f);
        mean(n, &|i| (f(i) - m).powi(2)).sqrt()
    };
    let channel =
        |n: usize| over(c[t] - lowest(n), highest(n) - lowest(n)) - if highest(n) > lowest(n) { 0.5 } else { 0.0 };
    let part_of = |period: i64, origin: i64| {
        ((b.start_ns[t] + b.interval_ns + origin).rem_euclid(period)) as f64 / period as f64 * TAU
    };
    let day = 86_400_000_000_000;
    let number = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse::<usize>().ok());
    if let Some(n) = number("return_") {
        return (c[t] / c[t - n]).ln();
    }
    if let Some(n) = number("volatility_") {
        return volatility(n);
    }
    if let Some(n) = number("distance_") {
        return (c[t] / mean(n, &|i| c[i])).ln();
    }
    if let Some(n) = number("channel_") {
        return channel(n);
    }
    match name {
        "range" => (h[t] / l[t]).ln(),
        "body" => (c[t] / o[t]).ln(),
        "upper_shadow" => (h[t] / o[t].max(c[t])).ln(),
        "lower_shadow" => (o[t].min(c[t]) / l[t]).ln(),
        "close_location" => {
            if h[t] > l[t] {
                (c[t] - l[t]) / (h[t] - l[t]) - 0.5
            } else {
                0.0
            }
        }
        "true_range_14" => mean(14, &|i| (h[i].max(c[i - 1]) / l[i].min(c[i - 1])).ln()),
        "parkinson_20" => (mean(20, &|i| (h[i] / l[i]).ln().powi(2)) / (4.0 * LN_2)).sqrt(),
        "garman_klass_20" => {
            let term = |i: usize| 0.5 * (h[i] / l[i]).ln().powi(2) - (2.0 * LN_2 - 1.0) * (c[i] / o[i]).ln().powi(2);
            mean(20, &term).max(0.0).sqrt()
        }
        "rogers_satchell_20" => {
            let term = |i: usize| (h[i] / c[i]).ln() * (h[i] / o[i]).ln() + (l[i] / c[i]).ln() * (l[i] / o[i]).ln();
            mean(20, &term).max(0.0).sqrt()
        }
        "volatility_ratio" => over(volatility(5), volatility(60)),
        "downside_20" => mean(20, &|i| r(i).min(0.0).powi(2)).sqrt(),
        "skewness_20" => over(mean(20, &|i| r(i).powi(3)), volatility(20).powi(3)),
        "volume_change" => ((1.0 + v[t]) / (1.0 + v[t - 1])).ln(),
        "volume_surprise" => ((1.0 + v[t]) / (1.0 + v[t - 20..t].iter().sum::<f64>() / 20.0)).ln(),
        "volume_trend" => ((1.0 + mean(5, &|i| v[i])) / (1.0 + mean(20, &|i| v[i]))).ln(),
        "volume_spread_20" => spread(20, &|i| v[i].ln_1p()),
        "signed_volume_20" => {
            let sign = |i: usize| match r(i) {
                x if x > 0.0 => 1.0,
                x if x < 0.0 => -1.0,
                _ => 0.0,
            };
            over(sum(20, &|i| sign(i) * v[i]), sum(20, &|i| v[i]))
        }
        "vwap_distance_20" => {
            let p = |i: usize| (h[i] + l[i] + c[i]) / 3.0;
            let all = sum(20, &|i| v[i]);
            (c[t] / if all > 0.0 { sum(20, &|i| p(i) * v[i]) / all } else { mean(20, &p) }).ln()
        }
        "z_score_20" => {
            let s = spread(20, &|i| c[i].ln());
            if s > 1e-12 { (c[t].ln() - mean(20, &|i| c[i].ln())) / s } else { 0.0 }
        }
        "relative_strength_14" => {
            let way = sum(14, &|i| r(i).abs());
            if way > 0.0 { sum(14, &|i| r(i).max(0.0)) / way - 0.5 } else { 0.0 }
        }
        "below_high_60" => (c[t] / highest(60)).ln(),
        "above_low_60" => (c[t] / lowest(60)).ln(),
        "trend_5_20" => (mean(5, &|i| c[i]) / mean(20, &|i| c[i])).ln(),
        "trend_20_60" => (mean(20, &|i| c[i]) / mean(60, &|i| c[i])).ln(),
        "efficiency_20" => over((c[t] / c[t - 20]).ln().abs(), sum(20, &|i| r(i).abs())),
        "autocorrelation_20" => over(sum(20, &|i| r(i) * r(i - 1)), sum(20, &|i| r(i).powi(2))),
        "up_share_20" => window(20).filter(|i| c[*i] > c[*i - 1]).count() as f64 / 20.0 - 0.5,
        "gap" => (o[t] / c[t - 1]).ln(),
        "elapsed" => ((b.start_ns[t] - b.start_ns[t - 1]) as f64 / b.interval_ns as f64).ln(),
        "day_sin" => part_of(day, 0).sin(),
        "day_cos" => part_of(day, 0).cos(),
        // the first of January 1970 was a Thursday
        "week_sin" => part_of(7 * day, 3 * day).sin(),
        "week_cos" => part_of(7 * day, 3 * day).cos(),
        _ => panic!("{name} has no definition here"),
    }
}

fn check(bars: &Bars) {
    let rows = compute(bars);
    for t in WARM_UP..bars.len() {
        for (j, feature) in TABLE.iter().enumerate() {
            let (got, expected) = (f64::from(rows[t * TABLE.len() + j]), by_definition(bars, feature.name, t));
            let close = (got - expected).abs() <= 1e-6 + 1e-6 * expected.abs();
            assert!(close, "{} at {t}: {got} instead of {expected}", feature.name);
        }
    }
}

#[test]
fn every_feature_equals_its_definition() {
    let made: Vec<_> =
        (0..300).map(|i| (f64::from(i * 37 % 19) * 0.01 - 0.09, f64::from(i * 7 % 31), (i * 11) as u8)).collect();
    check(&bars(&made));
    // a market that stands still, without volume: nothing is divided by 0
    check(&bars(&[(0.0, 0.0, 0); 80]));
}

#[test]
fn blocks_leave_no_seam() {
    let made: Vec<_> = (0..2 * BLOCK + 300)
        .map(|i| ((i * 37 % 19) as f64 * 0.01 - 0.09, (i * 7 % 31) as f64, (i * 11) as u8))
        .collect();
    let bars = bars(&made);
    let rows = compute(&bars);
    for t in [WARM_UP + BLOCK - 1, WARM_UP + BLOCK, WARM_UP + BLOCK + 1, WARM_UP + 2 * BLOCK + 100] {
        for (j, feature) in TABLE.iter().enumerate() {
            let (got, expected) = (f64::from(rows[t * TABLE.len() + j]), by_definition(&bars, feature.name, t));
            assert!((got - expected).abs() <= 1e-6 + 1e-6 * expected.abs(), "{} at {t}", feature.name);
        }
    }
}

#[test]
fn the_table_is_the_set_of_its_name() {
    assert_eq!(TABLE.len(), 51);
    let names: std::collections::BTreeSet<_> = TABLE.iter().map(|f| f.name).collect();
    assert_eq!(names.len(), 51);
    assert_eq!(TABLE.iter().map(|f| f.warm_up).max(), Some(WARM_UP));
    // a new digest here asks for a new name
    assert_eq!((NAME, &digest()[..16]), ("fox51-v1", DIGEST));
}

const DIGEST: &str = "4372a144f8ba300f";

#[test]
fn short_data_has_no_usable_bar() {
    let data = Dataset::new("test", vec![bars(&[(0.01, 1.0, 0); 7])]).unwrap();
    assert_eq!(data.instruments()[0].first_usable, 7);
    assert!(data.instruments()[0].features.iter().all(|x| *x == 0.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_future_leaves_no_trace(past in steps(75), a in steps(30), b in steps(12)) {
        let with = |future: &[(f64, f64, u8)]| compute(&bars(&[&past[..], future].concat()));
        let (one, other) = (with(&a), with(&b));
        let known = past.len() * TABLE.len();
        let bits = |rows: &[f32]| rows[..known].iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&one), bits(&other));
        prop_assert!(one.iter().all(|x| x.is_finite()));
        prop_assert!(one[known..known + 51] != other[known..known + 51]);
    }

    #[test]
    fn a_changed_bar_changes_no_feature_before_it(all in steps(90), t in 61..90usize, step in -0.09..0.09f64) {
        let whole = bars(&all);
        let mut changed = bars(&all);
        for column in [&mut changed.open, &mut changed.high, &mut changed.low, &mut changed.close] {
            column[t] *= 1.0 + step;
        }
        changed.volume[t] += 1.0;
        changed.start_ns[t..].iter_mut().for_each(|ns| *ns += 1);
        let (before, after) = (compute(&whole), compute(&changed));
        let bits = |rows: &[f32]| rows.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&before[..t * 51]), bits(&after[..t * 51]));
        prop_assert!(before[t * 51..] != after[t * 51..]);
    }

    #[test]
    fn each_feature_by_itself_knows_nothing_of_a_later_bar(all in steps(80), other in steps(80), t in 61..80usize) {
        // all that differs is from bar t on, in every column
        let mixed: Vec<_> = all[..t].iter().chain(&other[t..]).copied().collect();
        for feature in TABLE {
            let chosen = Chosen::new(&[feature.name.to_owned()]);
            let column = |steps: &[(f64, f64, u8)]| {
                let column = chosen.compute(&bars(steps), &[]);
                column[..t].iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            };
            prop_assert_eq!(column(&all), column(&mixed), "{} saw bar {}", feature.name, t);
        }
    }

    #[test]
    fn no_feature_needs_more_past_than_it_says(all in steps(100), cut in 1..30usize) {
        for feature in TABLE {
            let chosen = Chosen::new(&[feature.name.to_owned()]);
            let whole = chosen.compute(&bars(&all), &[]);
            let mut late = bars(&all);
            for column in [&mut late.open, &mut late.high, &mut late.low, &mut late.close, &mut late.volume] {
                column.drain(..cut);
            }
            late.start_ns.drain(..cut);
            let late = chosen.compute(&late, &[]);
            prop_assert_eq!(&late[feature.warm_up..], &whole[cut + feature.warm_up..], "{}", feature.name);
        }
    }
}
