//! How training ends before its time: told to stop, killed, or by numbers that are none.

use super::bits::{assert_same, remains, tiny, train};
use super::threads::as_ranks;
use super::{small_data, train_on};
use crate::checkpoint::Loaded;
use crate::collectives::Solo;
use crate::data::{Dataset, Scaler, walk_forward};
use crate::environments::market::Market;
use crate::evaluate::Policy;
use crate::seed::{Streams, below};
use crate::trainers::dqn::Dqn;
use crate::trainers::run::{Algorithm, Counters, Judge, train_fold};
use crate::trainers::session::Session;
use crate::trainers::start::market_task;
use crate::trainers::{Ending, MarketJudge, TrainError};
use crate::world::World;
use foxlaunch_shared::config::Config;
use foxlaunch_shared::exit;
use foxlaunch_shared::ids::Rank;
use foxlaunch_shared::run_dir::RunDir;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An algorithm with a watcher, which hears of every iteration and may say stop.
struct Watched<'a, A, F> {
    inner: &'a mut A,
    watcher: F,
}

impl<A: Algorithm, F: FnMut(Counters) -> bool> Algorithm for Watched<'_, A, F> {
    type Action = A::Action;

    fn iterate(&mut self, world: &mut World) -> Result<bool, TrainError> {
        let stop = self.inner.iterate(world)?;
        Ok((self.watcher)(self.inner.counters()) | stop)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn shown(&self) -> Vec<(String, f64)> {
        self.inner.shown()
    }

    fn measured(&mut self) -> Vec<(String, f64)> {
        self.inner.measured()
    }

    fn act(&mut self, observations: &[f32], rows: usize) -> Result<Vec<A::Action>, TrainError> {
        self.inner.act(observations, rows)
    }

    fn weights(&self) -> Result<Vec<u8>, TrainError> {
        self.inner.weights()
    }

    fn set_weights(&mut self, bytes: &[u8]) -> Result<(), TrainError> {
        self.inner.set_weights(bytes)
    }

    fn save(&mut self) -> Result<Vec<(String, Vec<u8>)>, TrainError> {
        self.inner.save()
    }

    fn restore(&mut self, loaded: &Loaded) -> Result<(), TrainError> {
        self.inner.restore(loaded)
    }
}

/// As `train_with_preloaded_data`, with a watcher.
fn watched(
    world: &mut World,
    config: &Config,
    data: &Dataset,
    run: &Path,
    resume: bool,
    watcher: &mut dyn FnMut(Counters) -> bool,
) -> Ending {
    let folds = walk_forward(data, &config.folds).unwrap();
    let mut session = Session::open(world, config, market_task(data, folds.len()), &RunDir::new(run), resume).unwrap();
    for fold in folds.iter().filter(|fold| !session.has_done(fold.index)).collect::<Vec<_>>() {
        let scaler = Scaler::fit(data, &fold.train);
        let market = Market::new(data, &fold.train, &scaler, &config.environment).unwrap();
        let streams = Streams::new(config.train.seed).part(fold.index as u64);
        let judge = MarketJudge::new(data, fold, &scaler, config, streams.clone()).unwrap();
        let mut dqn = Dqn::new(&market, config, fold.index as u32, streams, session.shards(), world).unwrap();
        let mut algorithm = Watched { inner: &mut dqn, watcher: &mut *watcher };
        if train_fold(world, &mut session, fold.index, &mut algorithm, &judge).unwrap() == Ending::Stopped {
            return Ending::Stopped;
        }
    }
    Ending::Finished
}

/// Removes the checkpoints that only an interrupted run has.
fn without_extra_checkpoints(
    mut files: std::collections::BTreeMap<String, Vec<u8>>,
    expected: &std::collections::BTreeMap<String, Vec<u8>>,
) -> std::collections::BTreeMap<String, Vec<u8>> {
    files.retain(|name, _| expected.contains_key(name));
    files
}

