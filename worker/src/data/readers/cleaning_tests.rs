//! Each kind of problem under each policy, and what tables may look like.

use super::tests::settings;
use super::*;
use crate::data::Bars;
use foxlaunch_shared::config::Problem;
use std::io::Write;

const HEADER: &str = "time,open,high,low,close,volume\n";
const FIRST: &str = "2024-03-04 14:30,10,12,9,11,5\n2024-03-04 14:31,11,13,10,12,6\n";
const LAST: &str = "2024-03-04 14:33,12,14,11,13,8\n";

/// The bars of a table under settings, and how many problems of a kind there were.
fn bars_of(name: &str, bytes: &[u8], pairs: &[&str], problem: Problem) -> Result<(Vec<Bars>, u64), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let path = format!("data.path={}", path.display());
    let data = load(&settings(&[&[path.as_str()], pairs].concat())).map_err(|e| e.to_string())?;
    Ok((data.instruments().iter().map(|i| i.bars.clone()).collect(), data.problems().of(problem)))
}

fn one(row: &str, pairs: &[&str], problem: Problem) -> Result<(Bars, u64), String> {
    let text = format!("{HEADER}{FIRST}{row}\n{LAST}");
    bars_of("x.csv", text.as_bytes(), pairs, problem).map(|(mut bars, count)| (bars.remove(0), count))
}

#[test]
fn every_problem_is_refused_dropped_or_repaired_as_the_settings_say() {
    use Problem::*;
    for (problem, row, repaired) in [
        (Duplicate, "2024-03-04 14:31,20,22,19,21,9", Some((3, [20.0, 22.0, 19.0, 21.0], 9.0))),
        (UndefinedPrice, "2024-03-04 14:32,11,,10,12,6", Some((4, [12.0; 4], 0.0))),
        (UndefinedPrice, "2024-03-04 14:32,11,inf,10,12,6", Some((4, [12.0; 4], 0.0))),
        (ZeroPrice, "2024-03-04 14:32,0,0,0,0,6", Some((4, [12.0; 4], 0.0))),
        (NegativePrice, "2024-03-04 14:32,-1,1,-2,1,6", Some((4, [12.0; 4], 0.0))),
        (HighBelowLow, "2024-03-04 14:32,11,10,13,12,6", Some((4, [11.0, 13.0, 10.0, 12.0], 6.0))),
        (HighBelowLow, "2024-03-04 14:32,11,11.5,10,12,6", Some((4, [11.0, 12.0, 10.0, 12.0], 6.0))),
        (BadVolume, "2024-03-04 14:32,11,13,10,12,-", Some((4, [11.0, 13.0, 10.0, 12.0], 0.0))),
        (BadVolume, "2024-03-04 14:32,11,13,10,12,-6", Some((4, [11.0, 13.0, 10.0, 12.0], 0.0))),
        (Unreadable, "2024-03-04 14:32,11,13", None),
        (Unreadable, "tomorrow,11,13,10,12,6", None),
    ] {
        let refused = one(row, &[], problem).unwrap_err();
        let advice = format!(", or set cleaning.{}", problem.name());
        assert!(refused.contains("x.csv, row at line 4: ") && refused.contains(&advice), "{row}: {refused}");
        let set = |policy: &str| format!("cleaning.{}={policy}", problem.name());
        let (bars, count) = one(row, &[&set("drop")], problem).unwrap();
        assert_eq!((bars.len(), count, bars.close[1]), (3, 1, 12.0), "{row}");
        let Some((len, prices, volume)) = repaired else { continue };
        let (bars, count) = one(row, &[&set("repair")], problem).unwrap();
        let t = len - 2;
        let got = [bars.open[t], bars.high[t], bars.low[t], bars.close[t]];
        assert_eq!((bars.len(), count, got, bars.volume[t]), (len, 1, prices, volume), "{row}");
    }
}

