use super::*;
use crate::data::Bars;
use proptest::prelude::*;

fn dataset(starts: &[Vec<i64>]) -> Dataset {
    let bars: Vec<Bars> = starts
        .iter()
        .enumerate()
        .map(|(i, starts)| {
            let ones = vec![1.0; starts.len()];
            Bars {
                symbol: format!("I{i}"),
                interval_ns: 1,
                start_ns: starts.clone(),
                open: ones.clone(),
                high: ones.clone(),
                low: ones.clone(),
                close: ones.clone(),
                volume: ones,
            }
        })
        .collect();
    let matrices = starts.iter().map(|s| vec![0.0; s.len()]).collect();
    Dataset::with_features(bars, vec!["f".to_owned()], matrices).unwrap()
}

fn config(count: usize, test_fraction: f64, embargo_bars: usize) -> FoldsConfig {
    let scheme = "expanding".to_owned();
    FoldsConfig { count, scheme, test_fraction, validation_fraction: 0.2, embargo_bars, label_bars: 0 }
}

#[test]
fn rolling_folds_learn_from_as_much_as_the_first_and_labels_are_purged() {
    let rolling = |label_bars| FoldsConfig { scheme: "rolling".to_owned(), label_bars, ..config(2, 0.4, 1) };
    let data = dataset(&[(0..100).collect()]);
    let ranges = |f: &Fold| [&f.train, &f.validation, &f.test].map(|p| p.ranges[0].clone());
    let folds = walk_forward(&data, &rolling(0)).unwrap();
    assert_eq!(ranges(&folds[0]), [0..47, 48..59, 60..80]);
    assert_eq!(ranges(&folds[1]), [20..67, 68..79, 80..100]);
    let folds = walk_forward(&data, &rolling(3)).unwrap();
    assert_eq!(ranges(&folds[1]), [20..64, 68..76, 80..100]);
    // a label of the last bar that is learned from ends before the border, as the definition of a purge has it
    let purged = purged(100, 80..100, 3, 0).train_walk_forward;
    assert!(purged.last().is_some_and(|last| *last == 76), "{purged:?}");
}

#[test]
fn each_instrument_keeps_its_own_calendar() {
    // one trades every day, the other every third, and none on the border itself
    let data = dataset(&[(0..100).collect(), (0..100).step_by(3).map(|t| t + 1).collect()]);
    for scheme in ["expanding", "rolling"] {
        let folds = walk_forward(&data, &FoldsConfig { scheme: scheme.to_owned(), ..config(2, 0.4, 2) }).unwrap();
        for fold in &folds {
            for (i, instrument) in data.instruments().iter().enumerate() {
                let time = |t: usize| instrument.bars.start_ns[t];
                let (train, validation, test) =
                    (&fold.train.ranges[i], &fold.validation.ranges[i], &fold.test.ranges[i]);
                // two own bars lie between the parts
                assert_eq!(train.end + 2, validation.start, "{scheme}");
                assert_eq!(validation.end + 2, test.start, "{scheme}");
                assert!(time(train.end - 1) < time(validation.start) && time(validation.end - 1) < time(test.start));
            }
        }
        assert_eq!(folds[0].test.ranges[1].end, folds[1].test.ranges[1].start);
    }
}

#[test]
fn folds_of_one_instrument_by_hand() {
    let folds = walk_forward(&dataset(&[(0..100).collect()]), &config(2, 0.4, 1)).unwrap();
    let ranges = |f: &Fold| [&f.train, &f.validation, &f.test].map(|p| p.ranges[0].clone());
    assert_eq!(ranges(&folds[0]), [0..47, 48..59, 60..80]);
    assert_eq!(ranges(&folds[1]), [0..63, 64..79, 80..100]);
}

#[test]
fn purged_rows_equal_the_reference_vectors() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases/vectors.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("SKIPPED: {path} is not here");
        return;
    };
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cases: Vec<_> =
        document["cases"]["finance"].as_array().unwrap().iter().filter(|c| c["kind"] == "purge").collect();
    assert!(!cases.is_empty());
    for case in cases {
        let number = |key: &str| case["input"][key].as_u64().unwrap() as usize;
        let test = number("test_start")..number("test_end");
        let purged = purged(number("n"), test, number("label_horizon"), number("embargo"));
        let rows = |key: &str| -> Vec<usize> { serde_json::from_value(case["output"][key].clone()).unwrap() };
        assert_eq!(purged.train, rows("train"), "{case}");
        assert_eq!(purged.train_walk_forward, rows("train_walk_forward"), "{case}");
    }
}

