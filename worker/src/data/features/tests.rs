use super::*;
use crate::data::Dataset;
use proptest::prelude::*;

/// A walk of prices and volumes, with holes in time, from a list of numbers.
fn bars(steps: &[(f64, f64, u8)]) -> Bars {
    let mut bars = Bars { symbol: "X".to_owned(), interval_ns: 60, ..Bars::default() };
    let (mut close, mut start) = (100.0f64, 0i64);
    for &(step, volume, hole) in steps {
        let open = close * (1.0 + 0.3 * step);
        close = open * (1.0 + step);
        start += 60 * (1 + i64::from(hole % 3));
        bars.start_ns.push(start);
        bars.open.push(open);
        bars.high.push(open.max(close) * 1.01);
        bars.low.push(open.min(close) * 0.99);
        bars.close.push(close);
        bars.volume.push(volume);
    }
    bars
}

fn steps(len: usize) -> impl Strategy<Value = Vec<(f64, f64, u8)>> {
    prop::collection::vec((-0.1..0.1f64, 0.0..1e6f64, any::<u8>()), len)
}

#[test]
fn features_equal_their_formulas() {
    let bars = bars(&(0..40).map(|i| (f64::from(i % 7) * 0.01 - 0.03, f64::from(i), i as u8)).collect::<Vec<_>>());
    let rows = compute(&bars);
    let (t, c, v) = (33, &bars.close, &bars.volume);
    let feature = |name: &str| {
        let j = TABLE.iter().position(|f| f.name == name).unwrap();
        f64::from(rows[t * TABLE.len() + j])
    };
    let ln = |x: f64| x.ln();
    let (o, h, l) = (bars.open[t], bars.high[t], bars.low[t]);
    let squares: f64 = (t - 9..=t).map(|i| ln(c[i] / c[i - 1]).powi(2)).sum();
    for (name, expected) in [
        ("return_1", ln(c[t] / c[t - 1])),
        ("return_20", ln(c[t] / c[t - 20])),
        ("range", ln(h / l)),
        ("body", ln(c[t] / o)),
        ("upper_shadow", ln(h / o.max(c[t]))),
        ("lower_shadow", ln(o.min(c[t]) / l)),
        ("volatility_10", (squares / 10.0).sqrt()),
        ("volume_surprise", ln((1.0 + v[t]) / (1.0 + v[t - 20..t].iter().sum::<f64>() / 20.0))),
        ("distance_20", ln(c[t] / (c[t - 19..=t].iter().sum::<f64>() / 20.0))),
        ("gap", ln(o / c[t - 1])),
        ("elapsed", ln((bars.start_ns[t] - bars.start_ns[t - 1]) as f64 / 60.0)),
    ] {
        assert!((feature(name) - expected).abs() < 1e-6, "{name}: {} instead of {expected}", feature(name));
    }
}

#[test]
fn the_table_is_the_set_of_its_name() {
    assert_eq!(TABLE.len(), 16);
    assert_eq!(TABLE.iter().map(|f| f.warm_up).max(), Some(WARM_UP));
    // a new digest here asks for a new name
    assert_eq!((NAME, &digest()[..16]), ("fox16-v1", "d09609449c1a90a7"));
}

#[test]
fn short_data_has_no_usable_bar() {
    let data = Dataset::new("test", vec![bars(&[(0.01, 1.0, 0); 7])]).unwrap();
    assert_eq!(data.instruments()[0].first_usable, 7);
    assert!(data.instruments()[0].features.iter().all(|x| *x == 0.0));
}

proptest! {
    #[test]
    fn the_future_leaves_no_trace(past in steps(45), a in steps(30), b in steps(12)) {
        let with = |future: &[(f64, f64, u8)]| compute(&bars(&[&past[..], future].concat()));
        let (one, other) = (with(&a), with(&b));
        let known = past.len() * TABLE.len();
        let bits = |rows: &[f32]| rows[..known].iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&one), bits(&other));
        prop_assert!(one.iter().all(|x| x.is_finite()));
        prop_assert!(one[known..known + 16] != other[known..known + 16]);
    }

    #[test]
    fn no_feature_needs_more_past_than_it_says(all in steps(60), cut in 1..30usize) {
        let whole = compute(&bars(&all));
        let mut late = bars(&all);
        for column in [&mut late.open, &mut late.high, &mut late.low, &mut late.close, &mut late.volume] {
            column.drain(..cut);
        }
        late.start_ns.drain(..cut);
        let late = compute(&late);
        let from = WARM_UP * TABLE.len();
        prop_assert_eq!(&late[from..], &whole[cut * TABLE.len() + from..]);
    }
}
