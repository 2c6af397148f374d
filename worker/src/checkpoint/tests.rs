//! Checkpoints that were cut, garbled, or whose writer was killed or ran out of space.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// The folder in which a child of a test writes; set for children only.
const CHILD: &str = "FOXLAUNCH_TEST_CHECKPOINTS";

fn contents(fold: u32, update: u64) -> Contents {
    let point = Point { fold, update, step: update * 16, config_digest: "d".repeat(64), data_digest: "e".repeat(64) };
    // sizes that take several writes
    let bytes = |salt: u64| (0..50_000u64).map(|i| (i * 31 + update * 7 + salt) as u8).collect();
    Contents { point, files: vec![(MODEL.to_owned(), bytes(1)), (STATE.to_owned(), bytes(2))] }
}

fn names(root: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn assert_holds(loaded: &Loaded, fold: u32, update: u64) {
    let expected = contents(fold, update);
    assert_eq!(loaded.point, expected.point);
    for (name, bytes) in &expected.files {
        assert!(loaded.file(name).unwrap() == bytes, "{name}");
    }
}

#[test]
fn the_newest_few_and_the_best_stay() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("checkpoints");
    assert!(newest(&root).unwrap().is_none());
    let writer = Writer::new(&root, 2);
    writer.write_best(&contents(0, 20)).unwrap();
    for update in [10, 20, 30] {
        writer.write(&contents(0, update)).unwrap();
    }
    writer.write(&contents(1, 5)).unwrap();
    let expected = ["fold-000-best", "fold-000-update-000000030", "fold-001-update-000000005", "latest"];
    assert_eq!(names(&root), expected);
    assert_eq!(fs::read_link(root.join(LATEST)).unwrap(), Path::new("fold-001-update-000000005"));
    let found = newest(&root).unwrap().unwrap();
    assert_holds(&found.loaded, 1, 5);
    assert!(found.skipped.is_empty());
    assert_holds(&read(&root.join("fold-000-best")).unwrap(), 0, 20);
    // written again, as by a resumed run
    writer.write(&contents(1, 5)).unwrap();
    writer.write_best(&contents(0, 30)).unwrap();
    assert_eq!(names(&root), expected);
    assert_holds(&read(&root.join("fold-000-best")).unwrap(), 0, 30);
}

#[test]
fn what_a_killed_writer_left_is_cleaned_and_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let writer = Writer::new(root, 2);
    writer.write(&contents(0, 1)).unwrap();
    let half = root.join(".tmp-fold-000-update-000000002");
    fs::create_dir(&half).unwrap();
    fs::write(half.join(MODEL), b"half").unwrap();
    std::os::unix::fs::symlink("nowhere", root.join(".tmp-latest")).unwrap();
    assert_holds(&newest(root).unwrap().unwrap().loaded, 0, 1);
    writer.write(&contents(0, 2)).unwrap();
    assert_eq!(names(root), ["fold-000-update-000000001", "fold-000-update-000000002", LATEST]);
}

/// A folder with checkpoints of updates 1 and 2, after `damage` to the newer.
fn damaged(damage: impl FnOnce(&Path)) -> Result<Option<Found>, CheckpointError> {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::new(folder.path(), 2);
    writer.write(&contents(0, 1)).unwrap();
    damage(&writer.write(&contents(0, 2)).unwrap());
    newest(folder.path())
}

