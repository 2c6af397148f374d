//! Training on data that the caller holds: own parts, and word of every checkpoint.

use super::bits::{remains, tiny, train};
use super::{bars, chance, small_data};
use crate::checkpoint;
use crate::collectives::Solo;
use crate::data::{Dataset, Part};
use crate::trainers::trained::Trained;
use crate::trainers::{Ending, Kept, Preloaded, train_with_preloaded_data};
use crate::world::World;
use foxlaunch_shared::exit;
use foxlaunch_shared::run_dir::RunDir;

fn alone() -> World {
    World::with_collective(Box::new(Solo::new()))
}

#[test]
fn every_checkpoint_is_told_of_when_it_is_whole_and_the_numbers_are_those_without_a_listener() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (small_data(240), tiny(&[]));
    let preloaded = Preloaded::walk_forward(&data, &config.folds).unwrap();
    let (silent, heard) = (folder.path().join("silent"), folder.path().join("heard"));
    train(1, &config, &silent, false);
    let mut all = Vec::new();
    let ending =
        train_with_preloaded_data(&mut alone(), &config, &preloaded, &RunDir::new(&heard), false, &mut |saved| {
            let loaded = checkpoint::read(saved.path)?;
            assert_eq!((loaded.point.fold as usize, loaded.point.update), (saved.fold, saved.update));
            assert_eq!(loaded.point.step, saved.step);
            all.push((saved.fold, saved.update, saved.kept, saved.score));
            Ok(())
        });
    assert_eq!(ending.unwrap(), Ending::Finished);
    super::bits::assert_same(&remains(&silent), &remains(&heard), "with a listener");
    for fold in 0..preloaded.folds().len() {
        let of = |kept| all.iter().filter(move |told| told.0 == fold && told.2 == kept);
        assert!(of(Kept::Best).count() >= 1 && of(Kept::Latest).count() >= 1, "{all:?}");
        assert_eq!(of(Kept::Last).count(), 1);
        let scores: Vec<f64> = of(Kept::Best).map(|told| told.3.unwrap()).collect();
        assert!(scores.windows(2).all(|pair| pair[0] < pair[1]), "the best gets better: {scores:?}");
        assert_eq!(of(Kept::Last).next().unwrap().3, scores.last().copied());
    }
    assert!(all.windows(2).all(|pair| (pair[0].0, pair[0].1) <= (pair[1].0, pair[1].1)), "{all:?}");
}

#[test]
fn folds_side_by_side_tell_of_theirs_too() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (small_data(240), tiny(&["parallel.work=folds"]));
    let preloaded = Preloaded::walk_forward(&data, &config.folds).unwrap();
    let mut last = Vec::new();
    let run = RunDir::new(folder.path());
    train_with_preloaded_data(&mut alone(), &config, &preloaded, &run, false, &mut |saved| {
        last.extend((saved.kept == Kept::Last).then_some(saved.fold));
        Ok(())
    })
    .unwrap();
    assert_eq!(last, [0, 1]);
}

#[test]
fn a_listener_that_wants_no_more_ends_training_in_its_words() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (small_data(240), tiny(&[]));
    let preloaded = Preloaded::walk_forward(&data, &config.folds).unwrap();
    let run = RunDir::new(folder.path().join("run"));
    let mut times = 0;
    let error = train_with_preloaded_data(&mut alone(), &config, &preloaded, &run, false, &mut |_| {
        times += 1;
        anyhow::bail!("the bucket is full")
    })
    .unwrap_err();
    assert_eq!((error.to_string().as_str(), times), ("told of a checkpoint: the bucket is full", 1));
    assert_eq!(error.exit_code(), exit::FAILURE);
}

#[test]
fn parts_of_the_callers_own_are_one_fold_and_nothing_of_it_lies_in_the_future_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (small_data(240), tiny(&[]));
    let part = |range: std::ops::Range<usize>| Part { ranges: vec![range.clone(), range] };
    let preloaded = Preloaded::split(&data, part(0..120), part(120..160), part(165..240)).unwrap();
    let run = RunDir::new(folder.path());
    train_with_preloaded_data(&mut alone(), &config, &preloaded, &run, false, &mut |_| Ok(())).unwrap();
    let result: foxlaunch_shared::evaluation::FoldResult =
        serde_json::from_slice(&std::fs::read(run.fold(0)).unwrap()).unwrap();
    assert_eq!((result.train.bars, result.validation.bars, result.test.bars), (240, 80, 150));
    assert_eq!(result.times_ns.len(), 75);
    let refused = |a, b, c| Preloaded::split(&data, a, b, c).unwrap_err().to_string();
    let late = "must begin after the end of";
    assert!(refused(part(0..120), part(119..160), part(165..240)).contains(&format!("the validation part {late}")));
    assert!(refused(part(0..120), part(120..170), part(165..240)).contains(&format!("the test part {late}")));
    assert!(refused(part(0..120), part(120..160), part(165..241)).contains("the test part do not fit"));
    assert!(refused(part(0..0), part(120..160), part(165..240)).contains("the train part has no bars"));
    let few = Part { ranges: std::iter::once(0..10).collect() };
    assert!(refused(few, part(120..160), part(165..240)).contains("the train part do not fit"));
}

#[test]
fn what_comes_after_validation_leaves_no_trace_in_what_was_learned_chosen_and_done_before() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny(&["folds.count=1"]);
    let returns = chance(5, 400);
    let data = |returns: &[f64]| Dataset::new("bars", vec![bars("A", returns)]).unwrap();
    let fold = Preloaded::walk_forward(&data(&returns), &config.folds).unwrap().folds()[0].clone();
    let border = fold.validation.ranges[0].end;
    let trained = |name: &str, returns: &[f64]| {
        let run = RunDir::new(folder.path().join(name));
        let data = data(returns);
        let preloaded = Preloaded::walk_forward(&data, &config.folds).unwrap();
        let mut weights = Vec::new();
        train_with_preloaded_data(&mut alone(), &config, &preloaded, &run, false, &mut |saved| {
            weights.push(std::fs::read(saved.path.join(checkpoint::MODEL))?);
            Ok(())
        })
        .unwrap();
        let policy = Trained::open(&run, &config, None).unwrap();
        let positions = policy.positions(&policy.market(&data).unwrap()).unwrap().remove(0);
        (weights, std::fs::read(run.metrics()).unwrap(), positions[..border - data.warm_up()].to_vec())
    };
    let mut later = returns.clone();
    later[border..].copy_from_slice(&chance(6, 400)[border..]);
    assert!(trained("one", &returns) == trained("other", &later), "something knew what came later");
    // a bar that was learned from does leave one
    let mut earlier = returns.clone();
    earlier[100] += 0.01;
    assert!(trained("one-more", &returns) != trained("earlier", &earlier));
}