#[test]
fn too_few_bars_are_refused_in_words() {
    for (bars, count, embargo) in [(0, 1, 0), (5, 3, 0), (100, 2, 30), (30, 3, 4)] {
        let error = walk_forward(&dataset(&[(0..bars).collect()]), &config(count, 0.4, embargo)).unwrap_err();
        assert_eq!(error.exit_code(), foxlaunch_shared::exit::DATA);
        assert!(error.to_string().contains("fewer folds"), "{error}");
    }
}

#[test]
fn the_number_of_bars_that_is_asked_for_is_enough_and_hardly_more() {
    for (count, fraction, embargo) in [(1, 0.4, 0), (3, 0.3, 0), (3, 0.4, 5), (2, 0.5, 30), (5, 0.6, 1)] {
        let config = config(count, fraction, embargo);
        let split = |bars: i64| walk_forward(&dataset(&[(0..bars).collect()]), &config);
        let error = split(5).unwrap_err().to_string();
        let needed: i64 = error.split_once("need about ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        assert!(split(needed).is_ok() && split(needed - 1).is_err(), "{error}");
    }
}

#[test]
fn a_person_is_told_of_the_warm_up_and_counts_folds_from_1() {
    let bars = dataset(&[(0..70).collect()]).instruments()[0].bars.clone();
    let data = Dataset::new("my.csv", vec![bars]).unwrap();
    let error = walk_forward(&data, &config(3, 0.4, 0)).unwrap_err().to_string();
    let warm_up = crate::data::features::WARM_UP;
    for word in [format!("{} usable bars", 70 - warm_up), format!("need {warm_up} bars before")] {
        assert!(error.contains(&word), "{word}: {error}");
    }
    let error = walk_forward(&dataset(&[(0..100).collect()]), &config(2, 0.4, 30)).unwrap_err().to_string();
    assert!(error.contains("fold 1 of 2"), "{error}");
}

proptest! {
    #[test]
    fn parts_follow_each_other_in_time_and_test_parts_cover_the_end(
        instruments in prop::collection::vec(prop::collection::btree_set(0..2000i64, 60..200), 1..4),
        count in 1..5usize,
        embargo in 0..4usize,
        fraction in 0.3..0.6f64,
    ) {
        let data = dataset(&instruments.iter().map(|s| s.iter().copied().collect()).collect::<Vec<_>>());
        let folds = match walk_forward(&data, &config(count, fraction, embargo)) {
            Ok(folds) => folds,
            Err(e) => {
                let too_short = matches!(e, DataError::TooShort { .. });
                prop_assert!(too_short, "{e}");
                return Ok(());
            }
        };
        prop_assert_eq!(folds.len(), count);
        for (i, instrument) in data.instruments().iter().enumerate() {
            let mut next = folds[0].test.ranges[i].start;
            for fold in &folds {
                let parts = [&fold.train, &fold.validation, &fold.test];
                let [train, validation, test] = parts.map(|p| p.ranges[i].clone());
                prop_assert_eq!(train.start, 0);
                prop_assert!(train.end + embargo <= validation.start || train.is_empty());
                prop_assert!(validation.end + embargo <= test.start || validation.is_empty());
                // test parts are consecutive up to the last bar
                prop_assert_eq!(test.start, next);
                next = test.end;
            }
            prop_assert_eq!(next, instrument.bars.len());
        }
        for fold in &folds {
            let [train, validation, test] = [&fold.train, &fold.validation, &fold.test].map(|p| p.span(&data));
            // borders are the same moment for all instruments
            prop_assert!(train.last_ns < validation.first_ns && validation.last_ns < test.first_ns);
        }
        let tested: usize = folds.iter().map(|f| f.test.bars()).sum();
        let total: usize = data.instruments().iter().map(|i| i.bars.len()).sum();
        // moments shared by several instruments are not torn apart
        prop_assert!((tested as f64 - total as f64 * fraction).abs() <= 4.0);
    }
}
