//! The same bits: for any number of ranks, for any interruption, for the same seed only.

use super::threads::as_ranks;
use super::{config, small_data, train_on};
use crate::checkpoint;
use crate::collectives::Solo;
use crate::environments::market::Market;
use crate::parallel::Shards;
use crate::seed::Streams;
use crate::trainers::Ending;
use crate::trainers::dqn::Dqn;
use crate::trainers::run::Algorithm;
use crate::world::World;
use foxlaunch_shared::config::Config;
use foxlaunch_shared::run_dir::RunDir;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Tiny, but with everything: two folds, episodes that end, n-step windows, target copies, a ring that wraps.
pub(super) fn tiny(more: &[&str]) -> Config {
    let few = [
        "train.steps=720",
        "train.log_every=9",
        "train.evaluate_every=20",
        "train.checkpoint_every=15",
        "train.checkpoint_keep=100",
        "folds.count=2",
        "environment.streams=6",
        "environment.episode_bars=13",
        "network.hidden=[8]",
        "dqn.train_every=12",
        "dqn.batch_size=21",
        "dqn.buffer_size=300",
        "dqn.learning_starts=60",
        "dqn.target_every=7",
        "dqn.learning_rate=1e-3",
    ];
    config(&[&few, more].concat())
}

pub(super) fn train(ranks: usize, config: &Config, run: &Path, resume: bool) {
    let data = small_data(240);
    let endings = as_ranks(ranks, |mut world| train_on(&mut world, config, &data, &RunDir::new(run), resume).unwrap());
    assert!(endings.iter().all(|e| *e == Ending::Finished));
}

/// Everything of a run that its numbers decide: records, results, and the files of every checkpoint.
pub(super) fn remains(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let dir = RunDir::new(run);
    let mut files = BTreeMap::new();
    files.insert("metrics".to_owned(), std::fs::read(dir.metrics()).unwrap());
    for fold in 0..2 {
        files.insert(format!("fold {fold}"), std::fs::read(dir.fold(fold)).unwrap());
    }
    checkpoints(&dir, &mut files);
    files
}

/// Adds the files of every checkpoint of a run.
pub(super) fn checkpoints(dir: &RunDir, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir.checkpoints()).unwrap() {
        let (path, name) = entry.map(|e| (e.path(), e.file_name().to_string_lossy().into_owned())).unwrap();
        if name != checkpoint::LATEST {
            for file in std::fs::read_dir(&path).unwrap() {
                let file = file.unwrap();
                let key = format!("{name}/{}", file.file_name().to_string_lossy());
                files.insert(key, std::fs::read(file.path()).unwrap());
            }
        }
    }
}

pub(super) fn assert_same(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>, what: &str) {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{what}");
    for (name, bytes) in a {
        assert!(*bytes == b[name], "{what}: {name} differs");
    }
}

/// Each with small heads.
fn presets() -> [Vec<&'static str>; 4] {
    ["vanilla", "rainbow", "iqn", "foxhunt"].map(|name| {
        let preset = match name {
            "vanilla" => "dqn.preset=vanilla",
            "rainbow" => "dqn.preset=rainbow",
            "iqn" => "dqn.preset=iqn",
            _ => "dqn.preset=foxhunt",
        };
        vec![preset, "dqn.atoms=7", "dqn.quantiles=3", "dqn.target_quantiles=4", "dqn.choice_quantiles=5"]
    })
}

#[test]
fn one_to_four_workers_end_with_the_same_bits() {
    for preset in presets() {
        let folder = tempfile::tempdir().unwrap();
        let config = tiny(&[&preset[..], &["parallel.virtual_shards=4"]].concat());
        let run = |ranks: usize| {
            let path = folder.path().join(format!("ranks-{ranks}"));
            train(ranks, &config, &path, false);
            remains(&path)
        };
        let one = run(1);
        assert!(one.keys().filter(|name| name.ends_with(checkpoint::MODEL)).count() > 6);
        for ranks in 2..=4 {
            assert_same(&one, &run(ranks), &format!("{preset:?}, {ranks} workers"));
        }
    }
}

#[test]
fn the_seed_decides_the_bits() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, seed: &str| {
        let path = folder.path().join(name);
        train(1, &tiny(&[seed]), &path, false);
        remains(&path)
    };
    let (first, again, other) = (run("a", "train.seed=5"), run("b", "train.seed=5"), run("c", "train.seed=6"));
    assert_same(&first, &again, "the same seed");
    assert_ne!(first["metrics"], other["metrics"]);
    let weights = |files: &BTreeMap<String, Vec<u8>>| {
        files.iter().rfind(|(name, _)| name.ends_with(checkpoint::MODEL)).map(|(_, bytes)| bytes.clone())
    };
    assert_ne!(weights(&first), weights(&other));
}

