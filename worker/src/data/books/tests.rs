use super::*;
use std::path::PathBuf;

fn real(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(file);
    if !path.exists() {
        eprintln!("SKIPPED: {} is not here", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn a_book_rebuilt_from_its_orders_equals_one_that_another_program_rebuilt() {
    let Some(path) = real("dbn/nautilus/es-20231225.mbo.dbn.zst") else { return };
    let Some(expected) = real("lob/derived/es-20231225-book10.csv.gz") else { return };
    let books = read(&path, 10).unwrap();
    let [books] = &books[..] else { panic!("one instrument") };
    assert_eq!((books.symbol.as_str(), books.unknown), ("ESH4", 0));
    assert!(books.crossed > 100, "before the opening bids and asks cross");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(expected).unwrap()).read_to_string(&mut text).unwrap();
    let bits = |row: &[f64]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    // the other program looks at the book after each record, also within the records of one event
    let mut states = Vec::new();
    super::super::readers::with_dbn(&path, |stream| {
        let (mut records, mut book, mut snapshot) = (Records::open(stream)?, Book::default(), vec![0.0; 40]);
        while let Some((record, _)) = records.next()? {
            book.apply(&record.mbo());
            book.best(&mut snapshot, price);
            states.push(bits(&snapshot));
        }
        Ok(())
    })
    .unwrap();
    let mut states = states.into_iter();
    let ours: std::collections::HashSet<Vec<u64>> = (0..books.len()).map(|k| bits(books.snapshot(k))).collect();
    let (mut rows, mut found) = (0, 0);
    for line in text.lines().skip(1) {
        let cells: Vec<f64> = line.split(',').skip(1).map(|cell| cell.parse().unwrap()).collect();
        let row = bits(&cells);
        assert!(states.any(|state| state == row), "not in the order of the records: {line}");
        found += usize::from(ours.contains(&row));
        rows += 1;
    }
    assert!(found * 10 >= rows * 9, "{found} of {rows} after whole events; ours are {}", books.len());
    assert_eq!(rows, 36_917);
}

#[test]
fn mbp10_gives_its_levels() {
    let Some(path) = real("dbn/samples-databento-python/GLBX.MDP3/test_data.mbp-10.dbn.zst") else { return };
    let books = read(&path, 5).unwrap();
    assert_eq!(books.iter().map(Books::len).sum::<usize>(), 4);
    for books in &books {
        let levels = books.snapshot(0);
        assert!(
            (0..4).all(|k| levels[4 * k + 4] > levels[4 * k] && levels[4 * k + 6] < levels[4 * k + 2]),
            "{levels:?}"
        );
    }
}

#[test]
fn files_without_books_have_none_and_damaged_ones_are_refused() {
    let Some(path) = real("dbn/derived/es-20231225.ohlcv-1m.v1.dbn.zst") else { return };
    assert_eq!(read(&path, 10).unwrap(), []);
    let Some(path) = real("dbn/odd/truncated-zstd.mbp-1.dbn.zst") else { return };
    assert!(read(&path, 10).unwrap_err().to_string().contains("truncated"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.csv");
    std::fs::write(&file, "a,b\n1,2\n").unwrap();
    assert!(read(&file, 10).unwrap_err().to_string().contains("not DBN"));
}

#[test]
fn orders_come_change_and_go() {
    let mut book = Book::default();
    let event = |action, side, order, price, size| super::super::readers::dbn::Mbo {
        order,
        price,
        size,
        flags: 0,
        action,
        side,
    };
    assert!(book.apply(&event(b'A', b'B', 1, 100, 5)));
    assert!(book.apply(&event(b'A', b'B', 2, 99, 7)));
    assert!(book.apply(&event(b'A', b'A', 3, 101, 4)));
    assert!(book.apply(&event(b'C', b'B', 1, 100, 2)));
    assert!(book.apply(&event(b'M', b'B', 2, 100, 6)));
    assert!(!book.apply(&event(b'C', b'A', 9, 101, 1)));
    let mut out = [0.0; 8];
    book.best(&mut out, |p| p as f64);
    assert_eq!(out[..4], [101.0, 4.0, 100.0, 9.0]);
    assert!(out[4].is_nan() && out[5] == 0.0);
    assert!(book.apply(&event(b'R', b'N', 0, 0, 0)));
    book.best(&mut out, |p| p as f64);
    assert!(out[0].is_nan());
}
