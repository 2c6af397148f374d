//! Tests of training as a whole: same bits whatever the ranks, resumed or not; what it learns, and what it must not.

mod bits;
mod ends;
mod learner;
mod planted;
mod ppo;
mod preloaded;
pub(super) mod threads;

use crate::data::{Bars, Dataset};
use crate::seed::{Streams, uniform};
use crate::trainers::{Ending, Preloaded, TrainError, train_with_preloaded_data};
use crate::world::World;
use foxlaunch_shared::config::{Config, Layer, Layers};
use foxlaunch_shared::run_dir::RunDir;

/// Bars whose log returns are `returns`, opening where the one before closed.
fn bars(symbol: &str, returns: &[f64]) -> Bars {
    let mut close = Vec::with_capacity(returns.len());
    let mut price: f64 = 100.0;
    for r in returns {
        price *= r.exp();
        close.push(price);
    }
    let open: Vec<f64> = std::iter::once(100.0).chain(close.iter().copied()).take(close.len()).collect();
    let pairs = || open.iter().zip(&close);
    Bars {
        symbol: symbol.to_owned(),
        interval_ns: 86_400_000_000_000,
        start_ns: (0..returns.len() as i64).map(|i| i * 86_400_000_000_000).collect(),
        high: pairs().map(|(o, c)| o.max(*c)).collect(),
        low: pairs().map(|(o, c)| o.min(*c)).collect(),
        volume: vec![1000.0; returns.len()],
        open,
        close,
    }
}

/// `n` independent returns of deviation about 1 %.
fn chance(seed: u64, n: usize) -> Vec<f64> {
    let mut draw = Streams::new(seed).draw("returns", 0, 0);
    // a sum of uniforms: near enough to normal, and without tails that would make the tests depend on one bar
    (0..n).map(|_| 0.01 * ((0..12).map(|_| uniform(&mut draw)).sum::<f64>() - 6.0)).collect()
}

/// Two instruments of `n` bars with three features each, one of which is worth something.
fn small_data(n: usize) -> Dataset {
    let mut all = Vec::new();
    let mut matrices = Vec::new();
    for (k, symbol) in ["AAA", "BBB"].into_iter().enumerate() {
        let returns = chance(k as u64, n);
        let feature = |t: usize| [returns.get(t + 1).copied().unwrap_or(0.0), returns[t], (t % 7) as f64];
        matrices.push((0..n).flat_map(feature).map(|x| x as f32).collect());
        all.push(bars(symbol, &returns));
    }
    let names = ["next", "last", "day"].map(str::to_owned).to_vec();
    Dataset::with_features(all, names, matrices).expect("the bars are in order")
}

/// Trains on `data` in the folds of `config`, and hears of no checkpoint.
fn train_on(
    world: &mut World,
    config: &Config,
    data: &Dataset,
    run: &RunDir,
    resume: bool,
) -> Result<Ending, TrainError> {
    let data = Preloaded::walk_forward(data, &config.folds)?;
    train_with_preloaded_data(world, config, &data, run, resume, &mut |_| Ok(()))
}

/// The defaults with `pairs`, as `KEY=VALUE`, over them.
fn config(pairs: &[&str]) -> Config {
    let mut layers = Layers::new();
    layers.push(Layer::from_pairs("test", pairs.iter().copied()).expect("pairs")).expect("known keys");
    layers.resolve().expect("valid settings").0
}
