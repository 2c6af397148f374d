//! What reads bytes that others wrote: each function must come back, whatever it is given. cargo-fuzz calls them, and
//! the test `fuzz_corpus` with all that was found so far.
#![allow(dead_code)]

mod memory;
pub(crate) mod readers;

use foxlaunch::devices::Gpu;
use foxlaunch::devices::visible::{self, Gpus};
use foxlaunch::secrets::Secrets;
use foxlaunch::supervisor::steps;
use foxlaunch_shared::config::{Config, Layer, Layers, hyperopt_layer};
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::{Envelope, FromLauncher, FromWorker, wire};
use foxlaunch_worker::{checkpoint, trainers};
use std::path::PathBuf;
use std::sync::LazyLock;

/// What is given bytes, and comes back.
pub(crate) type Input = fn(&[u8]);

/// Each function of this file, by its name.
pub(crate) const ALL: &[(&str, Input)] = &[
    ("wire", wire),
    ("config", config),
    ("hyperopt", hyperopt),
    ("devices", devices),
    ("progress", progress),
    ("manifest", manifest),
    ("state", state),
    ("dbn", readers::dbn),
    ("dbn_zst", readers::dbn_zst),
    ("table", readers::table),
    ("table_gz", readers::table_gz),
    ("zip", readers::zip),
    ("parquet", readers::parquet),
    ("book", readers::book),
    ("secrets", secrets),
];

/// A frame from a worker or from the launcher: one that is understood comes back as it went.
pub(crate) fn wire(bytes: &[u8]) {
    if let Ok(Envelope { attempt, rank, message }) = wire::decode_any::<FromWorker>(bytes) {
        let frame = wire::encode(attempt, rank, &message).expect("it was no longer than this");
        let again = wire::decode_any::<FromWorker>(&frame).expect("it was just written").message;
        // What is not a number is not equal to itself.
        assert_eq!(format!("{again:?}"), format!("{message:?}"));
    }
    let _ = wire::decode_any::<FromLauncher>(bytes);
    let _ = wire::decode::<FromWorker>(bytes, Attempt(1), Rank(0));
}

/// A settings file, and the same as `--set` and as variables.
pub(crate) fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut layers = Layers::new();
    let read = Layer::from_toml("file", &text).and_then(|layer| layers.push(layer)).and_then(|()| layers.resolve());
    if let Ok((config, _)) = read {
        assert_eq!(Config::from_toml(&config.to_toml(), "again").as_ref(), Ok(&config));
        let _ = config.digest();
    }
    let pairs = text.lines().filter(|line| line.contains('='));
    let _ = Layer::from_pairs("--set", pairs.clone()).and_then(|layer| Layers::new().push(layer));
    let variables = pairs.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into()));
    let _ = Layers::new().push(Layer::from_env(variables));
}

/// A `--hyperopt` file.
pub(crate) fn hyperopt(bytes: &[u8]) {
    if let Ok(layer) = hyperopt_layer("file", &String::from_utf8_lossy(bytes)) {
        let mut layers = Layers::new();
        let _ = layers.push(layer).and_then(|()| layers.resolve());
    }
}

/// `CUDA_VISIBLE_DEVICES` and `--gpus`, on a line each.
pub(crate) fn devices(bytes: &[u8]) {
    static MACHINE: LazyLock<Vec<Gpu>> = LazyLock::new(|| {
        let gpu = |index: u32| Gpu {
            index,
            uuid: format!("GPU-{index}d9b3c1e-58b0-4a6c-9a52-3b1f3a9f1c77"),
            name: "a GPU".to_owned(),
            memory_bytes: 1 << 30,
            memory_free_bytes: 1 << 29,
            pci_bus_id: format!("00000000:0{index}:00.0"),
        };
        (0..3).map(gpu).collect()
    });
    let text = String::from_utf8_lossy(bytes);
    let (inherited, asked) = text.split_once('\n').unwrap_or((&text, "all"));
    let Ok(request) = asked.parse::<Gpus>() else { return };
    for inherited in [None, Some(inherited)] {
        let Ok(seen) = visible::visible(inherited, &MACHINE) else { continue };
        if let Ok(chosen) = visible::select(&request, &seen, &MACHINE) {
            // Slices of a visible device may be more than the devices.
            let whole = chosen.iter().filter(|token| visible::device_of(token, &MACHINE).is_some()).count();
            assert!(whole <= seen.len() && (chosen.is_empty() || !seen.is_empty()), "{chosen:?} of {seen:?}");
            let _ = visible::join(&chosen);
        }
    }
}

/// What a program writes into its pipe for progress.
pub(crate) fn progress(bytes: &[u8]) {
    assert!(steps::understood(Rank(0), bytes).len() <= 4);
}

/// A checkpoint's `manifest.json`, beside a file that it may name.
pub(crate) fn manifest(bytes: &[u8]) {
    let folder = FOLDER.join("checkpoint");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("model.safetensors"), b"weights").expect("write");
    std::fs::write(folder.join(checkpoint::MANIFEST), bytes).expect("write");
    let _ = checkpoint::read(&folder);
}

/// A checkpoint's `state.bin`, and the tensors of its optimiser.
pub(crate) fn state(bytes: &[u8]) {
    let _ = trainers::dqn::read_state(bytes);
    let _ = checkpoint::moments(bytes, 4);
}

/// Arguments and words in which secrets may stand.
pub(crate) fn secrets(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let once = Secrets::default().hide(&text);
    assert_eq!(Secrets::default().hide(&once), once);
    let arguments: Vec<std::ffi::OsString> = text.split('\n').map(Into::into).collect();
    let known = Secrets::find([], arguments.clone());
    assert_eq!(known.hide_arguments(&arguments).len(), arguments.len());
}

/// Removes what was written.
pub(crate) fn clean() {
    let _ = std::fs::remove_dir_all(&*FOLDER);
}

/// Where files are written: in memory where that is possible.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = std::path::Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("fox-test-fuzz-").tempdir_in(&root).or_else(|_| tempfile::tempdir());
    folder.expect("a folder").keep()
});
