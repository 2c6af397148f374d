use super::*;
use foxlaunch_shared::config::{Layer, Layers};
use foxlaunch_shared::exit;
use proptest::prelude::*;
use std::io::Write;

/// The defaults with `pairs`, as `KEY=VALUE`, over them.
pub(super) fn settings(pairs: &[&str]) -> Config {
    let mut layers = Layers::new();
    layers.push(Layer::from_pairs("test", pairs.iter().copied()).unwrap()).unwrap();
    layers.resolve().unwrap().0
}

fn config(path: &Path) -> Config {
    let mut config = Config::default();
    config.data.path = path.to_str().unwrap().to_owned();
    config
}

/// Bytes as a file of that name.
fn read(name: &str, bytes: &[u8]) -> Result<intake::Taken, DataError> {
    file::read(Path::new(name), file::Source::Bytes(Cursor::new(bytes)), &Config::default(), false)
}

pub(super) fn load_path(path: &Path) -> Result<Dataset, DataError> {
    load(&config(path))
}

fn written(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn refusal(text: &str) -> String {
    let folder = written(&[("x.csv", text.as_bytes())]);
    let error = load_path(&folder.path().join("x.csv")).unwrap_err();
    assert_eq!(error.exit_code(), exit::DATA, "{error}");
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message.split_once("x.csv").unwrap().1.to_owned()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const TABLE: &str = "\
Date,Symbol,Open,High,Low,Close,Volume
2024-03-04,A,10,12,9,11,100
2024-03-04,B,1,1,1,1,0
2024-03-05,A,11,13,10,12,200
2024-03-06,A,12,14,11,13,300
2024-03-06,B,2,2,2,2,5
";

#[test]
fn the_sample_is_in_the_binary() {
    let mut config = Config::default();
    let data = load(&config).unwrap();
    assert_eq!(data.source, SAMPLE_NAME);
    let [goog, ibm] = data.instruments() else { panic!("two instruments") };
    assert_eq!((goog.bars.symbol.as_str(), goog.bars.len()), ("GOOG", 2148));
    assert_eq!((ibm.bars.symbol.as_str(), ibm.bars.len()), ("IBM", 3270));
    assert_eq!(ibm.bars.open[0], 102.0);
    assert_eq!(goog.bars.close[2147], 806.19);
    assert_eq!(data.interval_ns(), 86_400_000_000_000);
    // no split: no close halves or doubles overnight
    for i in data.instruments() {
        assert!(i.bars.close.windows(2).all(|w| (0.7..1.4).contains(&(w[1] / w[0]))), "{}", i.bars.symbol);
    }
    let year = data.periods_per_year();
    assert!((250.0..253.0).contains(&year), "{year}");
    config.data.instruments = vec!["IBM".to_owned()];
    let one = load(&config).unwrap();
    assert_eq!(one.instruments(), std::slice::from_ref(ibm));
}

#[test]
fn a_table_is_read_with_its_instruments_plain_or_compressed() {
    let zst = zstd::encode_all(TABLE.as_bytes(), 3).unwrap();
    let gz = gzip(TABLE.as_bytes());
    // told by content: the name may lie
    for bytes in [TABLE.as_bytes(), gz.as_slice(), zst.as_slice()] {
        let folder = written(&[("bars.csv", bytes)]);
        let data = load_path(folder.path()).unwrap();
        let [a, b] = data.instruments() else { panic!("two instruments") };
        assert_eq!(a.bars.close, [11.0, 12.0, 13.0]);
        assert_eq!(a.bars.volume, [100.0, 200.0, 300.0]);
        assert_eq!(b.bars.start_ns, [1_709_510_400_000_000_000, 1_709_683_200_000_000_000]);
        assert_eq!(a.bars.interval_ns, 86_400_000_000_000);
    }
}

#[test]
fn instruments_are_chosen_by_name() {
    let folder = written(&[("bars.csv", TABLE.as_bytes())]);
    let wanted = |names: &[&str], max_instruments| {
        let mut config = config(folder.path());
        config.data.instruments = names.iter().map(|s| (*s).to_owned()).collect();
        config.data.max_instruments = max_instruments;
        config
    };
    assert_eq!(load(&wanted(&["B"], 1)).unwrap().instruments().len(), 1);
    let message = load(&wanted(&["B", "C"], 9)).unwrap_err().to_string();
    assert!(message.ends_with("no instrument C; it holds A, B"), "{message}");
    let message = load(&wanted(&[], 1)).unwrap_err().to_string();
    assert!(message.contains("2 instruments, more than data.max_instruments = 1"), "{message}");
}

#[test]
fn several_files_of_an_instrument_are_joined_in_time() {
    let (head, later) = TABLE.split_at(TABLE.find("2024-03-06").unwrap());
    let later = format!("{}\n{later}", TABLE.lines().next().unwrap());
    let folder = written(&[("2.csv", head.as_bytes()), ("1.csv", later.as_bytes()), ("notes.txt", b"\0")]);
    let whole = written(&[("bars.csv", TABLE.as_bytes())]);
    let (joined, whole) = (load_path(folder.path()).unwrap(), load_path(whole.path()).unwrap());
    assert_eq!(joined.instruments(), whole.instruments());

    let [one, two] = ["1.csv", "2.csv"].map(|name| folder.path().join(name));
    let listed = format!("{}, {}", two.display(), one.display());
    assert_eq!(load_path(Path::new(&listed)).unwrap().instruments(), whole.instruments());
    let error = load_path(Path::new(&format!("{},none.csv", one.display()))).unwrap_err();
    assert!(error.to_string().starts_with("none.csv: there is no such"), "{error}");

    std::fs::write(folder.path().join("3.csv"), later.as_bytes()).unwrap();
    let error = load_path(folder.path()).unwrap_err();
    assert_eq!(error.exit_code(), exit::DATA);
    let message = error.to_string();
    assert!(message.contains("1.csv") && message.contains("3.csv") && message.contains("remove"), "{message}");
}

#[test]
fn without_a_column_for_it_the_instrument_is_called_as_the_file() {
    let table = b"date,open,high,low,close\n20240304,1,1,1,1\n";
    let folder = written(&[("BTC.USD.csv", table), ("ES.CSV.GZ", &gzip(table))]);
    let data = load_path(folder.path()).unwrap();
    let names: Vec<&str> = data.instruments().iter().map(|i| i.bars.symbol.as_str()).collect();
    assert_eq!(names, ["BTC.USD", "ES"]);
    assert!(data.instruments().iter().all(|i| i.bars.volume == [0.0]));
}

#[test]
fn a_table_that_runs_backwards_is_turned_round() {
    let mut lines: Vec<&str> = TABLE.lines().collect();
    lines[1..].reverse();
    let folder = written(&[("bars.csv", lines.join("\n").as_bytes())]);
    let forward = written(&[("bars.csv", TABLE.as_bytes())]);
    assert_eq!(load_path(folder.path()).unwrap().instruments(), load_path(forward.path()).unwrap().instruments());
}

#[test]
fn bars_that_cannot_be_are_refused_with_their_row() {
    let header = "time,open,high,low,close,volume\n2024-03-04,1,2,1,2,0\n2024-03-05,1,2,1,2,0\n";
    for (row, expected) in [
        ("2024-03-05,1,2,1,2,0", "row at line 4: x: a second bar starts at 2024-03-05T00:00:00Z"),
        ("2024-03-01,1,2,1,2,0", "row at line 4: x: the bar of 2024-03-01T00:00:00Z stands after that of 2024-03-05"),
        ("2024-03-06,1,2,3,2,0", "row at line 4: x: high 2 is below low 3"),
        ("2024-03-06,1,2,1,3,0", "lies outside low 1 to high 2"),
        ("2024-03-06,0,2,0,1,0", "open is 0; prices must be above 0"),
        ("2024-03-06,1,2,-1,1,0", "low is -1"),
        ("2024-03-06,1,2,1,inf,0", "close is \"inf\", not a finite number"),
        ("2024-03-06,1,1e400,1,1,0", "high is \"1e400\""),
        ("2024-03-06,1,2,1,,0", "close is \"\""),
        ("2024-03-06,1,2,1,1,-5", "volume is -5"),
        ("2024-03-06,1,2,1", "row at line 4: 4 fields, but the header has 6"),
        ("yesterday,1,2,1,1,0", "row at line 4: \"yesterday\" is no moment"),
    ] {
        let message = refusal(&format!("{header}{row}\n"));
        assert!(message.contains(expected), "{row}: {message}");
    }
    assert!(refusal("time,open,high,close\n1,1,1,1\n").contains("line 1: the header has no column low"));
    assert!(refusal("a,b\n1,2\n").contains("no line names the columns"));
    assert!(refusal("date,open,open,high,low,close\n").contains("two columns open"));
    assert!(refusal("date,open,high,low,close\n").contains("it holds no bars"));
    assert!(refusal("date\0open").contains("neither DBN with its metadata"));
    assert!(refusal("PK\x03\x04rest").contains("zip"));
}

#[test]
fn what_is_not_there_or_empty_has_its_own_exit_code() {
    let folder = written(&[("empty.csv", b""), ("sub.txt", b"x")]);
    for (path, expected) in [
        (folder.path().join("none.csv"), "no such file"),
        (folder.path().join("empty.csv"), "it is empty"),
        (folder.path().to_owned(), "it is empty"),
    ] {
        let error = load_path(&path).unwrap_err();
        assert_eq!(error.exit_code(), exit::NO_INPUT, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    std::fs::remove_file(folder.path().join("empty.csv")).unwrap();
    assert!(load_path(folder.path()).unwrap_err().to_string().contains("none of the 1 entries"));
}

#[test]
fn cut_compression_is_an_error_at_every_length() {
    let zst = zstd::encode_all(TABLE.as_bytes(), 3).unwrap();
    let gz = gzip(TABLE.as_bytes());
    for (name, bytes) in [("x.csv.zst", zst), ("x.csv.gz", gz), ("x.dbn", made_dbn())] {
        for end in 1..bytes.len() {
            let read = read(name, &bytes[..end]);
            let whole_records =
                name == "x.dbn" && (bytes.len() - end).is_multiple_of(56) && bytes.len() - end <= 3 * 56;
            assert_eq!(read.is_ok(), whole_records, "{name} cut at {end}");
            if let Err(error) = read
                && end >= 8
            {
                assert!(error.to_string().contains("truncated"), "{name} cut at {end}: {error}");
            }
        }
    }
}

#[test]
fn what_follows_a_gzip_stream_is_counted_and_more_members_are_read() {
    let (head, tail) = TABLE.split_at(60);
    let members = [gzip(head.as_bytes()), gzip(tail.as_bytes())].concat();
    let read = |bytes: &[u8]| read("x.csv.gz", bytes);
    let seen = |bytes: &[u8]| read(bytes).unwrap().chunks.iter().map(|c| c.bars.len()).sum::<usize>();
    assert_eq!((seen(&members), seen(&gzip(TABLE.as_bytes()))), (5, 5));
    for garbage in [&b"x"[..], b"garbage", &[0; 512], &[7; 100_000]] {
        let error = read(&[&members[..], garbage].concat()).map(|_| ()).unwrap_err();
        let expected = format!("{} bytes behind the end of the gzip stream", garbage.len());
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(error.exit_code(), exit::DATA);
    }
}

#[test]
fn a_pipe_is_refused_and_never_waited_for() {
    let folder = written(&[("x.csv", TABLE.as_bytes())]);
    let pipe = folder.path().join("y.csv");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [pipe.as_path(), folder.path(), Path::new("/dev/null")] {
        let error = load_path(path).unwrap_err();
        assert_eq!(error.exit_code(), exit::NO_INPUT, "{error}");
        assert!(error.to_string().contains("neither a regular file nor a folder"), "{error}");
    }
}

/// Three bars of two instruments, one of them without a name, as DBN.
fn made_dbn() -> Vec<u8> {
    use ::dbn::encode::EncodeRecord;
    use ::dbn::encode::dbn::Encoder;
    use ::dbn::{MappingInterval, MetadataBuilder, OhlcvMsg, RecordHeader, SType, Schema, SymbolMapping, rtype};
    let metadata = |start: u64| {
        MetadataBuilder::new()
            .dataset("TEST")
            .schema(Some(Schema::Ohlcv1M))
            .start(start)
            .stype_in(Some(SType::RawSymbol))
            .stype_out(SType::InstrumentId)
    };
    // metadata is where a date can be had without a crate for dates
    let day = |d: u64| metadata(d * 86_400_000_000_000).build().start().date();
    let interval = MappingInterval { start_date: day(19_700), end_date: day(19_800), symbol: "7".to_owned() };
    let mapping = SymbolMapping { raw_symbol: "ES".to_owned(), intervals: vec![interval] };
    let metadata = metadata(0).symbols(vec!["ES".to_owned()]).mappings(vec![mapping]).build();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, &metadata).unwrap();
    for (minute, id) in [(0, 7), (0, 8), (1, 7)] {
        let start = 1_704_196_800_000_000_000 + minute * 60_000_000_000; // 2024-01-02 12:00
        let (open, high, low, close) = (1_500_000_000, 2_000_000_000, 1_250_000_000, 1_750_000_000);
        let hd = RecordHeader::new::<OhlcvMsg>(rtype::OHLCV_1M, 0, id, start);
        encoder.encode_record(&OhlcvMsg { hd, open, high, low, close, volume: 3 }).unwrap();
    }
    bytes
}

#[test]
fn dbn_instruments_have_the_names_of_the_mappings_or_their_number() {
    let folder = written(&[("x.dbn", &made_dbn())]);
    let data = load_path(folder.path()).unwrap();
    let [number, name] = data.instruments() else { panic!("two instruments") };
    assert_eq!((number.bars.symbol.as_str(), number.bars.len()), ("8", 1));
    assert_eq!((name.bars.symbol.as_str(), name.bars.len()), ("ES", 2));
    let bars = &name.bars;
    assert_eq!((bars.open[0], bars.high[0], bars.low[0], bars.close[1], bars.volume[1]), (1.5, 2.0, 1.25, 1.75, 3.0));
    assert_eq!(bars.interval_ns, 60_000_000_000);
}

fn mutated(bytes: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), any::<u8>());
    (prop::collection::vec(edit, 1..6), any::<prop::sample::Index>(), any::<bool>()).prop_map(
        move |(edits, end, cut)| {
            let mut bytes = bytes.clone();
            for (at, value) in edits {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if cut {
                bytes.truncate(end.index(bytes.len()));
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_tables_never_panic(bytes in mutated(TABLE.as_bytes().to_vec())) {
        let _ = read("x", &bytes);
    }

    #[test]
    fn damaged_gzip_never_panics(bytes in mutated(gzip(TABLE.as_bytes()))) {
        let _ = read("x", &bytes);
    }

    #[test]
    fn damaged_dbn_never_panics(bytes in mutated(made_dbn())) {
        let _ = read("x", &bytes);
    }

    #[test]
    fn damaged_zstd_never_panics(bytes in mutated(zstd::encode_all(&made_dbn()[..], 1).unwrap())) {
        let _ = read("x", &bytes);
    }
}
