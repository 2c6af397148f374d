//! What fuzzing found and what it began with, through the same functions: `tests/fuzz/corpus/TARGET/*`, as they are
//! and changed at random. `FOXLAUNCH_FUZZ_SECONDS=120` changes them for so long, for each target.

#[path = "../fuzz/inputs.rs"]
mod inputs;

use crate::source::root;
use std::time::{Duration, Instant};

/// Changes of each target's corpus in a usual run.
const CHANGES: u32 = 300;
const SECONDS: &str = "FOXLAUNCH_FUZZ_SECONDS";

/// The inputs that are kept for the target `name`, with their paths.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = root().join("tests/fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

/// Gives `bytes` to the target; if it does not come back, says with what that can be seen again.
fn give(name: &str, input: inputs::Input, bytes: &[u8], from: &str) {
    if std::panic::catch_unwind(|| input(bytes)).is_err() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{name} did not come back from {from}; as hex: {hex}");
    }
}

#[test]
fn what_is_kept_comes_back_and_what_is_made_of_it_too() {
    let seconds = std::env::var(SECONDS).ok().map(|text| text.parse().expect("a number of seconds"));
    let limit = seconds.map(Duration::from_secs);
    for (name, input) in inputs::ALL {
        let kept = corpus(name);
        kept.iter().for_each(|(path, bytes)| give(name, *input, bytes, path));
        give(name, *input, b"", "nothing");
        let mut chance = Chance(0x9E37_79B9_7F4A_7C15 ^ seconds.map_or(0, |_| u64::from(std::process::id())));
        let (begin, mut done) = (Instant::now(), 0u32);
        while limit.map_or(done < CHANGES, |limit| begin.elapsed() < limit) {
            let bytes = chance.changed(&kept);
            give(name, *input, &bytes, "a change of what is kept");
            done += 1;
        }
        println!("{name}: {done} inputs in {:.1} s", begin.elapsed().as_secs_f64());
    }
    inputs::clean();
}

#[test]
fn each_target_is_a_program_of_the_fuzzer() {
    let manifest: toml::Table = crate::source::text("tests/fuzz/Cargo.toml").parse().unwrap();
    let bins: Vec<&str> = manifest["bin"].as_array().unwrap().iter().filter_map(|bin| bin["name"].as_str()).collect();
    let names: Vec<&str> = inputs::ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(bins, names);
}

/// Random numbers (xorshift64*, Vigna 2016), the same in each usual run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit.max(1)
    }

    /// One of `kept` with up to eight changes: bits, bytes that matter, parts left out, doubled, or of another input.
    fn changed(&mut self, kept: &[(String, Vec<u8>)]) -> Vec<u8> {
        const ODD: &[u8] =
            &[0, 1, 0x7f, 0x80, 0xff, 0xfa, 0xfb, 0xfc, 0xfd, 0x1b, b'\n', b'"', b'=', b',', b'-', b'9', b'[', b'{'];
        let mut bytes = kept[self.below(kept.len())].1.clone();
        for _ in 0..=self.below(8) {
            let at = self.below(bytes.len() + 1);
            let end = (at + 1 + self.below(16)).min(bytes.len());
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = ODD[self.below(ODD.len())],
                2 => bytes.insert(at, ODD[self.below(ODD.len())]),
                3 if at < end => drop(bytes.drain(at..end)),
                4 if at < end => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                5 => bytes.truncate(at),
                _ => {
                    let other = &kept[self.below(kept.len())].1;
                    let from = self.below(other.len());
                    let part = other[from..(from + self.below(64)).min(other.len())].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        bytes
    }
}
