use super::*;
use crate::data::{Bars, Dataset, Part, Scaler, walk_forward};
use foxlaunch_shared::config::{Config, EnvironmentConfig};

fn bars(symbol: &str, first: i64, closes: &[f64]) -> Bars {
    // each bar opens where the one before closed
    let open: Vec<f64> = std::iter::once(closes[0]).chain(closes.iter().copied()).take(closes.len()).collect();
    Bars {
        symbol: symbol.to_owned(),
        interval_ns: 1,
        start_ns: (first..first + closes.len() as i64).collect(),
        high: open.iter().zip(closes).map(|(o, c)| o.max(*c)).collect(),
        low: open.iter().zip(closes).map(|(o, c)| o.min(*c)).collect(),
        open,
        close: closes.to_vec(),
        volume: vec![0.0; closes.len()],
    }
}

/// A market whose one feature is +1 or -1 as the next bar rises or falls.
fn clairvoyant(all: Vec<Bars>, bps: f64) -> (Market, Fold) {
    let sign = |c: &[f64], t: usize| c.get(t + 1).map_or(0.0, |next| if *next > c[t] { 1.0 } else { -1.0 });
    let features = all.iter().map(|b| (0..b.len()).map(|t| sign(&b.close, t)).collect()).collect();
    let data = Dataset::with_features(all, vec!["next".to_owned()], features).unwrap();
    let part = Part::whole(&data);
    let scaler = Scaler::fit(&data, &part);
    let environment = EnvironmentConfig { fee_bps: bps, half_spread_bps: 0.0, ..Config::default().environment };
    let market = Market::new(&data, &part, &scaler, &environment).unwrap();
    (market, Fold { index: 0, train: part.clone(), validation: part.clone(), test: part })
}

fn follow(width: usize) -> impl FnMut(&[f32], usize) -> anyhow::Result<Vec<usize>> {
    move |rows, n| {
        assert_eq!((rows.len(), n), (BATCH_ROWS * width, BATCH_ROWS));
        Ok(rows.chunks_exact(width).map(|row| if row[0] > 0.0 { 2 } else { 0 }).collect())
    }
}

#[test]
fn a_walk_equals_the_account_by_hand() {
    let (market, fold) = clairvoyant(vec![bars("A", 0, &[100.0, 110.0, 99.0, 99.0 * 1.2])], 10.0);
    let result = fold_result(&market, &fold, &Streams::new(1), &mut follow(2)).unwrap();
    // long +10 %, flip to short: +10 %, flip to long: +20 %, close; costs 1, 2, 2 times 0.001, then 1 of what is there
    let expected: f64 = (1.1 - 0.001) * (1.1 - 0.002) * (1.2 - 0.002) * (1.0 - 0.001);
    let policy = &result.policy;
    assert!((policy.total_return - (expected - 1.0)).abs() < 1e-12, "{policy:?}");
    assert_eq!((policy.equity.len(), policy.equity[1], result.times_ns.len()), (5, 1.0, 4));
    assert_eq!((policy.trades, policy.time_in_market, policy.turnover), (4, 0.75, 1.5));
    assert_eq!(policy.max_drawdown, 0.0);
    let hold = &result.buy_and_hold;
    assert!((hold.total_return - ((1.1 - 0.001) * 0.9 * 1.2 * 0.999 - 1.0)).abs() < 1e-12, "{hold:?}");
    assert!((hold.max_drawdown - 0.1).abs() < 1e-12);
    assert_eq!(hold.trades, 2);
    let score = validation_score(&market, &mut follow(2)).unwrap();
    assert!((score - expected.ln()).abs() < 1e-12);
    assert_eq!((policy.hit_rate, policy.exposure, hold.hit_rate), (1.0, 0.75, 2.0 / 3.0));
    // the same decisions at other costs
    let at = |c: f64| (1.1 - c) * (1.1 - 2.0 * c) * (1.2 - 2.0 * c) * (1.0 - c) - 1.0;
    for (level, factor) in result.costs.iter().zip([0.0, 1.0, 2.0]) {
        assert_eq!(level.factor, factor);
        assert!((level.total_return - at(0.001 * factor)).abs() < 1e-12, "{level:?}");
    }
    assert_eq!(result.costs[1].sharpe, policy.sharpe);
    let even = result.break_even.unwrap();
    assert!(at(even).abs() < 1e-5 && even > 0.05, "{even}");
}

