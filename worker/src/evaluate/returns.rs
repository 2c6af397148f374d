//! Measures of a series of per-bar returns.

/// Final equity over initial equity, minus 1, for an `equity` that starts with the initial one.
pub fn total_return(equity: &[f64]) -> f64 {
    match equity {
        [first, .., last] => last / first - 1.0,
        _ => 0.0,
    }
}

/// Mean over standard deviation (ddof 1) of per-bar `returns`, times the root of the periods in a year
/// (Sharpe 1994, with a riskless rate of 0); 0 where the returns do not vary.
///
/// The root assumes independent returns: autocorrelated ones make it too rosy.
pub fn sharpe(returns: &[f64], periods_per_year: f64) -> f64 {
    let n = returns.len() as f64;
    if returns.len() < 2 || returns.iter().all(|r| *r == returns[0]) {
        return 0.0;
    }
    let mean = returns.iter().sum::<f64>() / n;
    let variance = returns.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
    if variance > 0.0 { mean / variance.sqrt() * periods_per_year.sqrt() } else { 0.0 }
}

/// The largest fall of `equity` from a peak before it, as a share of that peak, from 0 to 1.
pub fn max_drawdown(equity: &[f64]) -> f64 {
    let mut peak = f64::NEG_INFINITY;
    let mut worst = 0.0f64;
    for &e in equity {
        peak = peak.max(e);
        worst = worst.max(1.0 - e / peak);
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharpe_equals_the_reference_vectors() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases/vectors.json");
        let Ok(text) = std::fs::read_to_string(path) else {
            eprintln!("SKIPPED: {path} is not here");
            return;
        };
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let cases = document["cases"]["finance"].as_array().unwrap().iter().filter(|c| c["kind"] == "sharpe");
        let mut seen = 0;
        for case in cases {
            let list = |v: &serde_json::Value| -> Vec<f64> { serde_json::from_value(v.clone()).unwrap() };
            let returns = list(&case["input"]["returns"]);
            for (key, periods) in
                [("sharpe_per_period", 1.0), ("sharpe_annual", case["input"]["periods_per_year"].as_f64().unwrap())]
            {
                let expected = case["output"][key].as_f64().unwrap();
                assert!((sharpe(&returns, periods) / expected - 1.0).abs() < 1e-9, "{case}");
            }
            seen += 1;
        }
        assert!(seen >= 3, "only {seen} cases");
    }

    #[test]
    fn returns_that_do_not_vary_have_no_sharpe() {
        assert_eq!(sharpe(&[0.1; 7], 252.0), 0.0);
        assert_eq!(sharpe(&[0.1], 252.0), 0.0);
        assert_eq!(sharpe(&[], 252.0), 0.0);
        // by hand: mean 0.01, deviation 0.01 * sqrt(2)
        assert!((sharpe(&[0.0, 0.02], 2.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn drawdown_is_from_the_peak_before() {
        assert_eq!(max_drawdown(&[1.0, 2.0, 1.0, 4.0, 3.0]), 0.5);
        assert_eq!(max_drawdown(&[1.0, 1.5, 2.0]), 0.0);
        assert_eq!(total_return(&[1.0, 9.0, 1.25]), 0.25);
        assert_eq!(total_return(&[]), 0.0);
    }
}
