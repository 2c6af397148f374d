//! What is to be learned is learned, and what is not to be known is not: on independent returns, a feature that
//! equals the next bar's return is worth almost what an oracle makes of it, and the same feature late is worth nothing.

use super::{bars, chance, config, train_on};
use crate::collectives::Solo;
use crate::data::Dataset;
use crate::trainers::Ending;
use crate::world::World;
use foxlaunch_shared::evaluation::FoldResult;
use foxlaunch_shared::run_dir::RunDir;

const BARS: usize = 4000;

/// The result on unseen bars, where the feature at bar t is the return of bar `t + 1 - lag`.
fn trained(lag: usize, preset: &str) -> (FoldResult, Vec<f64>) {
    let returns = chance(21, BARS);
    let feature = |t: usize| (t + 1).checked_sub(lag).and_then(|i| returns.get(i)).map_or(0.0, |r| *r as f32);
    let matrix = (0..BARS).map(feature).collect();
    let data = Dataset::with_features(vec![bars("PLANTED", &returns)], vec!["planted".to_owned()], vec![matrix]);
    let config = config(&[
        "train.steps=16000",
        "train.evaluate_every=250",
        "train.checkpoint_every=0",
        "folds.count=1",
        "environment.fee_bps=0",
        "environment.half_spread_bps=0",
        "network.hidden=[16]",
        "dqn.batch_size=64",
        "dqn.learning_starts=500",
        "dqn.learning_rate=3e-3",
        "dqn.target_every=50",
        "dqn.n_step=1",
        "dqn.gamma=0.5",
        preset,
    ]);
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path());
    let mut world = World::with_collective(Box::new(Solo::new()));
    let ending = train_on(&mut world, &config, &data.unwrap(), &run, false).unwrap();
    assert_eq!(ending, Ending::Finished);
    let result: FoldResult = serde_json::from_slice(&std::fs::read(run.fold(0)).unwrap()).unwrap();
    let first = (result.test.first_ns / 86_400_000_000_000) as usize;
    let test = returns[first + 1..first + result.test.bars].to_vec();
    (result, test)
}

#[test]
fn a_feature_of_the_next_bar_is_learned_to_nine_tenths_of_an_oracle() {
    for preset in ["vanilla", "rainbow", "iqn", "foxhunt"] {
        let (result, test) = trained(0, &format!("dqn.preset={preset}"));
        // the oracle is long before a rise and short before a fall
        let oracle: f64 = test.iter().map(|r| if *r > 0.0 { *r } else { (2.0 - r.exp()).ln() }).sum();
        let profit = result.policy.total_return.ln_1p();
        println!("{preset}: {:.4} of the oracle's log profit", profit / oracle);
        assert!(profit >= 0.9 * oracle, "{preset}: a log profit of {profit}, the oracle's is {oracle}");
        assert!(profit <= oracle + 1e-9, "{preset}: more than an oracle makes: {profit} > {oracle}");
    }
}

#[test]
fn the_same_feature_late_gives_no_edge() {
    let (result, test) = trained(2, "dqn.preset=rainbow");
    let profit = result.policy.total_return.ln_1p();
    let mean_square = test.iter().map(|r| r * r).sum::<f64>() / test.len() as f64;
    let error = (mean_square * test.len() as f64).sqrt();
    assert!(profit.abs() < 2.0 * error, "a log profit of {profit} from nothing, with a standard error of {error}");
}