#[test]
fn instruments_hold_equal_shares_on_the_union_of_their_times() {
    let all = vec![bars("A", 0, &[10.0, 11.0, 12.1]), bars("B", 1, &[10.0, 12.0, 12.0]), bars("C", 2, &[5.0])];
    let (market, fold) = clairvoyant(all, 0.0);
    let result = fold_result(&market, &fold, &Streams::new(1), &mut |_: &[f32], n| Ok(vec![2; n])).unwrap();
    assert_eq!(result.instruments, ["A", "B"]);
    assert_eq!(result.times_ns, [0, 1, 2, 3]);
    let expected = [1.0, 1.0, 1.05, 1.05 * 1.15, 1.05 * 1.15];
    for (got, expected) in result.policy.equity.iter().zip(expected) {
        assert!((got - expected).abs() < 1e-12, "{:?}", result.policy.equity);
    }
}

#[test]
fn ruin_is_final_and_finite() {
    let (market, fold) = clairvoyant(vec![bars("A", 0, &[10.0, 25.0, 10.0, 5.0])], 0.0);
    let short = |_: &[f32], n| Ok(vec![0; n]);
    let result = fold_result(&market, &fold, &Streams::new(1), &mut { short }).unwrap();
    assert!((result.policy.total_return - (RUIN - 1.0)).abs() < 1e-12);
    assert_eq!(result.policy.equity[2], result.policy.equity[4]);
    assert!((validation_score(&market, &mut { short }).unwrap() - RUIN.ln()).abs() < 1e-9);
}

#[test]
fn a_bad_tick_takes_back_what_it_gave() {
    let (market, fold) = clairvoyant(vec![bars("A", 0, &[145.0, 144.0, 1e9, 133.0, 133.4])], 0.0);
    let result = fold_result(&market, &fold, &Streams::new(1), &mut |_: &[f32], n| Ok(vec![2; n])).unwrap();
    for track in [&result.policy, &result.buy_and_hold] {
        assert!((track.total_return - (133.4 / 145.0 - 1.0)).abs() < 1e-9, "{track:?}");
        assert!(track.max_drawdown > 0.9999998 && track.max_drawdown < 1.0);
    }
    // who was short when the tick came is ruined, and the way back down gives nothing back
    let short = fold_result(&market, &fold, &Streams::new(1), &mut |_: &[f32], n| Ok(vec![0; n])).unwrap().policy;
    assert!(short.equity[3..].iter().all(|e| *e > 0.0 && *e < 1e-11), "{short:?}");
}

#[test]
fn a_policy_that_answers_wrongly_is_an_error() {
    let (market, _) = clairvoyant(vec![bars("A", 0, &[1.0, 2.0, 3.0])], 0.0);
    assert!(validation_score(&market, &mut |_: &[f32], _| Ok(vec![0])).unwrap_err().to_string().contains("1 actions"));
    let high = |_: &[f32], n| Ok(vec![3; n]);
    assert!(validation_score(&market, &mut { high }).unwrap_err().to_string().contains("action 3 of 3"));
}

#[test]
fn batches_are_padded_and_in_order() {
    let closes: Vec<f64> = (0..400).map(|i| 100.0 + f64::from(i * 7919 % 13)).collect();
    let (market, _) = clairvoyant(vec![bars("A", 0, &closes), bars("B", 0, &closes)], 0.0);
    let mut calls = 0;
    let mut follow = follow(2);
    let table = ActionTable::compute(&market, &mut |rows: &[f32], n| {
        calls += 1;
        follow(rows, n)
    })
    .unwrap();
    assert_eq!(calls, (2usize * 399 * 3).div_ceil(BATCH_ROWS));
    for instrument in 0..2 {
        for t in 0..399 {
            let expected = if closes[t + 1] > closes[t] { 2 } else { 0 };
            assert!((0..3).all(|p| table.action(instrument, t, p) == expected), "bar {t}");
        }
    }
}

