//! The readers on real files, where those are beside the repository: each is read with the count that their README gives,
//! or is refused with its place.

use super::tests::{load_path, settings};
use super::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Real files beside the repository, or a loud word that they are not there.
fn real(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(folder);
    if !path.exists() {
        eprintln!("SKIPPED: {} is not here", path.display());
        return None;
    }
    Some(path)
}

/// What the README says of each file: its records, where it says so in a column of that name.
fn promised(readme: &str) -> BTreeMap<String, u64> {
    let (mut counts, mut column, mut folder) = (BTreeMap::new(), None, String::new());
    for line in readme.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let inside = heading.split('`').nth(1).unwrap_or("");
            (column, folder) = (None, inside.to_owned());
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if cells.get(1) == Some(&"file") {
            column = cells.iter().position(|cell| *cell == "records");
            continue;
        }
        let (Some(file), Some(column)) = (cells.get(1).and_then(|c| c.strip_prefix('`')?.strip_suffix('`')), column)
        else {
            continue;
        };
        // 1344 + 325 + 2 in one archive; 12,154 (5 instruments); 17,420 x 7
        let numbers = cells[column].replace(',', "");
        let digits = |s: &str| s.trim().chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>();
        let parts: Vec<u64> = numbers.split('+').map_while(|part| digits(part).ok()).collect();
        if !parts.is_empty() {
            counts.insert(format!("{folder}{file}"), parts.iter().sum());
        }
    }
    counts
}

/// Files without a count in the README that are read, with their records.
const READ: &[(&str, u64)] = &[
    ("dbn/odd/multi-frame.ohlcv-1m.dbn.zst", 60),
    // a table under a false name, and plain bytes under one
    ("dbn/odd/not-dbn.dbn", 1),
    ("dbn/odd/zst-name-plain-bytes.dbn.zst", 60),
    ("lob/odd/missing-levels.csv", 40),
    ("lob/odd/negative-size.csv", 40),
    ("lob/odd/zero-size-ghost-level.csv", 40),
    ("ohlcv/odd/apostrophe-thousands.csv", 20),
    ("ohlcv/odd/bom-crlf.csv", 30),
    ("ohlcv/odd/comma-decimal-semicolon.csv", 20),
    ("ohlcv/odd/epoch-ms-headerless-descending.csv", 30),
    ("ohlcv/odd/gap-missing-minutes.csv", 21),
    ("ohlcv/odd/header-spaces-mixed-case.csv", 30),
    ("ohlcv/odd/leading-flat-zero-volume.csv", 30),
    ("ohlcv/odd/metatrader-split-date-time.csv", 30),
    ("ohlcv/odd/other-headers-index-column.csv", 40),
    ("ohlcv/odd/padded-columns.csv", 20),
    ("ohlcv/odd/semicolon-headerless-histdata.csv", 30),
    ("ohlcv/odd/thousands-quoted.csv", 20),
    ("ohlcv/odd/weekend-gap-ticks.csv", 9),
];

