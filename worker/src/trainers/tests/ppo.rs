//! PPO: the same bits for any number of ranks and after any interruption, gradients in parts, and that it learns.

use super::bits::{assert_same, killed_after};
use super::config;
use super::threads::as_ranks;
use crate::checkpoint;
use crate::collectives::Solo;
use crate::environments::Environment;
use crate::environments::cart_pole::CartPole;
use crate::environments::pendulum::Pendulum;
use crate::trainers::start::{Continuous, Discrete, Start};
use crate::trainers::{Ending, TrainError, train_control};
use crate::world::World;
use foxlaunch_shared::config::Config;
use foxlaunch_shared::evaluation::ControlResult;
use foxlaunch_shared::run_dir::RunDir;
use std::collections::BTreeMap;
use std::path::Path;

/// Tiny, but with everything: an uneven last batch, in which a shard has no row, a round that ends early, normalisation,
/// schedules.
fn tiny(more: &[&str]) -> Config {
    let few = [
        "train.algorithm=ppo",
        "train.steps=720",
        "train.log_every=9",
        "train.evaluate_every=20",
        "train.checkpoint_every=15",
        "train.checkpoint_keep=100",
        "environment.name=cartpole",
        "environment.streams=6",
        "environment.evaluation_episodes=3",
        "ppo.policy_hidden=[8]",
        "ppo.value_hidden=[8, 4]",
        "ppo.rollout_steps=15",
        // 90 rows: four batches of 22 and one of 2
        "ppo.batch_size=22",
        "ppo.epochs=3",
        "ppo.learning_rate=1e-2",
        "ppo.learning_rate_end=0",
        "ppo.clip_end=0.1",
        "ppo.value_clip=0.5",
        "ppo.entropy_coefficient=0.01",
        "ppo.target_kl=0.02",
        "ppo.normalize_observation=true",
        "ppo.normalize_reward=true",
    ];
    config(&[&few, more].concat())
}

fn train<E: Environment>(
    ranks: usize,
    env: &E,
    start: impl Start<E> + Copy + Sync,
    config: &Config,
    run: &Path,
    resume: bool,
) {
    let endings =
        as_ranks(ranks, |mut world| train_control(&mut world, config, env, &RunDir::new(run), resume, start).unwrap());
    assert!(endings.iter().all(|e| *e == Ending::Finished));
}

/// Everything of a run that its numbers decide.
fn remains(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let dir = RunDir::new(run);
    let mut files = BTreeMap::new();
    files.insert("metrics".to_owned(), std::fs::read(dir.metrics()).unwrap());
    files.insert("result".to_owned(), std::fs::read(dir.control()).unwrap());
    super::bits::checkpoints(&dir, &mut files);
    files
}

#[test]
fn one_to_four_workers_end_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny(&["parallel.virtual_shards=4"]);
    let run = |ranks: usize, continuous: bool| {
        let path = folder.path().join(format!("ranks-{ranks}-{continuous}"));
        if continuous {
            train(ranks, &Pendulum::default(), Continuous, &config, &path, false);
        } else {
            train(ranks, &CartPole::default(), Discrete, &config, &path, false);
        }
        remains(&path)
    };
    for continuous in [false, true] {
        let one = run(1, continuous);
        assert!(one.keys().filter(|name| name.ends_with(checkpoint::MODEL)).count() > 3, "{:?}", one.keys());
        for ranks in 2..=4 {
            assert_same(&one, &run(ranks, continuous), &format!("{ranks} workers, continuous {continuous}"));
        }
    }
}

