//! The repository's own files, as the tests of house rules read them.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// What builds and runs leave behind, and what is not ours.
fn is_made(name: &str) -> bool {
    name.starts_with("target") || [".git", ".cuda", ".gpu", "runs", "corpus", "artifacts"].contains(&name)
}

/// Every file below `folder`, in the order of names, as paths relative to the workspace's folder.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let (root, mut found, mut open) = (root(), Vec::new(), vec![PathBuf::from(folder)]);
    while let Some(folder) = open.pop() {
        for (name, is_folder) in entries(&root.join(&folder)) {
            let path = if folder.as_os_str().is_empty() { PathBuf::from(&name) } else { folder.join(&name) };
            match is_folder {
                _ if is_made(&name) => {}
                true => open.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}

/// Names in `folder` (absolute) and whether each is a folder, sorted; none if there is no such folder.
pub(crate) fn entries(folder: &Path) -> Vec<(String, bool)> {
    let mut names: Vec<(String, bool)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path().is_dir()))
        .filter(|(name, _)| !is_made(name))
        .collect();
    names.sort();
    names
}

/// A file's text, by its path relative to the workspace's folder.
pub(crate) fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `source` without comments and without its inline test module, so that only what is built for users is left.
pub(crate) fn shipped(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or(source);
    let code = |line: &str| match line.find("//") {
        // An address in a string is no comment.
        Some(at) if !line[..at].ends_with(':') => line[..at].to_owned(),
        _ => line.to_owned(),
    };
    source.lines().map(code).collect::<Vec<_>>().join("\n")
}