/// Files that are refused: exit code and what is said behind the name. Lines are counted from 1 with the header, so row k
/// of the README, counted from 0, is line k + 2.
const REFUSED: &[(&str, i32, &str)] = &[
    ("dbn/odd/empty.dbn", 66, ": it is empty"),
    ("dbn/odd/future-version-9.dbn", 65, ", byte 3: it is DBN version 9"),
    ("dbn/odd/truncated-in-metadata.dbn", 65, ", byte 120: the file ends inside its metadata"),
    ("dbn/odd/truncated-mid-record.ohlcv-1m.dbn", 65, ", byte 3588: the file ends 33 bytes into record 59"),
    ("dbn/odd/truncated-zstd.mbp-1.dbn.zst", 65, ", byte 45646: the compressed data breaks off"),
    ("dbn/odd/undef-price-bad-bars.ohlcv-1m.dbn.zst", 65, ", record 7 (the first is 0): ESU4: open is NaN"),
    ("dbn/odd/unsorted-duplicate.ohlcv-1m.dbn.zst", 65, ", record 11 (the first is 0): ESU4: the bar of"),
    ("dbn/odd/zero-bytes.dbn.zst", 66, ": it is empty"),
    ("lob/binance-btcusdt-depth-snap.csv", 65, ", row at line 1: it holds single changes"),
    ("lob/binance-btcusdt-depth-update.csv", 65, ", row at line 1: it holds single changes"),
    ("lob/tardis-deribit-incremental-l2.csv", 65, ", row at line 1: it holds single changes"),
    ("lob/binance-coinm-ethusd-perp-20240808.feed.gz", 65, ", row at line 1: it is a raw feed"),
    ("lob/binance-spot-btcusdt-20240808.feed.gz", 65, ", row at line 1: it is a raw feed"),
    ("lob/bybit-xrpusdt-ob500-20241201.zip", 65, ", row at line 1: 2024-12-01_XRPUSDT_ob500.data: it is a raw feed"),
    ("lob/odd/crossed-and-locked.csv", 65, ", row at line 14: crossed-and-locked: ask 100 is below bid 100.03"),
    ("lob/odd/out-of-order.csv", 65, ", row at line 12: out-of-order: the record of"),
    // real quotes before the opening, seven of which cross
    ("ohlcv/lean/equity-usa-minute-spy-20131007_quote.zip", 65, ", row at line 7: 20131007_spy_minute_quote.csv: asks"),
    ("ohlcv/odd/dst-fall-back-naive-local.csv", 65, ", row at line 11: "),
    ("ohlcv/odd/dup-timestamp-conflict.csv", 65, ", row at line 14: dup-timestamp-conflict: a second bar starts"),
    ("ohlcv/odd/empty.csv", 66, ": it is empty"),
    ("ohlcv/odd/header-only.csv", 65, ": it holds no bars"),
    ("ohlcv/odd/high-below-low.csv", 65, ", row at line 8: high-below-low: high 209.85 is below low 210.44"),
    ("ohlcv/odd/investing-style-bom-descending.csv", 65, ", row at line 5: volume is \"\""),
    ("ohlcv/odd/nan-rows.csv", 65, ", row at line 9: open is \"\""),
    ("ohlcv/odd/negative-price.csv", 65, ", row at line 6: negative-price: open is -37.63"),
    ("ohlcv/odd/non-finite-text.csv", 65, ", row at line 5: close is \"inf\""),
    ("ohlcv/odd/truncated-last-line.csv", 65, ", row at line 31: 4 fields, but the header has 6"),
    ("ohlcv/odd/unsorted.csv", 65, ", row at line 8: unsorted: the bar of 2024-03-04T14:36:00Z stands after"),
    ("ohlcv/odd/wild-mplfinance-pr451-duplicate-column.csv", 65, ", row at line 1: the header has two columns date"),
    ("ohlcv/odd/zero-ohlc-bars.csv", 65, ", row at line 15: zero-ohlc-bars: open is 0"),
    ("ohlcv/odd/zero-open-close-only.csv", 65, ", row at line 12: zero-open-close-only: open is 0"),
];

#[test]
fn every_file_is_read_with_its_count_or_refused_with_its_place() {
    let Some(root) = real("") else { return };
    let promised = promised(&std::fs::read_to_string(root.join("README.md")).unwrap());
    let config = settings(&[]);
    let (mut read, mut refused) = (0, 0);
    let mut open: Vec<PathBuf> = ["dbn", "lob", "ohlcv", "series"].iter().map(|f| root.join(f)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
            continue;
        }
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let mut reports = survey(path.to_str().unwrap(), &config);
        assert_eq!(reports.len(), 1);
        let known = REFUSED.iter().find(|(file, _, _)| *file == name).map(|(_, code, text)| (*code, *text));
        let known = known.or(match &name {
            n if n.ends_with(".dbz") => Some((65, ", byte 0: it begins as the old DBZ format does")),
            n if n.contains(".frag") => Some((65, ", byte 0: it is neither DBN with its metadata")),
            // several publishers report each option
            n if n.contains("OPRA.PILLAR/test_data.ohlcv") => Some((65, "one publisher's bars (data.publisher)")),
            _ => None,
        });
        match (reports.remove(0), known) {
            (Ok(report), None) => {
                let listed = READ.iter().find(|(file, _)| *file == name).map(|(_, records)| *records);
                let expected = listed.or(promised.get(&name).copied());
                assert_eq!(Some(report.records), expected, "{name}");
                read += 1;
            }
            (Err(error), Some((code, text))) => {
                let words = error.to_string();
                assert!(words.contains(&name) && words.contains(text) && !words.contains('\n'), "{words}");
                assert_eq!(error.exit_code(), code, "{words}");
                refused += 1;
            }
            (outcome, known) => panic!("{name}: {outcome:?}, expected {known:?}"),
        }
    }
    assert!(read > 190 && refused > 45, "{read} read, {refused} refused");
}