/// Copies a run as a kill would have left it when the checkpoint `name` was the latest: with later lines and half
/// a line in its records, and without later checkpoints.
pub(super) fn killed_after(run: &Path, name: &str, copy: &Path, fold: usize) {
    let (from, to) = (RunDir::new(run), RunDir::new(copy));
    std::fs::create_dir_all(to.checkpoints()).unwrap();
    for entry in std::fs::read_dir(from.checkpoints()).unwrap().map(Result::unwrap) {
        let this = entry.file_name().to_string_lossy().into_owned();
        let earlier = this.contains("update") && this.as_str() <= name;
        if earlier || this.contains("best") && this < format!("fold-{:03}", fold + 1) {
            std::fs::create_dir(to.checkpoints().join(&this)).unwrap();
            for file in std::fs::read_dir(entry.path()).unwrap().map(Result::unwrap) {
                std::fs::copy(file.path(), to.checkpoints().join(&this).join(file.file_name())).unwrap();
            }
        }
    }
    std::os::unix::fs::symlink(name, to.checkpoints().join(checkpoint::LATEST)).unwrap();
    // a fold's result is written before the checkpoint that says so, its last
    let last = |files: &Path| {
        let names = std::fs::read_dir(files).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|this| this.starts_with(&format!("fold-{fold:03}-update"))).max()
    };
    let done = fold + usize::from(last(&from.checkpoints()).as_deref() == Some(name));
    for done in 0..done {
        std::fs::create_dir_all(to.evaluation()).unwrap();
        let results = [(from.fold(done), to.fold(done)), (from.control(), to.control())];
        for (from, to) in results.iter().filter(|(from, _)| from.exists()) {
            std::fs::copy(from, to).unwrap();
        }
    }
    let mut records = std::fs::read(from.metrics()).unwrap();
    records.extend_from_slice(b"{\"fold\":1,\"upd");
    std::fs::write(to.metrics(), records).unwrap();
}

#[test]
fn a_resumed_run_ends_with_the_bits_of_an_uninterrupted_one() {
    presets().iter().for_each(|preset| resumed(preset));
}

fn resumed(preset: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    // three shards, so that a run begun on three ranks can go on on one or two
    let config = tiny(&[preset, &["parallel.virtual_shards=3"]].concat());
    let whole = folder.path().join("whole");
    train(1, &config, &whole, false);
    let expected = remains(&whole);
    let mut names: Vec<String> = expected
        .keys()
        .filter_map(|file| file.strip_suffix("/manifest.json"))
        .filter(|name| name.contains("update"))
        .map(str::to_owned)
        .collect();
    names.sort();
    assert!(names.len() >= 7, "{names:?}");
    for (i, name) in names.iter().enumerate() {
        let copy = folder.path().join(format!("after-{name}"));
        let fold: usize = name[5..8].parse().unwrap();
        killed_after(&whole, name, &copy, fold);
        train(1 + i % 3, &config, &copy, true);
        assert_same(&expected, &remains(&copy), &format!("resumed after {name}"));
    }
}

#[test]
fn a_resume_keeps_the_shards_that_the_run_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny(&["parallel.virtual_shards=0"]);
    let whole = folder.path().join("whole");
    train(2, &config, &whole, false);
    let copy = folder.path().join("copy");
    killed_after(&whole, "fold-000-update-000000030", &copy, 0);
    train(1, &config, &copy, true);
    assert_same(&remains(&whole), &remains(&copy), "begun by two, ended by one");
}

#[test]
fn other_settings_and_too_many_ranks_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny(&["parallel.virtual_shards=2"]);
    train(1, &config, folder.path(), false);
    let data = small_data(240);
    let run = RunDir::new(folder.path());
    let mut world = World::with_collective(Box::new(Solo::new()));
    let other = tiny(&["parallel.virtual_shards=2", "dqn.gamma=0.5"]);
    let error = train_on(&mut world, &other, &data, &run, true).unwrap_err();
    assert!(error.to_string().contains("other settings"), "{error}");
    assert_eq!(error.exit_code(), foxlaunch_shared::exit::CONFIG);
    let errors = as_ranks(3, |mut world| {
        let fresh = RunDir::new(folder.path().join("fresh"));
        train_on(&mut world, &config, &data, &fresh, false).unwrap_err()
    });
    assert!(errors.iter().all(|e| e.exit_code() == foxlaunch_shared::exit::CONFIG), "{errors:?}");
    let few = tiny(&["dqn.batch_size=2"]);
    let errors = as_ranks(3, |mut world| {
        let fresh = RunDir::new(folder.path().join("fresh"));
        train_on(&mut world, &few, &data, &fresh, false).unwrap_err().to_string()
    });
    assert!(errors.iter().all(|e| e.contains("batches of 2 rows")), "{errors:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn ranks_hold_the_same_bits_at_every_sync_point(every in 1u64..6, ranks in 2usize..4, seed in 0u64..1000) {
        let (every, seed) = (format!("parallel.sync_every_n_steps={every}"), format!("train.seed={seed}"));
        let config = tiny(&["parallel.virtual_shards=4", &every, &seed, "train.steps=480"]);
        let data = small_data(240);
        let folds = crate::data::walk_forward(&data, &config.folds).unwrap();
        let scaler = crate::data::Scaler::fit(&data, &folds[0].train);
        let market = Market::new(&data, &folds[0].train, &scaler, &config.environment).unwrap();
        let digests = as_ranks(ranks, |mut world| {
            let shards = Shards::new(4, world.world_size(), world.rank()).unwrap();
            let streams = Streams::new(config.train.seed);
            let mut dqn = Dqn::new(&market, &config, 0, streams, shards, &mut world).unwrap();
            let mut digests = Vec::new();
            while !dqn.counters().done {
                dqn.iterate(&mut world).unwrap();
                if dqn.counters().synced {
                    let model = dqn.weights().unwrap();
                    digests.push((dqn.counters().updates, model, dqn.save().unwrap()));
                }
            }
            digests
        });
        let synced = digests[0].iter().filter(|(updates, _, _)| *updates > 0).count();
        let steps = digests[0].last().unwrap().0;
        prop_assert_eq!(synced as u64, steps.div_ceil(config.parallel.sync_every_n_steps));
        for (i, other) in digests.iter().enumerate().skip(1) {
            prop_assert!(digests[0] == *other, "rank {} differs at a sync point", i);
        }
    }
}