#[test]
fn disorder_is_sorted_or_left_out() {
    let row = "2024-03-04 14:29,9,9,9,9,1";
    assert!(one(row, &[], Problem::Disorder).unwrap_err().contains("sort the file by time"));
    let (bars, count) = one(row, &["cleaning.disorder=drop"], Problem::Disorder).unwrap();
    assert_eq!((bars.close, count), (vec![11.0, 12.0, 13.0], 1));
    let (bars, count) = one(row, &["cleaning.disorder=repair"], Problem::Disorder).unwrap();
    assert_eq!((bars.close.clone(), count), (vec![9.0, 11.0, 12.0, 13.0], 1));
    assert!(bars.start_ns.is_sorted());
    let double = "2024-03-04 14:29,9,9,9,9,1\n2024-03-04 14:30,7,7,7,7,1";
    let settings = ["cleaning.disorder=repair", "cleaning.duplicate=repair"];
    let (bars, count) = one(double, &settings, Problem::Duplicate).unwrap();
    assert_eq!((bars.close, count), (vec![9.0, 7.0, 12.0, 13.0], 1));
}

#[test]
fn gaps_are_counted_refused_or_filled_from_the_past() {
    let rows = format!("{HEADER}{FIRST}{LAST}2024-03-04 14:59,1,2,1,2,1\n2024-03-04 15:00,1,2,1,2,1\n");
    let of = |pairs: &[&str]| bars_of("x.csv", rows.as_bytes(), pairs, Problem::Gap).map(|(mut b, n)| (b.remove(0), n));
    let (bars, count) = of(&[]).unwrap();
    assert_eq!((bars.len(), count), (5, 2));
    assert!(of(&["cleaning.gap=error"]).unwrap_err().contains("1 intervals before the bar of 2024-03-04T14:33:00Z"));
    let (bars, count) = of(&["cleaning.gap=repair"]).unwrap();
    // the longer one stays
    assert_eq!((bars.len(), count), (6, 2));
    assert_eq!((bars.open[2], bars.low[2], bars.close[2], bars.volume[2]), (12.0, 12.0, 12.0, 0.0));
    assert_eq!(bars.start_ns[2] - bars.start_ns[1], 60_000_000_000);
}

#[test]
fn quotes_that_cross_and_trades_that_cannot_be_have_policies_too() {
    let quotes = b"timestamp,bid,ask\n2024-03-04 14:30:01,10,12\n2024-03-04 14:30:02,13,12\n2024-03-04 14:31:00,10,\n";
    let of = |pairs: &[&str], problem| bars_of("q.csv", quotes, pairs, problem).map(|(mut b, n)| (b.remove(0), n));
    assert!(of(&[], Problem::Crossed).unwrap_err().contains("ask 12 is below bid 13"));
    let (bars, crossed) = of(&["cleaning.crossed=drop"], Problem::Crossed).unwrap();
    assert_eq!((bars.close, bars.interval_ns, crossed), (vec![11.0], 60_000_000_000, 1));
    let (bars, one_sided) = of(&["cleaning.crossed=repair"], Problem::OneSided).unwrap();
    assert_eq!((bars.high, bars.close, one_sided), (vec![12.5], vec![12.5], 1));
    let trades = b"time,price,size\n2024-03-04 14:30:01,10,1\n2024-03-04 14:30:59,12,2\n2024-03-04 14:30:30,9,3\n2024-03-04 14:31:00,0,1\n2024-03-04 14:32:00,11,1\n";
    let settings = ["cleaning.disorder=repair", "cleaning.zero_price=drop"];
    let (bars, zeros) = bars_of("t.csv", trades, &settings, Problem::ZeroPrice).unwrap();
    assert_eq!((bars[0].open.clone(), bars[0].low.clone(), zeros), (vec![10.0, 11.0], vec![9.0, 11.0], 1));
    assert_eq!(bars[0].volume, [6.0, 1.0]);
    let (bars, _) =
        bars_of("t.csv", trades, &[&settings[..], &["data.bar_seconds=3600"]].concat(), Problem::Gap).unwrap();
    assert_eq!((bars[0].len(), bars[0].close[0]), (1, 11.0));
}

