//! Sharpe ratios and what they are worth, costs, purged rows.

use super::harness::{Case, each, numbers};
use foxlaunch_shared::statistics::{Moments, expected_best_sharpe, probabilistic_sharpe};
use foxlaunch_worker::data::purged;
use foxlaunch_worker::environments::market::bar_growth;

/// The finance cases of one kind; our own file must have some.
fn of_kind(kind: &str, mut check: impl FnMut(&Case)) {
    let mut seen = 0;
    each("finance", |case| {
        if case.kind() == Some(kind) {
            check(case);
            seen += 1;
        }
    });
    assert!(seen > 0 || std::env::var("FOXLAUNCH_VECTORS").is_ok(), "no cases of {kind}");
}

#[test]
fn finance_sharpe() {
    of_kind("sharpe", |case| {
        let returns = Moments::of(&case.inputs::<f64>("returns"));
        case.expect("sharpe_per_period", &[returns.sharpe()]);
        case.expect("sharpe_annual", &[returns.sharpe() * case.number("periods_per_year").sqrt()]);
        case.expect("skew", &[returns.skewness]);
        case.expect("kurtosis", &[returns.kurtosis]);
        case.expect("psr_vs_zero", &[probabilistic_sharpe(&returns, 0.0)]);
        let trials = case.inputs::<f64>("trial_sharpes_per_period");
        let best = expected_best_sharpe(trials.len(), Moments::of(&trials).deviation);
        case.expect("sr0", &[best]);
        case.expect("dsr", &[probabilistic_sharpe(&returns, best)]);
    });
}

#[test]
fn finance_costs() {
    of_kind("costs", |case| {
        let (price, rate) = (case.inputs::<f64>("price"), case.number("cost_rate"));
        let (mut old, mut equity) = (0.0, 1.0);
        let (mut gross, mut turnover, mut net, mut curve) = (vec![], vec![], vec![], vec![]);
        for (t, new) in case.inputs::<f64>("position").into_iter().enumerate() {
            // one price for each bar: the next bar opens where this one closed
            let growth = |rate| bar_growth(price[t], price[t], price[t + 1], [old, new], rate, 0.0);
            gross.push(growth(0.0) - 1.0);
            net.push(growth(rate) - 1.0);
            turnover.push((new - old).abs());
            equity *= growth(rate);
            curve.push(equity);
            old = new;
        }
        case.expect("gross", &gross);
        case.expect("turnover", &turnover);
        case.expect("net", &net);
        case.expect("equity", &curve);
    });
}

#[test]
fn finance_purge() {
    of_kind("purge", |case| {
        let test = case.whole("test_start")..case.whole("test_end");
        let rows = purged(case.whole("n"), test.clone(), case.whole("label_horizon"), case.whole("embargo"));
        let expected = |key: &str| numbers(case.output(key)).into_iter().map(|x| x as usize).collect::<Vec<_>>();
        assert_eq!(rows.train, expected("train"), "{}", case.note);
        assert_eq!(rows.train_walk_forward, expected("train_walk_forward"), "{}", case.note);
        assert_eq!(test.collect::<Vec<_>>(), expected("test"), "{}", case.note);
    });
}
