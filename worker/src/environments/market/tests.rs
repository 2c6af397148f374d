use super::*;
use crate::data::Bars;
use crate::seed::Streams;
use proptest::prelude::*;

fn bars(prices: &[(f64, f64)]) -> Bars {
    Bars {
        symbol: "X".to_owned(),
        interval_ns: 1,
        start_ns: (0..prices.len() as i64).collect(),
        open: prices.iter().map(|p| p.0).collect(),
        high: prices.iter().map(|p| p.0.max(p.1)).collect(),
        low: prices.iter().map(|p| p.0.min(p.1)).collect(),
        close: prices.iter().map(|p| p.1).collect(),
        volume: vec![1.0; prices.len()],
    }
}

fn part(range: Range<usize>) -> Part {
    Part { ranges: vec![range] }
}

fn config(cost_bps: f64, episode_bars: usize) -> EnvironmentConfig {
    let default = foxlaunch_shared::config::Config::default().environment;
    EnvironmentConfig { fee_bps: cost_bps, half_spread_bps: 0.0, episode_bars, ..default }
}

fn market(prices: &[(f64, f64)], config: &EnvironmentConfig) -> Market {
    let data = Dataset::new("test", vec![bars(prices)]).unwrap();
    let part = part(0..prices.len());
    Market::new(&data, &part, &Scaler::fit(&data, &part), config).unwrap()
}

fn draw() -> Draw {
    Streams::new(1).draw("test", 0, 0)
}

fn prices(len: usize) -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((80.0..120.0f64, 80.0..120.0f64), len)
}

#[test]
fn growth_equals_the_reference_vectors() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases/vectors.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("SKIPPED: {path} is not here");
        return;
    };
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cases: Vec<_> =
        document["cases"]["finance"].as_array().unwrap().iter().filter(|c| c["kind"] == "costs").collect();
    assert!(!cases.is_empty());
    for case in cases {
        let list = |v: &serde_json::Value| -> Vec<f64> { serde_json::from_value(v.clone()).unwrap() };
        let (price, position) = (list(&case["input"]["price"]), list(&case["input"]["position"]));
        let rate = case["input"]["cost_rate"].as_f64().unwrap();
        let (mut old, mut equity) = (0.0, 1.0);
        for (t, &new) in position.iter().enumerate() {
            // one price for each bar: the next bar opens where this one closed
            let growth = bar_growth(price[t], price[t], price[t + 1], [old, new], rate, 0.0);
            assert!((growth - 1.0 - list(&case["output"]["net"])[t]).abs() < 1e-12, "{case}");
            equity *= growth;
            assert!((equity - list(&case["output"]["equity"])[t]).abs() < 1e-12, "{case}");
            old = new;
        }
    }
}

#[test]
fn flat_costs_nothing_and_a_flip_pays_twice() {
    assert_eq!(bar_growth(10.0, 20.0, 5.0, [0.0, 0.0], 0.1, 0.0), 1.0);
    let once = 1.0 - bar_growth(10.0, 10.0, 10.0, [0.0, 1.0], 0.001, 0.0);
    let flip = 1.0 - bar_growth(10.0, 10.0, 10.0, [-1.0, 1.0], 0.001, 0.0);
    assert!((flip - 2.0 * once).abs() < 1e-15 && (once - 0.001).abs() < 1e-15);
}

#[test]
fn the_old_position_holds_to_the_open_and_the_new_one_from_there() {
    // overnight the price doubles, by day it falls by a quarter
    let growth = |old, new| bar_growth(10.0, 20.0, 15.0, [old, new], 0.0, 0.0);
    assert_eq!((growth(1.0, 0.0), growth(0.0, 1.0), growth(1.0, 1.0)), (2.0, 0.75, 1.5));
    assert_eq!(growth(0.5, -1.0), 1.5 * 1.25);
}

#[test]
fn a_short_position_pays_its_lender_for_the_time_it_is_held() {
    let mut data = bars(&[(10.0, 10.0); 3]);
    // a day, then a weekend
    data.start_ns = vec![0, 86_400_000_000_000, 4 * 86_400_000_000_000];
    let data = Dataset::new("test", vec![data]).unwrap();
    let part = part(0..3);
    let settings = EnvironmentConfig { borrow_bps: 365.25, ..config(0.0, 3) };
    let market = Market::new(&data, &part, &Scaler::fit(&data, &part), &settings).unwrap();
    for (bar, days) in [(0, 1.0), (1, 3.0)] {
        let paid = 1.0 - market.growth(0, bar, -1.0, -1.0);
        assert!((paid - days * 1e-4).abs() < 1e-15, "{paid}");
        assert_eq!((market.growth(0, bar, 1.0, 1.0), market.growth(0, bar, 0.0, 0.0)), (1.0, 1.0));
        let double = 1.0 - market.with_costs(2.0).growth(0, bar, -0.5, -0.5);
        assert!((double - days * 1e-4).abs() < 1e-15, "{double}");
    }
}