#[test]
fn columns_can_be_named_numbered_or_stand_side_by_side() {
    let named = b"Stamp,Erster,Hoch,Tief,Letzter\n2024-03-04,1,2,1,2\n";
    let of =
        |bytes: &[u8], columns: &str| bars_of("x.csv", bytes, &[columns], Problem::Gap).map(|(mut b, _)| b.remove(0));
    let columns = r#"data.columns=["time=Stamp","open=Erster","close=Letzter"]"#;
    assert_eq!(of(named, columns).unwrap().close, [2.0]);
    let numbered = r#"data.columns=["time=#1","open=#2","close=#5"]"#;
    assert_eq!(of(named, numbered).unwrap().close, [2.0]);
    let missing = r#"data.columns=["time=When","open=Erster","close=Letzter"]"#;
    assert!(of(named, missing).unwrap_err().contains("there is no column When, which data.columns says is the time"));
    let wide = b",B:open,B:high,B:low,B:close,A:open,A:high,A:low,A:close\n2024-03-04,1,2,1,2,,,,\n2024-03-05,1,2,1,2,5,6,5,6\n";
    let (bars, _) = bars_of("x.csv", wide, &[], Problem::Gap).unwrap();
    assert_eq!(bars.iter().map(|b| (b.symbol.as_str(), b.len())).collect::<Vec<_>>(), [("A", 1), ("B", 2)]);
}

#[test]
fn a_zone_moves_moments_without_one() {
    let text = format!("{HEADER}{FIRST}");
    let start = |zone: &str| bars_of("x.csv", text.as_bytes(), &[zone], Problem::Gap).unwrap().0[0].start_ns[0];
    assert_eq!(start("data.zone=-05:00") - start("data.zone=+00:00"), 5 * 3_600_000_000_000);
}

#[test]
fn a_place_moves_its_clocks_and_an_hour_that_is_there_twice_is_what_the_settings_say() {
    // clocks were put back at 2 on 2023-11-05
    let clocks = ["00:50", "01:20", "01:50", "01:20", "01:50", "02:20"];
    let table = |clocks: &[&str]| {
        let row = |clock: &&str| format!("2023-11-05 {clock},1,2,1,2,1\n");
        format!("time,open,high,low,close,volume\n{}", clocks.iter().map(row).collect::<String>())
    };
    let place = "data.zone=America/New_York";
    let of = |text: &str, more: &[&str]| {
        bars_of("x.csv", text.as_bytes(), &[&[place], more].concat(), Problem::Gap)
            .map(|(bars, _)| bars[0].start_ns.clone())
    };
    let refused = of(&table(&clocks), &[]).unwrap_err();
    assert!(refused.contains("x.csv, row at line 3: ") && refused.contains("twice"), "{refused}");
    let rising: Vec<i64> = (0..6).map(|k| 1_699_159_800_000_000_000 + k * 1_800_000_000_000).collect();
    assert_eq!(of(&table(&clocks), &["data.repeated_hour=order"]).unwrap(), rising);
    let mut backwards = clocks;
    backwards.reverse();
    // which way rows run is known from the second one on
    let falling = format!("{}2023-11-05 00:20,1,2,1,2,1\n", table(&[&["02:50"], &backwards[..]].concat()));
    let with_ends: Vec<i64> = (-1..7).map(|k| rising[0] + k * 1_800_000_000_000).collect();
    assert_eq!(of(&falling, &["data.repeated_hour=order"]).unwrap(), with_ends);
    let first = of(&table(&clocks[..3]), &["data.repeated_hour=first"]).unwrap();
    assert_eq!(first, rising[..3]);
    let second = of(&table(&clocks[3..]), &["data.repeated_hour=second"]).unwrap();
    assert_eq!(second, rising[3..]);
    let skipped = of("time,open,high,low,close,volume\n2024-03-10 02:30,1,2,1,2,1\n", &[]).unwrap_err();
    assert!(skipped.contains("line 2: ") && skipped.contains("skipped when clocks were put forward"), "{skipped}");
}

