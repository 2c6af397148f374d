//! The folder for a job's sockets and pipes. The guardian makes and removes it; one whose guardian was killed
//! together with the supervisor stays, and the next start removes it.

use super::cgroup::JobCgroup;
use super::identity::{Fate, Identity};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How the folders' names begin.
const PREFIX: &str = "foxlaunch-";
/// The file in it that says whose it is.
const OWNER: &str = "owner.json";

/// Makes a folder of mode 0700 that belongs to this process. Its path must be short: a socket's is cut at 107 bytes.
pub fn make() -> std::io::Result<tempfile::TempDir> {
    let here = std::env::temp_dir();
    let root = if here.as_os_str().len() <= 50 { here } else { "/tmp".into() };
    let (mut named, ours_alone) = (tempfile::Builder::new(), std::fs::Permissions::from_mode(0o700));
    named.prefix(PREFIX).rand_bytes(8).permissions(ours_alone);
    let folder = named.tempdir_in(&root).map_err(|error| {
        let words = format!("no folder for sockets can be made in {} (TMPDIR): {error}", root.display());
        std::io::Error::new(error.kind(), words)
    })?;
    std::fs::write(folder.path().join(OWNER), serde_json::to_vec(&Identity::mine()?)?)?;
    Ok(folder)
}

/// The process that made `folder`.
pub fn owner(folder: &Path) -> std::io::Result<Identity> {
    Ok(serde_json::from_slice(&std::fs::read(folder.join(OWNER))?)?)
}

/// Removes the folder; also called by the supervisor when the guardian is gone.
pub fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}

/// The folders of jobs in `root`, with what is known of their owners.
pub fn all_in(root: &Path) -> Vec<(PathBuf, Fate)> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let named_so = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let folders = named_so.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    // The folder that lists jobs is named alike, and has no owner's file because it is everyone's.
    let scratch = folders.filter(|path| !path.ends_with(format!("{PREFIX}{}", nix::unistd::geteuid())));
    let with_fate = |path: PathBuf| {
        let fate = owner(&path).map_or(Fate::Unknown, |owner| owner.fate());
        (path, fate)
    };
    scratch.map(with_fate).collect()
}

/// Removes the folders beside `folder` whose owners are known to be gone, with their cgroups. One that cannot be read, or says nothing
/// of its owner, is not ours to judge.
pub fn sweep_beside(folder: &Path) {
    let others = folder.parent().and_then(|root| std::fs::read_dir(root).ok()).into_iter().flatten().flatten();
    let named_so = others.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    // A link's type is that of a link: what it leads to is not followed.
    let folders = named_so.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let paths = folders.map(|entry| entry.path()).filter(|path| path != folder);
    for path in paths.filter(|path| owner(path).is_ok_and(|owner| owner.fate() == Fate::Gone)) {
        // What its workers had started may live, if the whole job was killed in one moment.
        JobCgroup::noted_in(&path).into_iter().for_each(|cgroup| cgroup.end());
        remove(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_one_else_can_look_into_it() {
        let folder = make().unwrap();
        assert_eq!(folder.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(owner(folder.path()).unwrap().fate(), Fate::Alive);
    }

    #[test]
    fn only_what_is_known_to_be_no_ones_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let mine = serde_json::to_value(Identity::mine().unwrap()).unwrap();
        let with = |key: &str, value: serde_json::Value| {
            let mut changed = mine.clone();
            changed[key] = value;
            changed.to_string()
        };
        let folders = [
            ("foxlaunch-dead", with("started", 1.into()), false),
            ("foxlaunch-alive", mine.to_string(), true),
            ("foxlaunch-elsewhere", with("place", "another boot".into()), true),
            ("foxlaunch-torn", "{".to_owned(), true),
            ("other-dead", with("started", 1.into()), true),
            ("foxlaunch-own", with("started", 1.into()), true),
        ];
        for (name, owner, _) in &folders {
            std::fs::create_dir(root.path().join(name)).unwrap();
            std::fs::write(root.path().join(name).join(OWNER), owner).unwrap();
        }
        std::fs::create_dir(root.path().join("foxlaunch-1000")).unwrap();
        let known =
            |name: &str| all_in(root.path()).into_iter().find(|(path, _)| path.ends_with(name)).map(|(_, fate)| fate);
        assert_eq!((known("foxlaunch-dead"), known("foxlaunch-alive")), (Some(Fate::Gone), Some(Fate::Alive)));
        assert_eq!(
            (known("foxlaunch-torn"), known("foxlaunch-elsewhere"), known("other-dead")),
            (Some(Fate::Unknown), Some(Fate::Unknown), None)
        );
        sweep_beside(&root.path().join("foxlaunch-own"));
        for (name, _, stays) in &folders {
            assert_eq!(root.path().join(name).exists(), *stays, "{name}");
        }
        assert!(root.path().join("foxlaunch-1000").exists());
    }
}
