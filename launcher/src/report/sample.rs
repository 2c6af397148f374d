//! Made results for tests, and one whole made run folder.

use foxlaunch_shared::config::Config;
use foxlaunch_shared::evaluation::{CostLevel, FoldResult, RandomBand, Span, Track};
use foxlaunch_shared::metric::Metric;
use foxlaunch_shared::run_dir::RunDir;

const DAY_NS: i64 = 86_400_000_000_000;
/// 2006-01-02.
const START_NS: i64 = 13_150 * DAY_NS;

/// Fold `number`, whose policy has the equity `equity` (which starts with 1); holding gains a little each bar.
pub(crate) fn fold(number: usize, equity: &[f64]) -> FoldResult {
    let bars = equity.len() - 1;
    let first_ns = START_NS + (number * bars) as i64 * DAY_NS;
    let span = |from: i64, bars: usize| Span { first_ns: from, last_ns: from + bars as i64 * DAY_NS, bars };
    let drift = |per_bar: f64| (0..=bars).map(|bar| (per_bar * bar as f64).exp()).collect::<Vec<_>>();
    let median = track(&drift(-0.0001));
    let middle = median.total_return;
    FoldResult {
        fold: number,
        instruments: vec!["IBM".to_owned(), "GOOG".to_owned()],
        train: span(START_NS - 2000 * DAY_NS, 1700),
        validation: span(START_NS - 299 * DAY_NS, 290),
        test: Span { first_ns, last_ns: first_ns + (bars as i64 - 1) * DAY_NS, bars },
        periods_per_year: 252.0,
        cost_rate: 0.0002,
        times_ns: (0..bars).map(|bar| first_ns + bar as i64 * DAY_NS).collect(),
        zone: String::new(),
        policy: track(equity),
        buy_and_hold: track(&drift(0.0004)),
        random: RandomBand {
            runs: 100,
            total_return: [middle - 0.15, middle, middle + 0.2],
            sharpe: [-1.1, -0.2, 0.8],
            median,
        },
        costs: [0.0, 1.0, 2.0]
            .map(|factor| CostLevel { factor, total_return: 0.1 - 0.05 * factor, sharpe: 0.4 - 0.2 * factor })
            .to_vec(),
        break_even: Some(0.0004),
    }
}

fn track(equity: &[f64]) -> Track {
    Track {
        total_return: equity[equity.len() - 1] - 1.0,
        sharpe: 0.42,
        max_drawdown: super::chain::max_drawdown(equity),
        turnover: 0.0312,
        time_in_market: 0.71,
        trades: 25,
        hit_rate: 0.51,
        exposure: 0.71,
        equity: equity.to_vec(),
    }
}

/// A wavy curve of `bars` bars from 1, the same for the same arguments.
pub(crate) fn wave(bars: usize, drift: f64, phase: f64) -> Vec<f64> {
    let mut level = 0.0;
    let mut curve = vec![1.0];
    for bar in 0..bars {
        let t = bar as f64;
        level += drift + 0.008 * (t * 12.9898 + phase).sin() * (t * 0.37 + phase).cos();
        curve.push((level + 0.06 * (t / 90.0 + phase).sin()).exp());
    }
    curve
}

/// Writes a run folder with three folds, whose only instruments are `instruments`.
pub(crate) fn write_run(run: &RunDir, instruments: &[&str]) {
    std::fs::create_dir_all(run.evaluation()).expect("a folder");
    std::fs::write(run.config(), Config::default().to_toml()).expect("settings");
    std::fs::write(run.plan(), "{\"workers\": 2, \"note\": \"<script>\"}").expect("a plan");
    let mut lines = String::new();
    for (number, drift) in [0.0002, -0.0003, 0.0003].into_iter().enumerate() {
        let mut fold = fold(number, &wave(530, drift, number as f64));
        fold.random.total_return = [-0.4, fold.random.total_return[1], 0.6];
        fold.instruments = instruments.iter().map(|name| (*name).to_owned()).collect();
        std::fs::write(run.fold(number), serde_json::to_string(&fold).expect("JSON")).expect("a fold");
        for update in (50..=6000u64).step_by(50) {
            let t = update as f64;
            let loss = 0.4 * (-t / 1500.0).exp() + 0.06 + 0.02 * (t * 0.7 + number as f64).sin();
            let mut values = vec![("loss", loss)];
            if update % 500 == 0 {
                values.push(("validation", 0.1 - 0.2 * (-t / 900.0).exp() + 0.05 * (t / 700.0).sin()));
            }
            let metric = Metric::new(number as u32, update, update * 16, values);
            lines += &(serde_json::to_string(&metric).expect("JSON") + "\n");
        }
    }
    std::fs::write(run.metrics(), lines).expect("metrics");
}