#[test]
fn told_to_stop_it_leaves_a_checkpoint_and_goes_on_to_the_same_end() {
    let folder = tempfile::tempdir().unwrap();
    for (every, stop_at) in [("1", 17), ("1", 3), ("4", 18)] {
        let every = format!("parallel.sync_every_n_steps={every}");
        let config = tiny(&["parallel.virtual_shards=2", &every]);
        let (whole, cut) =
            (folder.path().join(format!("{stop_at}-whole")), folder.path().join(format!("{stop_at}-cut")));
        train(2, &config, &whole, false);
        let data = small_data(240);
        let endings = as_ranks(2, |mut world| {
            let mut iterations = 0;
            // both are told at once, as a rank that was told tells all with its next block
            watched(&mut world, &config, &data, &cut, false, &mut |_| {
                iterations += 1;
                iterations == stop_at
            })
        });
        assert_eq!(endings, [Ending::Stopped, Ending::Stopped]);
        assert!(!RunDir::new(&cut).fold(0).exists());
        train(2, &config, &cut, true);
        let expected = remains(&whole);
        assert_same(&expected, &without_extra_checkpoints(remains(&cut), &expected), "stopped and resumed");
    }
}

/// Set for the child of the test below only: its run folder.
const CHILD: &str = "FOXLAUNCH_TEST_RUN";