#[test]
fn odd_files_are_read_once_the_settings_say_how() {
    let Some(root) = real("") else { return };
    for (file, pairs, bars) in [
        ("ohlcv/odd/nan-rows.csv", &["cleaning.undefined_price=drop"][..], 27),
        ("ohlcv/odd/nan-rows.csv", &["cleaning.undefined_price=repair"], 30),
        ("ohlcv/odd/unsorted.csv", &["cleaning.disorder=repair"], 30),
        ("ohlcv/odd/dup-timestamp-conflict.csv", &["cleaning.duplicate=drop"], 30),
        ("ohlcv/odd/investing-style-bom-descending.csv", &["cleaning.bad_volume=repair"], 20),
        ("ohlcv/odd/high-below-low.csv", &["cleaning.high_below_low=repair"], 30),
        ("dbn/odd/unsorted-duplicate.ohlcv-1m.dbn.zst", &["cleaning.disorder=repair", "cleaning.duplicate=repair"], 40),
        (
            "dbn/odd/undef-price-bad-bars.ohlcv-1m.dbn.zst",
            &[
                "cleaning.undefined_price=drop",
                "cleaning.zero_price=drop",
                "cleaning.high_below_low=repair",
                "cleaning.bad_volume=repair",
            ],
            38,
        ),
        ("dbn/samples-databento-python/OPRA.PILLAR/test_data.ohlcv-1m.dbn.zst", &["cleaning.duplicate=drop"], 1),
    ] {
        let report = survey(root.join(file).to_str().unwrap(), &settings(pairs)).remove(0);
        let report = report.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(report.bars, bars, "{file} {pairs:?} {:?}", report.problems);
    }
}

#[test]
fn dbn_and_csv_of_the_same_bars_are_the_same_bits() {
    let Some(folder) = real("dbn/derived") else { return };
    let dbn = load_path(&folder.join("us-stocks-daily.ohlcv-1d.v2.dbn.zst")).unwrap();
    let csv = load_path(&folder.join("../../ohlcv/us-stocks-daily-2000-2013.csv.gz")).unwrap();
    assert_eq!(dbn.instruments(), csv.instruments());
    assert_eq!(dbn.instruments().len(), 5);
    let dbn = load_path(&folder.join("6eh4-202401.ohlcv-1m.v1.dbn.zst")).unwrap();
    let csv = load_path(&folder.join("../../ohlcv/6eh4-xcme-1m-202401.csv.gz")).unwrap();
    assert_eq!(dbn.instruments()[0].features, csv.instruments()[0].features);
}

#[test]
fn bars_made_from_orders_equal_those_that_another_program_made() {
    let Some(root) = real("dbn") else { return };
    let made = settings(&[
        &format!("data.path={}", root.join("nautilus/es-20231225.mbo.dbn.zst").display()),
        "data.bar_seconds=60",
    ]);
    let made = load(&made).unwrap();
    let given = load_path(&root.join("derived/es-20231225.ohlcv-1m.v1.dbn.zst")).unwrap();
    let (made, given) = (&made.instruments()[0].bars, &given.instruments()[0].bars);
    assert_eq!((&made.symbol, &made.start_ns), (&given.symbol, &given.start_ns));
    // the other program sorts trades by the time of the event, we by that of the receipt: a few at the edge may differ
    assert_eq!(made.volume.iter().sum::<f64>(), given.volume.iter().sum::<f64>());
    let same =
        (0..made.len()).filter(|&t| made.close[t] == given.close[t] && made.volume[t] == given.volume[t]).count();
    assert!(same + 3 >= made.len(), "{same} of {} bars are the same", made.len());
}

#[test]
fn bars_of_a_book_are_made_from_trades_or_from_quotes_as_asked() {
    let Some(root) = real("dbn/nautilus") else { return };
    let path = format!("data.path={}", root.join("es-20240701.mbp-1.dbn.zst").display());
    let of = |from: &str| load(&settings(&[&path, &format!("data.bars_from={from}")])).unwrap();
    let trades = load(&settings(&[&path.replace("mbp-1", "trades")])).unwrap();
    let (auto, quotes) = (of("auto"), of("quotes"));
    // the trades in the book's file are those of the file of trades
    assert_eq!(auto.instruments()[0].bars, trades.instruments()[0].bars);
    let (auto, quotes) = (&auto.instruments()[0].bars, &quotes.instruments()[0].bars);
    assert_eq!((&quotes.start_ns, quotes.volume.iter().sum::<f64>()), (&auto.start_ns, 0.0));
    // a trade lies within a tick of the middle of the quote
    assert!(auto.close.iter().zip(&quotes.close).all(|(a, b)| (a - b).abs() <= 0.25), "{auto:?} {quotes:?}");
}

#[test]
fn contracts_of_real_archives_follow_each_other() {
    let Some(folder) = real("ohlcv/lean") else { return };
    let path = format!("data.path={}", folder.join("future-cme-minute-es-2013*_trade.zip").display());
    let apart = load(&settings(&[&path])).unwrap();
    assert_eq!(apart.instruments().len(), 4);
    let one = load(&settings(&[&path, r#"data.continuous=["es"]"#])).unwrap();
    let [one] = one.instruments() else { panic!("one instrument") };
    // the near contract trades most, so it is held throughout
    assert_eq!((one.bars.symbol.as_str(), one.bars.len()), ("es", 1344 + 1372));
    assert_eq!(one.bars.close, apart.instruments()[0].bars.close);
}