#[test]
fn a_damaged_one_is_passed_over_with_the_reason() {
    type Damage = Box<dyn FnOnce(&Path)>;
    let cases: Vec<(&str, Damage)> = vec![
        ("49999 bytes instead of 50000", Box::new(|p| cut(&p.join(MODEL), 49_999))),
        ("its SHA-256 is not the one in the manifest", Box::new(|p| flip(&p.join(STATE), 1234))),
        ("No such file", Box::new(|p| fs::remove_file(p.join(STATE)).unwrap())),
        ("No such file", Box::new(|p| fs::remove_file(p.join(MANIFEST)).unwrap())),
        ("EOF", Box::new(|p| cut(&p.join(MANIFEST), 100))),
        ("it is not there", Box::new(|p| fs::remove_dir_all(p).unwrap())),
        (
            "not a regular file",
            Box::new(|p| {
                fs::remove_file(p.join(MODEL)).unwrap();
                fs::create_dir(p.join(MODEL)).unwrap();
            }),
        ),
        (
            "version 7",
            Box::new(|p| {
                let text = fs::read_to_string(p.join(MANIFEST)).unwrap();
                fs::write(p.join(MANIFEST), text.replace("\"version\": 1", "\"version\": 7")).unwrap();
            }),
        ),
        (
            "names a file",
            Box::new(|p| {
                let text = fs::read_to_string(p.join(MANIFEST)).unwrap();
                fs::write(p.join(MANIFEST), text.replace(MODEL, "../../etc/passwd")).unwrap();
            }),
        ),
        (
            "more than the limit",
            Box::new(|p| {
                let file = fs::File::create(p.join(MANIFEST)).unwrap();
                file.set_len(1 << 21).unwrap();
            }),
        ),
    ];
    for (reason, damage) in cases {
        let found = damaged(damage).unwrap().unwrap();
        assert_holds(&found.loaded, 0, 1);
        assert!(found.skipped.len() == 1 && found.skipped[0].contains(reason), "{reason}: {:?}", found.skipped);
    }
}

fn cut(path: &Path, to: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(to).unwrap();
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn where_none_is_whole_every_reason_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::new(folder.path(), 2);
    for update in [1, 2] {
        flip(&writer.write(&contents(0, update)).unwrap().join(MODEL), 7);
    }
    let error = newest(folder.path()).unwrap_err().to_string();
    assert!(error.contains("update-000000001") && error.contains("update-000000002"), "{error}");
}