#[test]
fn killed_at_any_moment_and_resumed_it_ends_with_the_same_bits() {
    let config = tiny(&["parallel.virtual_shards=2", "train.checkpoint_every=4"]);
    if let Some(run) = std::env::var_os(CHILD) {
        let mut world = World::with_collective(Box::new(Solo::new()));
        let mut out = std::io::stdout();
        watched(&mut world, &config, &small_data(240), Path::new(&run), true, &mut |_| {
            writeln!(out, "iteration").and_then(|()| out.flush()).unwrap();
            // goes on when told to, so that it never runs ahead of who is to kill it
            std::io::stdin().read_exact(&mut [0]).is_err()
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    train(1, &config, &whole, false);
    let mut draw = Streams::new(8).draw("kill", 0, 0);
    let test = "trainers::tests::ends::killed_at_any_moment_and_resumed_it_ends_with_the_same_bits";
    let mut kills = 0;
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, &killed)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut go, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut iterations = BufReader::new(out).lines().map(Result::unwrap).filter(|line| line.contains("iteration"));
        let life = 5 + below(&mut draw, 40);
        let lived = (0..life).take_while(|_| iterations.next().is_some() && go.write_all(b"x").is_ok()).count();
        if lived < life {
            assert!(child.wait().unwrap().success());
            break;
        }
        (0..below(&mut draw, 100_000)).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    assert!(kills >= 3, "{kills} kills");
    let expected = remains(&whole);
    assert_same(&expected, &without_extra_checkpoints(remains(&killed), &expected), "killed and resumed");
}

#[test]
fn numbers_that_are_none_are_named_with_their_place_and_their_batch_is_saved() {
    for (head, value) in [("value", "inf"), ("categorical", "NaN"), ("quantile", "inf")] {
        let folder = tempfile::tempdir().unwrap();
        let head = format!("dqn.head={head}");
        let config = tiny(&["parallel.virtual_shards=3", "environment.reward_scale=1e300", &head]);
        let data = small_data(240);
        let run = RunDir::new(folder.path());
        let errors = as_ranks(3, |mut world| train_on(&mut world, &config, &data, &run, false).unwrap_err());
        for (rank, error) in errors.iter().enumerate() {
            let TrainError::NotFinite { rank: of, fold, update, indices, .. } = error else { panic!("{error}") };
            assert_eq!((*of, *fold, *update, indices.len()), (Rank(0), 0, 1, 7));
            let said = error.to_string();
            assert!(said.starts_with(&format!("rank 0, fold 1, update 1: the loss is {value}")), "{head}: {said}");
            let expected = if rank == 0 { (exit::FAILURE, None) } else { (exit::COLLATERAL, Some(Rank(0))) };
            assert_eq!((error.exit_code(), error.blames()), expected);
            if rank == 0 {
                let file = run.not_finite(Rank(0));
                assert!(said.contains(&file.display().to_string()), "{said}");
                let saved: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
                assert_eq!(saved["indices"], serde_json::json!(indices));
                assert_eq!(saved["actions"].as_array().unwrap().len(), 7);
            }
        }
    }
}

#[test]
fn changed_data_are_refused_on_resume_and_other_settings_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let (file, run) = (folder.path().join("my.csv"), RunDir::new(folder.path().join("run")));
    // a resume of a whole run is refused as one of a part is: the checkpoint says what it was trained on
    let path = format!("data.path={}", file.display());
    let config = tiny(&["train.steps=72", &path]);
    let write = |last: f64| {
        let mut text = "time,open,high,low,close,volume\n".to_owned();
        for (t, change) in super::chance(4, 240).into_iter().enumerate() {
            let price = if t == 239 { last } else { 100.0 + 100.0 * change };
            text += &format!("{},{price},{price},{price},{price},1\n", 1_000_000_000 + 86_400 * t);
        }
        std::fs::write(&file, text).unwrap();
        crate::data::load(&config).unwrap()
    };
    let go = |config: &Config, data: &Dataset, resume: bool| {
        as_ranks(2, |mut world| train_on(&mut world, config, data, &run, resume))
    };
    let first = write(100.25);
    go(&config, &first, false).into_iter().for_each(|ended| assert_eq!(ended.unwrap(), Ending::Finished));
    let before = remains(run.path());

    let second = write(100.75);
    let errors: Vec<TrainError> = go(&config, &second, true).into_iter().map(Result::unwrap_err).collect();
    let said = errors[0].to_string();
    assert!(said.contains("the data is not what this run began with"), "{said}");
    assert!(said.starts_with(&file.display().to_string()), "{said}");
    assert_eq!((errors[0].exit_code(), errors[1].exit_code()), (exit::DATA, exit::COLLATERAL));
    assert_same(&before, &remains(run.path()), "refused");

    let other = tiny(&["train.steps=72", "dqn.gamma=0.5", &path]);
    let errors: Vec<TrainError> = go(&other, &second, true).into_iter().map(Result::unwrap_err).collect();
    assert_eq!(errors[0].exit_code(), exit::CONFIG, "{}", errors[0]);

    // the same bars again, and all is well
    go(&config, &write(100.25), true).into_iter().for_each(|ended| assert_eq!(ended.unwrap(), Ending::Finished));
}

/// A judge that fails.
struct Broken;

impl Judge for Broken {
    type Action = usize;
    type Verdict = ();

    fn validate(&self, _: &mut Policy<'_>) -> anyhow::Result<f64> {
        anyhow::bail!("the scales are broken")
    }

    fn test(&self, _: &mut Policy<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    fn file(&self, run: &RunDir, fold: usize) -> PathBuf {
        run.fold(fold)
    }

    fn recipe(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

#[test]
fn a_judge_that_fails_ends_training_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny(&[]);
    let data = small_data(240);
    let folds = walk_forward(&data, &config.folds).unwrap();
    let scaler = Scaler::fit(&data, &folds[0].train);
    let market = Market::new(&data, &folds[0].train, &scaler, &config.environment).unwrap();
    let mut world = World::with_collective(Box::new(Solo::new()));
    let mut session =
        Session::open(&mut world, &config, market_task(&data, 2), &RunDir::new(folder.path()), false).unwrap();
    let mut dqn = Dqn::new(&market, &config, 0, Streams::new(1), session.shards(), &mut world).unwrap();
    let error = train_fold(&mut world, &mut session, 0, &mut dqn, &Broken).unwrap_err();
    assert!(error.to_string().contains("the scales are broken"), "{error}");
    assert_eq!(error.exit_code(), exit::FAILURE);
}
