//! What fuzzing found and what it began with, through the same functions: `tests/fuzz/corpus/TARGET/*`.

#[path = "../fuzz/inputs.rs"]
mod inputs;

use crate::source::root;

#[test]
fn every_input_that_is_kept_comes_back() {
    let mut read = 0;
    for (name, input) in inputs::ALL {
        let folder = root().join("tests/fuzz/corpus").join(name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        assert!(!paths.is_empty(), "{} is empty", folder.display());
        for path in paths {
            let bytes = std::fs::read(&path).unwrap();
            let came_back = std::panic::catch_unwind(|| input(&bytes)).is_ok();
            assert!(came_back, "{name} did not come back from {}", path.display());
            read += 1;
        }
        // And from nothing.
        input(b"");
    }
    inputs::clean();
    assert!(read >= inputs::ALL.len());
}

#[test]
fn each_target_is_a_program_of_the_fuzzer() {
    let manifest: toml::Table = crate::source::text("tests/fuzz/Cargo.toml").parse().unwrap();
    let bins: Vec<&str> = manifest["bin"].as_array().unwrap().iter().filter_map(|bin| bin["name"].as_str()).collect();
    let names: Vec<&str> = inputs::ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(bins, names);
}
