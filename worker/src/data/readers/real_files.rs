//! The readers on real files, where those are beside the repository.

use super::tests::load_path;
use foxlaunch_shared::exit;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Real files beside the repository, or a loud word that they are not there.
fn real(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(folder);
    if !path.exists() {
        eprintln!("SKIPPED: {} is not here", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn real_dbn_files_read_with_all_their_records() {
    let Some(folder) = real("dbn/derived") else { return };
    let mut seen = 0;
    for (file, records, instruments) in [
        ("6eh4-202401.ohlcv-1m.v1.dbn.zst", 29_996, 1),
        ("6eh4-202401.ohlcv-1m.v2.dbn.zst", 29_996, 1),
        ("6eh4-202401.ohlcv-1m.v3.dbn.zst", 29_996, 1),
        ("6eh4-202401.ohlcv-1m.v3.dbn", 29_996, 1),
        ("us-stocks-daily.ohlcv-1d.v2.dbn.zst", 12_154, 5),
        ("es-20231225.ohlcv-1s.v1.dbn.zst", 988, 1),
        ("es-20231225.ohlcv-1m.v1.dbn.zst", 60, 1),
    ] {
        let data = load_path(&folder.join(file)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(data.instruments().iter().map(|i| i.bars.len()).sum::<usize>(), records, "{file}");
        assert_eq!(data.instruments().len(), instruments, "{file}");
        seen += 1;
    }
    let bars_in = std::fs::read_dir(&folder)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().contains("ohlcv"));
    assert_eq!(bars_in.count(), seen, "a file of the folder is missing in this list");
}

#[test]
fn dbn_and_csv_of_the_same_bars_are_the_same_bits() {
    let Some(folder) = real("dbn/derived") else { return };
    let dbn = load_path(&folder.join("us-stocks-daily.ohlcv-1d.v2.dbn.zst")).unwrap();
    let csv = load_path(&folder.join("../../ohlcv/us-stocks-daily-2000-2013.csv.gz")).unwrap();
    assert_eq!(dbn.instruments(), csv.instruments());
    let dbn = load_path(&folder.join("6eh4-202401.ohlcv-1m.v1.dbn.zst")).unwrap();
    let csv = load_path(&folder.join("../../ohlcv/6eh4-xcme-1m-202401.csv.gz")).unwrap();
    assert_eq!(dbn.instruments()[0].features, csv.instruments()[0].features);
}

#[test]
fn real_tables_are_read() {
    let Some(folder) = real("ohlcv") else { return };
    for (file, bars) in [
        ("6eh4-xcme-1m-202401.csv.gz", 29_996),
        ("us-stocks-daily-2000-2013.csv.gz", 12_154),
        ("eurusd-1h-ask-2017.csv", 6_225),
        ("sp500-daily-1999-2018.csv.gz", 5_031),
        ("btcusd-daily-coinbase-cryptodatadownload.csv", 1_770),
        ("btc-perp-1m-202201.csv", 45_031),
        ("usdjpy-1m-ask-201302.csv", 28_761),
        ("usdjpy-1m-bid-201302.csv", 28_761),
    ] {
        let data = load_path(&folder.join(file)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(data.instruments().iter().map(|i| i.bars.len()).sum::<usize>(), bars, "{file}");
    }
}

/// Every file of `folder`: `Ok` with its bars, or the message and exit code.
fn outcomes(folder: &Path) -> BTreeMap<String, Result<usize, (i32, String)>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let outcome = |path: PathBuf| {
        let read = load_path(&path).map(|d| d.instruments().iter().map(|i| i.bars.len()).sum());
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let read = read.map_err(|e| {
            let text = e.to_string();
            assert!(text.contains(&name) && !text.contains('\n'), "{text}");
            (e.exit_code(), text)
        });
        (name, read)
    };
    entries.map(outcome).collect()
}

fn check_outcomes(folder: &Path, readable: &[(&str, usize)], refused: &[(&str, i32, &str)]) {
    let mut outcomes = outcomes(folder);
    for (name, bars) in readable {
        assert_eq!(outcomes.remove(*name), Some(Ok(*bars)), "{name}");
    }
    for (name, code, text) in refused {
        match outcomes.remove(*name) {
            Some(Err((got, message))) => assert!(got == *code && message.contains(text), "{got}: {message}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(outcomes.is_empty(), "not in this list: {outcomes:#?}");
}

#[test]
fn odd_tables_are_read_or_refused_with_their_row() {
    let Some(folder) = real("ohlcv/odd") else { return };
    let readable = [
        ("bom-crlf.csv", 30),
        ("gap-missing-minutes.csv", 21),
        ("header-spaces-mixed-case.csv", 30),
        ("jpyusd-daily-descending-scientific.csv", 519),
        ("leading-flat-zero-volume.csv", 30),
        ("other-headers-index-column.csv", 40),
        ("padded-columns.csv", 20),
        ("sp500-1m-201911-zero-volume.csv", 1563),
        ("sp500-1m-20191106-nan-columns.csv", 391),
        ("wild-mplfinance-issue101-descending.csv", 100),
        ("wild-mplfinance-issue142-tiny-prices.csv", 41),
    ];
    // lines are counted from 1 with the header, so row k of the folder's README, counted from 0, is line k + 2
    let refused = [
        ("apostrophe-thousands.csv", 65, "line 2: open is \"61'234.50\""),
        ("comma-decimal-semicolon.csv", 65, "line 1: no line names the columns"),
        ("dst-fall-back-naive-local.csv", 65, "line 11: "),
        ("dup-timestamp-conflict.csv", 65, "line 14: dup-timestamp-conflict: a second bar starts"),
        ("empty.csv", 66, "it is empty"),
        ("epoch-ms-headerless-descending.csv", 65, "line 1: no line names the columns"),
        ("header-only.csv", 65, "it holds no bars"),
        ("high-below-low.csv", 65, "line 8: high-below-low: high 209.85 is below low 210.44"),
        ("investing-style-bom-descending.csv", 65, "line 1: the header has no column close"),
        ("metatrader-split-date-time.csv", 65, "line 1: no line names the columns"),
        ("nan-rows.csv", 65, "line 9: open is \"\""),
        ("negative-price.csv", 65, "line 6: negative-price: open is -37.63"),
        ("non-finite-text.csv", 65, "line 5: close is \"inf\""),
        ("semicolon-headerless-histdata.csv", 65, "line 1: no line names the columns"),
        ("thousands-quoted.csv", 65, "line 2: open is \"61,234.50\""),
        ("truncated-last-line.csv", 65, "line 31: 4 fields, but the header has 6"),
        ("unsorted.csv", 65, "line 8: unsorted: the bar of 2024-03-04T14:36:00Z stands after"),
        ("weekend-gap-ticks.csv", 65, "line 1: the header has no column open, high, low, close"),
        ("wild-mplfinance-issue568-flat-bars.csv", 65, "line 2: \"3-Jan-22\""),
        ("wild-mplfinance-pr451-duplicate-column.csv", 65, "line 1: the header has two columns date"),
        ("zero-ohlc-bars.csv", 65, "line 15: zero-ohlc-bars: open is 0"),
        ("zero-open-close-only.csv", 65, "line 12: zero-open-close-only: open is 0"),
    ];
    check_outcomes(&folder, &readable, &refused);
}

#[test]
fn odd_dbn_files_are_read_or_refused_with_their_place() {
    let Some(folder) = real("dbn/odd") else { return };
    let readable = [
        ("multi-frame.ohlcv-1m.dbn.zst", 60),
        // a table under a false name, and plain bytes under one
        ("not-dbn.dbn", 1),
        ("zst-name-plain-bytes.dbn.zst", 60),
    ];
    let refused = [
        ("empty.dbn", 66, "it is empty"),
        ("future-version-9.dbn", 65, "byte 3: it is DBN version 9"),
        ("truncated-in-metadata.dbn", 65, "byte 120: the file ends inside its metadata"),
        ("truncated-mid-record.ohlcv-1m.dbn", 65, "byte 3588: the file ends 33 bytes into record 59"),
        ("truncated-zstd.mbp-1.dbn.zst", 65, "it holds mbp-1 records, not bars"),
        ("undef-price-bad-bars.ohlcv-1m.dbn.zst", 65, "record 7 (the first is 0): a price is undefined"),
        ("unsorted-duplicate.ohlcv-1m.dbn.zst", 65, "record 11 (the first is 0): ESU4: the bar of"),
        ("zero-bytes.dbn.zst", 66, "it is empty"),
    ];
    check_outcomes(&folder, &readable, &refused);
}

#[test]
fn samples_of_all_schemas_are_read_or_refused() {
    let Some(folder) = real("dbn/samples-dbn-repo") else { return };
    for (name, outcome) in outcomes(&folder) {
        match outcome {
            Ok(bars) => assert!(name.contains("ohlcv") && bars == 2, "{name}: {bars}"),
            Err((code, text)) => {
                assert_eq!(code, exit::DATA, "{text}");
                let with_bars = name.contains("ohlcv") && !name.ends_with(".dbz") && !name.contains("ohlcv-1d");
                assert!(!with_bars, "{text}");
            }
        }
    }
}

#[test]
fn real_tables_without_the_columns_of_bars_are_refused() {
    let Some(folder) = real("ohlcv") else { return };
    for (file, expected) in [
        ("adabtc-1m-binance-kline-headerless.csv", "line 1: no line names the columns"),
        ("btc-eth-ltc-daily-wide.csv", "line 1: no line names the columns"),
        ("usdjpy-ticks-truefx.csv", "line 1: the header has no column open, high, low, close"),
    ] {
        let error = load_path(&folder.join(file)).unwrap_err();
        assert_eq!(error.exit_code(), exit::DATA);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn samples_of_all_venues_are_read_or_refused() {
    let Some(folder) = real("dbn/samples-databento-python") else { return };
    for venue in std::fs::read_dir(folder).unwrap() {
        let venue = venue.unwrap().path();
        for (name, outcome) in outcomes(&venue) {
            let expected = match name.as_str() {
                // several publishers report each option
                bars if bars.contains("ohlcv") && venue.ends_with("OPRA.PILLAR") => Err("one publisher's"),
                day if day.contains("ohlcv-1d") => Ok(1),
                bars if bars.contains("ohlcv") => Ok(4),
                _ => Err("records, not bars"),
            };
            match (outcome, expected) {
                (Ok(bars), Ok(expected)) => assert_eq!(bars, expected, "{venue:?} {name}"),
                (Err((_, message)), Err(expected)) => assert!(message.contains(expected), "{message}"),
                (outcome, _) => panic!("{venue:?} {name}: {outcome:?}"),
            }
        }
    }
}