#[test]
fn chance_trades_as_much_as_the_policy_and_is_the_same_each_time() {
    let config = Config::default();
    let data = crate::data::load(&config).unwrap();
    let fold = walk_forward(&data, &config.folds).unwrap().remove(1);
    let scaler = Scaler::fit(&data, &fold.train);
    let market = Market::new(&data, &fold.test, &scaler, &config.environment).unwrap();
    let mut momentum = |rows: &[f32], n: usize| {
        Ok((0..n).map(|i| if rows[i * 17] > 0.7 { 2 } else { usize::from(rows[i * 17] > -0.7) }).collect())
    };
    let result = fold_result(&market, &fold, &Streams::new(5), &mut momentum).unwrap();
    assert_eq!(result, fold_result(&market, &fold, &Streams::new(5), &mut momentum).unwrap());
    let other = fold_result(&market, &fold, &Streams::new(6), &mut momentum).unwrap();
    assert_ne!(result.random, other.random);
    assert_eq!(result.policy, other.policy);
    let (policy, median) = (result.policy.turnover, result.random.median.turnover);
    assert!(policy > 0.1 && (median / policy - 1.0).abs() < 0.15, "{policy} and {median}");
    assert_eq!(result.random.runs, RANDOM_RUNS);
    assert!(result.random.total_return.is_sorted() && result.random.sharpe.is_sorted());
    // the band of chance without an edge lies around what its costs leave of the market's drift
    assert!(result.random.total_return[0] < result.random.total_return[2]);
}

#[test]
fn a_policy_that_only_leans_is_within_chance_on_noise_that_drifts() {
    let mut outside = [0; 2];
    for seed in 0..20u64 {
        let mut draw = Streams::new(seed).draw("drifting", 0, 0);
        let mut price = 100.0;
        let closes: Vec<f64> = (0..800)
            .map(|_| {
                price *= 1.001 + 0.02 * (draw.random::<f64>() - 0.5);
                price
            })
            .collect();
        let (market, fold) = clairvoyant(vec![bars("A", 0, &closes)], 1.0);
        // long whatever comes; and in nine bars of ten, told apart by nothing that bears on the next bar
        for (which, share) in [1.0, 0.9].into_iter().enumerate() {
            let mut lean = |_: &[f32], n: usize| {
                let mut one = || if draw.random::<f64>() < share { 2 } else { 0 };
                Ok((0..n).map(|_| one()).collect())
            };
            let result = fold_result(&market, &fold, &Streams::new(seed), &mut lean).unwrap();
            let ([low, _, high], got) = (result.random.total_return, result.policy.total_return);
            outside[which] += usize::from(got < low || got > high);
        }
    }
    // a tenth is outside by the band's own meaning: of 20 more than 6 with a probability of 0.2 %
    assert!(outside[0] == 0 && outside[1] <= 6, "{outside:?}");
}

#[test]
fn a_feature_of_the_next_bar_is_worth_all_of_it_and_the_same_one_out_of_time_nothing() {
    let mut draw = Streams::new(11).draw("returns", 0, 0);
    let returns: Vec<f64> = (0..4000).map(|_| if draw.random::<bool>() { 0.01 } else { -0.01 }).collect();
    let closes: Vec<f64> = returns
        .iter()
        .scan(100.0, |price, r| {
            *price *= f64::exp(*r);
            Some(*price)
        })
        .collect();
    let score = |lag: usize| {
        // at bar t: the return of bar t + 1 - lag
        let feature =
            (0..4000usize).map(|t| (t + 1).checked_sub(lag).and_then(|i| returns.get(i)).map_or(0.0, |r| *r as f32));
        let names = vec!["planted".to_owned()];
        let data = Dataset::with_features(vec![bars("A", 0, &closes)], names, vec![feature.collect()]).unwrap();
        let part = Part::whole(&data);
        let free = EnvironmentConfig { fee_bps: 0.0, half_spread_bps: 0.0, ..Config::default().environment };
        let market = Market::new(&data, &part, &Scaler::fit(&data, &part), &free).unwrap();
        validation_score(&market, &mut follow(2)).unwrap()
    };
    // a short position gains a little less from a fall than a long one from a rise
    let oracle: f64 = returns[1..].iter().map(|r| if *r > 0.0 { *r } else { (2.0 - r.exp()).ln() }).sum();
    assert!((score(0) - oracle).abs() < 1e-9);
    let error = 0.01 * f64::sqrt(3999.0);
    for lag in [1, 2, 5] {
        assert!(score(lag).abs() < 2.0 * error, "lag {lag}: {} with a standard error of {error}", score(lag));
    }
}