#[test]
fn a_resumed_run_ends_with_the_bits_of_an_uninterrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny(&["parallel.virtual_shards=3"]);
    let whole = folder.path().join("whole");
    train(1, &CartPole::default(), Discrete, &config, &whole, false);
    let expected = remains(&whole);
    let names: Vec<String> = expected
        .keys()
        .filter_map(|file| file.strip_suffix("/manifest.json"))
        .filter(|name| name.contains("update"))
        .map(str::to_owned)
        .collect();
    assert!(names.len() >= 3, "{names:?}");
    for (i, name) in names.iter().enumerate() {
        let copy = folder.path().join(format!("after-{name}"));
        killed_after(&whole, name, &copy, 0);
        train(1 + i % 3, &CartPole::default(), Discrete, &config, &copy, true);
        assert_same(&expected, &remains(&copy), &format!("resumed after {name}"));
    }
}

#[test]
fn gradients_in_parts_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let run = |rows: &str, ranks: usize| {
        let path = folder.path().join(format!("{rows}-{ranks}"));
        let config = tiny(&["parallel.virtual_shards=2", &format!("ppo.micro_batch_rows={rows}")]);
        train(ranks, &Pendulum::default(), Continuous, &config, &path, false);
        let mut files = remains(&path);
        // the settings, or a digest of them, stand there
        files.retain(|name, _| !name.ends_with("manifest.json") && !name.ends_with("policy.json"));
        files
    };
    let whole = run("0", 1);
    for (rows, ranks) in [("1", 1), ("4", 2), ("7", 1)] {
        assert_same(&whole, &run(rows, ranks), &format!("{rows} rows at a time, {ranks} workers"));
    }
}

#[test]
fn kl_ends_a_round_on_all_ranks_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let updates = |target: &str, ranks: usize| {
        let path = folder.path().join(format!("{target}-{ranks}"));
        let config = tiny(&["parallel.virtual_shards=2", &format!("ppo.target_kl={target}")]);
        train(ranks, &CartPole::default(), Discrete, &config, &path, false);
        let lines = std::fs::read_to_string(RunDir::new(&path).metrics()).unwrap();
        let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        last["update"].as_u64().unwrap()
    };
    // 8 rounds of 3 epochs of 5 batches
    assert_eq!(updates("0", 1), 120);
    let few = updates("0.0005", 1);
    assert!((8..100).contains(&few), "{few}");
    assert_eq!(updates("0.0005", 2), few);
}

#[test]
fn a_loss_that_is_no_number_stops_and_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path());
    let broken = |_: &CartPole, _: &_, _: usize, _: &_| f64::NAN;
    let env = crate::environments::rewarded::Rewarded::new(CartPole::default(), std::sync::Arc::new(broken));
    let mut world = World::with_collective(Box::new(Solo::new()));
    let config = tiny(&["ppo.normalize_reward=false"]);
    let error = train_control(&mut world, &config, &env, &run, false, Discrete).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { update: 1, .. }), "{error}");
    let saved = error.to_string();
    assert!(saved.contains("saved in"), "{saved}");
    let rows: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.not_finite(foxlaunch_shared::ids::Rank(0))).unwrap()).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 22);
    assert_eq!(rows[0]["observation"].as_array().unwrap().len(), 4);
}

#[test]
fn it_balances_a_pole() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path());
    // the settings of scripts/reproduce/ppo-cartpole.toml, for a third of the steps and one seed
    let config = config(&[
        "train.algorithm=ppo",
        "train.steps=40000",
        "train.evaluate_every=1000000",
        "train.checkpoint_every=0",
        "environment.name=cartpole",
        "environment.streams=8",
        "ppo.rollout_steps=32",
        "ppo.batch_size=256",
        "ppo.epochs=20",
        "ppo.gamma=0.98",
        "ppo.lambda=0.8",
        "ppo.learning_rate=1e-3",
        "ppo.learning_rate_end=0",
        "ppo.clip_end=0",
    ]);
    let mut world = World::with_collective(Box::new(Solo::new()));
    train_control(&mut world, &config, &CartPole::default(), &run, false, Discrete).unwrap();
    let result: ControlResult = serde_json::from_slice(&std::fs::read(run.control()).unwrap()).unwrap();
    assert!(result.last.as_ref().unwrap().mean > 400.0, "{result:?}");
}