#[test]
fn names_are_read_as_they_are_written_and_nothing_else_is_one() {
    for name in [Name::Update { fold: 3, update: 1500 }, Name::Best { fold: 12 }] {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    for other in ["fold-3-best", "fold-003", "fold-003-update-", "fold-003-update-+00000001", "latest", ".tmp-old", ""]
    {
        assert_eq!(other.parse::<Name>(), Err(()), "{other}");
    }
}

proptest! {
    #[test]
    fn no_change_of_a_byte_is_believed(file in 0usize..3, at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let name = [MODEL, STATE, MANIFEST][file];
        let found = damaged(|path| {
            let mut bytes = fs::read(path.join(name)).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            fs::write(path.join(name), bytes).unwrap();
        });
        let found = found.unwrap().unwrap();
        // a changed place in the manifest can be read for what it says; the files it describes are still the ones
        if found.skipped.is_empty() {
            prop_assert_eq!(name, MANIFEST);
            let files = contents(0, 2).files;
            prop_assert!(files.iter().all(|(name, bytes)| found.loaded.file(name).unwrap() == bytes));
        } else {
            assert_holds(&found.loaded, 0, 1);
        }
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<Vec<(u64, String, Option<Vec<f64>>)>>("noise", &bytes);
        let _ = moments(&bytes, 3);
    }
}

/// This test program, asked to run `test` alone with `folder` for a child.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD, folder).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

#[test]
fn a_writer_killed_at_any_moment_leaves_this_one_or_the_one_before() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let writer = Writer::new(folder, 2);
        let mut out = std::io::stdout();
        for update in 1.. {
            writeln!(out, "writing {update}").and_then(|()| out.flush()).unwrap();
            writer.write(&contents(0, update)).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let test = "checkpoint::tests::a_writer_killed_at_any_moment_leaves_this_one_or_the_one_before";
    let mut draw = crate::seed::Streams::new(4).draw("kill", 0, 0);
    let mut cut_short = 0;
    for _ in 0..50 {
        let mut child = child(test, folder.path()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wanted = 2 + crate::seed::below(&mut draw, 4);
        let mut writing = 0;
        while writing < wanted as u64 {
            let line = lines.next().unwrap().unwrap();
            if let Some((_, number)) = line.split_once("writing ") {
                writing = number.parse().unwrap();
            }
        }
        // somewhere within this write, or one of the next
        (0..crate::seed::below(&mut draw, 400_000)).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            if let Some((_, number)) = line.split_once("writing ") {
                writing = number.parse().unwrap();
            }
        }
        let found = newest(folder.path()).unwrap().expect("there was one before");
        let update = found.loaded.point.update;
        assert!(update == writing || update == writing - 1, "{update} while {writing} was written");
        assert_holds(&found.loaded, 0, update);
        assert!(found.skipped.len() <= 1, "{:?}", found.skipped);
        cut_short += u32::from(names(folder.path()).iter().any(|name| name.starts_with(".tmp")));
        // the child of the next round begins at update 1 again, over what is there
        fs::remove_dir_all(folder.path()).unwrap();
        fs::create_dir(folder.path()).unwrap();
    }
    assert!(cut_short > 0, "no kill fell into a write: the moments are badly chosen");
}

#[test]
fn a_full_disk_keeps_the_last_good_one() {
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{SigSet, Signal};
    if let Some(folder) = std::env::var_os(CHILD) {
        let writer = Writer::new(folder, 2);
        writer.write(&contents(0, 1)).unwrap();
        // files may not grow past this: what a write then gets is an error, as on a full disk
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGXFSZ);
        blocked.thread_block().unwrap();
        setrlimit(Resource::RLIMIT_FSIZE, 20_000, 20_000).unwrap();
        let error = writer.write(&contents(0, 2)).unwrap_err();
        println!("refused {}", matches!(error, CheckpointError::Io { what: "write", .. }));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let test = "checkpoint::tests::a_full_disk_keeps_the_last_good_one";
    let output = child(test, folder.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("refused true"));
    assert_eq!(names(folder.path()), ["fold-000-update-000000001", LATEST]);
    assert_holds(&newest(folder.path()).unwrap().unwrap().loaded, 0, 1);
}

#[test]
fn weights_and_moments_come_back_and_equal_ones_are_equal_bytes() {
    use crate::networks::{CandleNetwork, Head, QSettings};
    use crate::optimizer::Moments;
    use crate::parallel::Layout;
    use candle_core::{DType, Device};
    let network = |seed, width| {
        let hidden = vec![width];
        let of = QSettings { observation: 3, actions: 2, hidden, head: Head::Value, dueling: false, noise: None };
        let (network, streams) = (of.network().into(), crate::seed::Streams::new(seed));
        CandleNetwork::new(network, DType::F32, &Device::Cpu, &streams).unwrap()
    };
    let (a, b, wide) = (network(1, 4), network(2, 4), network(1, 5));
    let layout = Layout::of(a.parameters());
    let bytes = weights_bytes(&layout, a.parameters()).unwrap();
    assert_eq!(bytes, weights_bytes(&layout, network(1, 4).parameters()).unwrap());
    assert!(load_weights(&bytes, &Layout::of(wide.parameters()), wide.parameters()).is_err());
    assert!(load_weights(&bytes[..bytes.len() - 1], &layout, b.parameters()).is_err());
    load_weights(&bytes, &layout, b.parameters()).unwrap();
    assert_eq!(bytes, weights_bytes(&layout, b.parameters()).unwrap());
    // flat parameters are the same file
    let mut flat = vec![0f32; layout.total()];
    load_flat(&bytes, &layout, &mut flat).unwrap();
    assert_eq!(flat_bytes(&layout, &flat).unwrap(), bytes);
    let before = flat.clone();
    assert!(load_flat(&bytes[..bytes.len() - 1], &layout, &mut flat).is_err());
    assert!(load_flat(&bytes, &Layout::of(wide.parameters()), &mut flat).is_err());
    assert!(load_flat(&bytes, &layout, &mut vec![0f64; layout.total()]).is_err());
    assert_eq!(flat, before);
    for state in [Moments::F32 { m: vec![1.5, -2.0], v: vec![0.1, 0.2] }, Moments::F64 { m: vec![0.1], v: vec![7.0] }] {
        let len = if let Moments::F32 { m, .. } = &state { m.len() } else { 1 };
        let bytes = moments_bytes(&state).unwrap();
        assert_eq!(moments(&bytes, len).unwrap(), state);
        assert!(moments(&bytes, len + 1).is_err());
    }
}
