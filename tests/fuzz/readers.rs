//! The readers of bars and of books, each given a file as others might have written it, or broken it.
//!
//! A reader may refuse a file, but it comes back, and in memory of the file's own scale: that a file claims to hold more
//! is no reason to make room for it.

use super::{FOLDER, memory};
use foxlaunch_shared::config::{Config, Layer, Layers, Problem};
use foxlaunch_worker::data::{self, books};
use std::path::PathBuf;
use std::sync::LazyLock;

/// What a reader may hold besides what is in the file: buffers, tables of decompression, a look at the first rows.
const BUFFERS: usize = 32 << 20;
/// What it may hold for each byte of a file, twice as much while a column grows.
const FOR_EACH_BYTE: usize = 128;
/// What it may hold of a file whose bytes are more when unpacked: a bar for each byte of what 4 KiB at most become.
const UNPACKED: usize = 512 << 20;

/// A file of bars, trades, quotes or orders in DBN, from behind its first three letters on.
pub(crate) fn dbn(bytes: &[u8]) {
    bars("bars.dbn", &[b"DBN", bytes].concat(), 0);
}

/// The same, compressed.
pub(crate) fn dbn_zst(bytes: &[u8]) {
    bars("bars.dbn.zst", bytes, UNPACKED);
}

/// A table as text.
pub(crate) fn table(bytes: &[u8]) {
    bars("bars.csv", bytes, if is_packed(bytes) { UNPACKED } else { 0 });
}

/// The same, compressed.
pub(crate) fn table_gz(bytes: &[u8]) {
    bars("bars.csv.gz", bytes, UNPACKED);
}

/// A zip archive.
pub(crate) fn zip(bytes: &[u8]) {
    bars("bars.zip", bytes, UNPACKED);
}

/// A Parquet file.
pub(crate) fn parquet(bytes: &[u8]) {
    bars("bars.parquet", bytes, UNPACKED / 4);
}

/// A DBN file of orders or of books, from behind its first three letters on: the book is put together from it.
pub(crate) fn book(bytes: &[u8]) {
    let bytes = [b"DBN", bytes].concat();
    let path = written("book.dbn", &bytes);
    let (read, held) = memory::peak(|| books::read(&path, 10));
    assert!(held < BUFFERS + 8 * FOR_EACH_BYTE * bytes.len(), "{held} bytes of memory for {} of a file", bytes.len());
    for books in read.iter().flatten() {
        assert_eq!(books.levels.len(), books.len() * books.depth * 4);
        assert!(books.time_ns.windows(2).all(|pair| pair[0] < pair[1]), "time does not rise");
        for snapshot in (0..books.len()).map(|k| books.snapshot(k)) {
            assert!(snapshot[0].is_nan() || snapshot[2].is_nan() || snapshot[2] <= snapshot[0], "it crosses");
        }
    }
}

/// Reads a file as each policy of cleaning has it, and loads it.
fn bars(name: &str, bytes: &[u8], unpacked: usize) {
    let path = written(name, bytes);
    let most = BUFFERS + FOR_EACH_BYTE * bytes.len() + unpacked;
    for config in &*SETTINGS {
        let (_, held) = memory::peak(|| data::read_bytes(name, bytes, config));
        assert!(held < most, "{held} bytes of memory for {} of a file, more than {most}", bytes.len());
        let mut config = config.clone();
        config.data.path = path.to_str().expect("its name is UTF-8").to_owned();
        for report in data::survey(&config.data.path, &config).into_iter().flatten() {
            assert_eq!(report.bars, report.details.iter().map(|one| one.bars).sum::<u64>());
        }
        if let Ok(set) = data::load(&config) {
            assert!(!set.instruments().is_empty() && set.summary().len() == set.instruments().len());
        }
    }
}

fn is_packed(bytes: &[u8]) -> bool {
    matches!(bytes, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x1f, 0x8b, ..] | [b'P', b'K', ..] | [b'P', b'A', b'R', b'1', ..])
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = FOLDER.join(name);
    std::fs::write(&path, bytes).expect("write");
    path
}

/// The defaults, and what is wrong with bars left out, or mended where it can be.
static SETTINGS: LazyLock<[Config; 3]> = LazyLock::new(|| {
    let all = |policy: &str| {
        let pairs = Problem::ALL.iter().map(|problem| {
            let mended = !matches!(problem, Problem::OneSided | Problem::BadLevel | Problem::Unreadable);
            format!("cleaning.{}={}", problem.name(), if mended { policy } else { "drop" })
        });
        let pairs: Vec<String> = pairs.collect();
        let mut layers = Layers::new();
        let layer = Layer::from_pairs("fuzz", pairs.iter().map(String::as_str));
        layers.push(layer.expect("settings")).expect("settings");
        layers.resolve().expect("settings").0
    };
    [Config::default(), all("drop"), all("repair")]
});