#[test]
fn daily_bars_of_a_place_have_no_holes_where_its_days_are_shorter() {
    let days = |month: u32, days: std::ops::RangeInclusive<u32>| {
        days.map(|day| format!("2024-{month:02}-{day:02},1,2,1,2,1\n")).collect::<String>()
    };
    let text = format!("{HEADER}{}", days(3, 1..=31));
    for place in ["America/New_York", "Asia/Tokyo", "Europe/Berlin"] {
        let zone = format!("data.zone={place}");
        let (bars, holes) = bars_of("x.csv", text.as_bytes(), &[&zone], Problem::Gap).unwrap();
        assert_eq!((bars[0].len(), bars[0].interval_ns, holes), (31, 86_400_000_000_000, 0), "{place}");
    }
}

#[test]
fn own_columns_are_features_and_must_be_there() {
    let text = "time,open,high,low,close,mood,luck\n2024-03-04,1,2,1,2,0.5,7\n2024-03-05,1,2,1,2,0.25,8\n2024-03-06,1,2,1,2,0,9\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    std::fs::write(&path, text).unwrap();
    let path = format!("data.path={}", path.display());
    let of = |columns: &str| load(&settings(&[&path, columns]));
    let data = of(r#"features.columns=["luck","return_1","mood"]"#).unwrap();
    assert_eq!(data.feature_names(), ["luck", "return_1", "mood"]);
    let one = &data.instruments()[0];
    assert_eq!((one.first_usable, &one.features[3..]), (1, &[8.0, 0.0, 0.25, 9.0, 0.0, 0.0][..]));
    assert_ne!(data.feature_digest(), of(r#"features.columns=["luck"]"#).unwrap().feature_digest());
    let error = of(r#"features.columns=["lust"]"#).unwrap_err().to_string();
    assert!(error.contains("the header has no column lust, which features.columns names"), "{error}");
    let error = load(&settings(&[r#"features.columns=["lust"]"#])).unwrap_err().to_string();
    assert!(error.contains("lust"), "{error}");
}

#[test]
fn archives_patterns_and_members_are_read() {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for (name, rows) in [("a.csv", FIRST), ("b.csv", "2024-03-04 14:30,1,2,3\n")] {
        zip.start_file(name, options).unwrap();
        zip.write_all(format!("{HEADER}{rows}").as_bytes()).unwrap();
    }
    let zip = zip.finish().unwrap().into_inner();
    let refused = bars_of("x.zip", &zip, &[], Problem::Unreadable).unwrap_err();
    assert!(refused.contains("x.zip, row at line 2: b.csv: 4 fields"), "{refused}");
    let (bars, unreadable) = bars_of("x.zip", &zip, &["cleaning.unreadable=drop"], Problem::Unreadable).unwrap();
    assert_eq!((bars.len(), bars[0].symbol.as_str(), unreadable), (1, "a", 1));

    let folder = tempfile::tempdir().unwrap();
    for name in ["a1.csv", "a2.csv", "b1.csv"] {
        std::fs::write(folder.path().join(name), format!("{HEADER}{FIRST}")).unwrap();
    }
    let pattern = |p: &str| load(&settings(&[&format!("data.path={}", folder.path().join(p).display())]));
    assert_eq!(pattern("a*.csv").unwrap().instruments().len(), 2);
    assert_eq!(pattern("?1.csv").unwrap().instruments().len(), 2);
    let error = pattern("c*.csv").unwrap_err();
    assert!(error.to_string().contains("no file fits this pattern") && error.exit_code() == 66, "{error}");
}

/// A Parquet file of three bars, whose moments are in microseconds.
fn made_parquet(is_utc: bool) -> Vec<u8> {
    use parquet::data_type::{DoubleType, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    let schema = format!(
        "message bars {{ required int64 time (TIMESTAMP(MICROS,{is_utc})); required double open; required double high; \
         required double low; required double close; required int64 volume; }}"
    );
    let schema = std::sync::Arc::new(parquet::schema::parser::parse_message_type(&schema).unwrap());
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, std::sync::Arc::default()).unwrap();
    let mut group = file.next_row_group().unwrap();
    let start = 1_709_562_600_000_000i64;
    for k in 0..6 {
        let mut column = group.next_column().unwrap().unwrap();
        let whole: Vec<i64> = (0..3).map(|t| if k == 0 { start + t * 60_000_000 } else { 10 + t }).collect();
        let real: Vec<f64> = (0..3).map(|t| f64::from(t) + [0.0, 10.0, 12.0, 9.0, 11.0, 0.0][k]).collect();
        match k {
            0 | 5 => column.typed::<Int64Type>().write_batch(&whole, None, None).unwrap(),
            _ => column.typed::<DoubleType>().write_batch(&real, None, None).unwrap(),
        };
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
    bytes
}

#[test]
fn parquet_is_read_as_a_table_and_damage_never_panics() {
    let whole = made_parquet(true);
    let (bars, _) = bars_of("x.parquet", &whole, &[], Problem::Gap).unwrap();
    let expected = [1_709_562_600_000_000_000, 1_709_562_660_000_000_000, 1_709_562_720_000_000_000];
    assert_eq!((bars[0].symbol.as_str(), &bars[0].start_ns[..]), ("x", &expected[..]));
    assert_eq!((bars[0].close.clone(), bars[0].volume.clone()), (vec![11.0, 12.0, 13.0], vec![10.0, 11.0, 12.0]));
    let place = ["data.zone=America/New_York"];
    let (bars, _) = bars_of("x.parquet", &whole, &place, Problem::Gap).unwrap();
    assert_eq!(bars[0].start_ns, expected, "moments of UTC");
    let (bars, _) = bars_of("x.parquet", &made_parquet(false), &place, Problem::Gap).unwrap();
    assert_eq!(bars[0].start_ns[0] - expected[0], 5 * 3_600_000_000_000, "what clocks show");
    let config = Config::default();
    for at in 4..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        let _ = read_bytes("x.parquet", &damaged, &config);
        let cut = read_bytes("x.parquet", &whole[..at], &config);
        assert!(cut.is_err(), "cut at {at}");
    }
}

#[test]
fn a_survey_counts_everything_before_it_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    let text =
        format!("{HEADER}{FIRST}2024-03-04 14:32,1,1,2,1,1\n2024-03-04 14:33,1,1,2,1,1\n2024-03-04 14:34,0,1,1,1,1\n");
    std::fs::write(&path, &text).unwrap();
    let of = |pairs: &[&str]| survey(path.to_str().unwrap(), &settings(pairs)).remove(0);
    let error = of(&[]).unwrap_err().to_string();
    assert!(error.contains("line 4: ") && error.ends_with("(in all: high_below_low 2, zero_price 1)"), "{error}");
    let report = of(&["cleaning.high_below_low=drop", "cleaning.zero_price=repair"]).unwrap();
    assert_eq!((report.records, report.bars, report.details[0].gaps), (5, 3, 1));
    assert_eq!(report.problems["high_below_low"], 2);
    assert_eq!(report.last.as_deref(), Some("2024-03-04T14:34:00Z"));
}

#[test]
fn what_only_looks_like_a_table_or_a_stream_is_told_apart() {
    let of = |bytes: &[u8]| bars_of("x.csv", bytes, &[], Problem::Gap).map(|(bars, _)| bars[0].len());
    let text = format!("{HEADER}{FIRST}");
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain(text.bytes().flat_map(|b| [b, 0])).collect();
    assert!(of(&utf16).unwrap_err().contains("x.csv, byte 0: it is text in UTF-16"));
    // a frame that says nothing, as zstd allows anywhere; in DBZ it is followed by records without metadata
    let frame = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, b'h', b'i'];
    let behind = |bytes: &[u8]| [&frame, &zstd::encode_all(bytes, 1).unwrap()[..]].concat();
    assert_eq!(of(&behind(text.as_bytes())).unwrap(), of(text.as_bytes()).unwrap());
    assert!(of(&behind(&[14, 0x20, 1, 0, 0, 0, 0, 0])).unwrap_err().contains("DBZ"));
    let long = zstd::encode_all(&[text.as_bytes(), &vec![b'1'; 3 << 20]].concat()[..], 1).unwrap();
    assert!(of(&long).unwrap_err().contains("a line is longer than 1048576 bytes"));
}