#[test]
fn episodes_of_several_instruments_run_side_by_side_and_each_within_its_own_part() {
    let all: Vec<Bars> = [20usize, 30]
        .iter()
        .enumerate()
        .map(|(i, n)| Bars { symbol: i.to_string(), ..bars(&vec![(1.0, 1.0); *n]) })
        .collect();
    let names = vec!["f".to_owned()];
    let data = Dataset::with_features(all, names, vec![vec![0.0; 20], vec![0.0; 30]]).unwrap();
    let part = Part { ranges: vec![5..15, 10..30] };
    let market = Market::new(&data, &part, &Scaler::fit(&data, &part), &config(0.0, 6)).unwrap();
    let mut seen = [0; 2];
    for stream in 0..64 {
        let mut draw = Streams::new(3).draw("streams", stream, 0);
        let mut state = market.reset(&mut draw);
        let instrument = usize::from(state.instrument);
        seen[instrument] += 1;
        let mut steps = 0;
        loop {
            assert!(part.ranges[instrument].contains(&(state.bar as usize)));
            let step = market.step(&state, 2, &mut draw);
            steps += 1;
            state = step.next;
            assert_eq!(usize::from(state.instrument), instrument);
            if step.truncated {
                break;
            }
        }
        assert_eq!((steps, part.ranges[instrument].contains(&(state.bar as usize))), (5, true));
    }
    assert!(seen[0] > 5 && seen[1] > 20, "{seen:?}");
}

#[test]
fn ruin_ends_the_episode_with_a_finite_reward() {
    let market = market(&[(10.0, 10.0), (25.0, 25.0), (25.0, 25.0)], &config(0.0, 3));
    let state = MarketState { instrument: 0, bar: 0, position: 0, left: 2 };
    let step = market.step(&state, 0, &mut draw());
    assert!(step.terminated && !step.truncated);
    assert_eq!(step.reward, RUIN.ln());
    // long it would have been a gain
    let step = market.step(&MarketState { position: 2, ..state }, 2, &mut draw());
    assert!(!step.done() && (step.reward - 2.5f64.ln()).abs() < 1e-12);
}

#[test]
fn a_bad_tick_takes_back_what_it_gave() {
    let market = market(&[(145.0, 145.0), (145.0, 1e9), (1e9, 133.0), (133.0, 133.0)], &config(0.0, 4));
    let mut state = MarketState { instrument: 0, bar: 0, position: 2, left: 3 };
    let mut sum = 0.0;
    for _ in 0..3 {
        let step = market.step(&state, 2, &mut draw());
        assert!(!step.terminated, "a fall is no ruin while anything is left");
        sum += step.reward;
        state = step.next;
    }
    assert!((sum - f64::ln(133.0 / 145.0)).abs() < 1e-9, "{sum}");
}

#[test]
fn an_episode_is_cut_by_count_or_by_the_end_of_the_part() {
    let market = market(&[(10.0, 10.0); 10], &config(0.0, 4));
    let mut state = market.reset(&mut draw());
    assert_eq!((state.left, state.position), (3, market.flat()));
    for left in [2, 1, 0] {
        let step = market.step(&state, 2, &mut draw());
        assert_eq!((step.next.left, step.truncated, step.terminated), (left, left == 0, false));
        state = step.next;
    }
    let last = MarketState { instrument: 0, bar: 8, position: 1, left: 99 };
    let step = market.step(&last, 1, &mut draw());
    assert!(step.truncated && step.next.bar == 9);
    assert!(market.step(&step.next, 1, &mut draw()).truncated);
}

#[test]
fn starts_are_spread_over_all_bars_of_all_instruments() {
    let data = Dataset::with_features(
        vec![bars(&[(1.0, 1.0); 30]), bars(&[(1.0, 1.0); 1]), bars(&[(1.0, 1.0); 20])],
        vec!["f".to_owned()],
        vec![vec![0.0; 30], vec![0.0; 1], vec![0.0; 20]],
    )
    .unwrap();
    let part = Part { ranges: vec![10..30, 0..1, 5..8] };
    let market = Market::new(&data, &part, &Scaler::fit(&data, &part), &config(0.0, 5)).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for step in 0..17_000 {
        let state = market.reset(&mut Streams::new(1).draw("reset", 0, step));
        let range = &part.ranges[usize::from(state.instrument)];
        assert!(state.bar as usize + (state.left as usize) < range.end, "{state:?}");
        *seen.entry((state.instrument, state.bar)).or_insert(0) += 1;
    }
    let expected: Vec<(u16, u32)> = (10..=25).map(|bar| (0, bar)).chain([(2, 5)]).collect();
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), expected);
    assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let data = Dataset::new("test", vec![bars(&[(1.0, 1.0); 3])]).unwrap();
    let whole = part(0..3);
    let scaler = Scaler::fit(&data, &whole);
    let refused = |part: Part, config| Market::new(&data, &part, &scaler, &config).unwrap_err().to_string();
    assert!(refused(part(0..4), config(0.0, 3)).contains("do not fit"));
    assert!(refused(part(1..2), config(0.0, 3)).contains("nothing to trade"));
    let without_flat = EnvironmentConfig { positions: vec![1.0, -1.0], ..config(0.0, 3) };
    assert!(refused(whole, without_flat).contains("flat"));
}

proptest! {
    #[test]
    fn rewards_add_up_to_the_log_of_equity(
        prices in prices(40),
        actions in prop::collection::vec(0..3usize, 39),
        bps in 0.0..50.0f64,
    ) {
        let market = market(&prices, &config(bps, 40));
        let rate = market.cost_rate();
        let mut state = MarketState { instrument: 0, bar: 0, position: 1, left: 39 };
        let (mut rewards, mut equity, mut old) = (0.0, 1.0, 0.0);
        for (t, &action) in actions.iter().enumerate() {
            let step = market.step(&state, action, &mut draw());
            rewards += step.reward;
            prop_assert!(!step.terminated);
            // an account in cash and units, brought to its share at the close and, at a cost, at the open
            let (close, open, new) = (prices[t].1, prices[t + 1].0, market.positions()[action]);
            let units = old * equity / close;
            let at_open = equity - units * close + units * open;
            let units = new * at_open / open;
            let cash = at_open - units * open - rate * f64::abs(new - old) * at_open;
            equity = cash + units * prices[t + 1].1;
            old = new;
            state = step.next;
        }
        prop_assert!((rewards - equity.ln()).abs() < 1e-9, "{} and {}", rewards, equity.ln());
    }

    #[test]
    fn nothing_later_than_the_decision_is_seen(
        past in prices(130),
        a in prices(20),
        b in prices(20),
        position in 0..3u8,
    ) {
        // features begin at bar 60
        let train = part(60..100);
        let with = |future: &[(f64, f64)]| {
            let data = Dataset::new("test", vec![bars(&[&past[..], future].concat())]).unwrap();
            let scaler = Scaler::fit(&data, &train);
            let market = Market::new(&data, &Part::whole(&data), &scaler, &config(1.0, 5)).unwrap();
            let mut seen = vec![];
            for bar in 60..130 {
                let mut row = vec![0.0; market.observation_len()];
                let state = MarketState { instrument: 0, bar, position, left: 5 };
                market.observe(&state, &mut row);
                seen.extend(row.iter().map(|x| u64::from(x.to_bits())));
                // what a decision earned is known one bar later, with the ends of episodes
                for action in (0..3).filter(|_| bar + 1 < 130) {
                    let step = market.step(&state, action, &mut draw());
                    seen.extend([step.reward.to_bits(), u64::from(step.terminated), u64::from(step.truncated)]);
                }
            }
            (scaler, seen)
        };
        let (one, other) = (with(&a), with(&b));
        prop_assert!(one.1.iter().collect::<std::collections::BTreeSet<_>>().len() > 1000, "nothing was seen");
        prop_assert!(one == other);
    }

    #[test]
    fn a_new_position_never_has_the_close_it_was_decided_on(
        prices in prices(30),
        close in 80.0..120.0f64,
        action in 0..3usize,
    ) {
        // from flat, the close of the bar decided on is not in the reward, the next open is
        let reward = |prices: &[(f64, f64)]| {
            let state = MarketState { instrument: 0, bar: 10, position: 1, left: 5 };
            market(prices, &config(2.0, 5)).step(&state, action, &mut draw()).reward
        };
        let mut other = prices.clone();
        other[10].1 = close;
        prop_assert_eq!(reward(&prices).to_bits(), reward(&other).to_bits());
        let mut other = prices.clone();
        other[11].0 *= 1.01;
        prop_assert_eq!(reward(&prices) == reward(&other), action == 1);
    }
}
