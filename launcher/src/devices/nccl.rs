//! The NCCL library that a worker would load, found as the dynamic linker finds it. It is not loaded: its version is
//! read from its file's name, or from the words inside.

use crate::process::command::Program;
use std::io::Read;
use std::path::{Path, PathBuf};

const NAME: &str = "libnccl.so.2";

/// A library that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Where it is.
    pub path: PathBuf,
    /// Its version, where it can be told.
    pub version: Option<String>,
}

/// The first in `LD_LIBRARY_PATH`, else the one that the linker's cache names.
pub fn find() -> Option<Library> {
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let in_folders = std::env::split_paths(&folders).map(|folder| folder.join(NAME)).find(|path| path.is_file());
    let path = in_folders.or_else(|| ["/sbin/ldconfig", "ldconfig"].into_iter().find_map(in_cache))?;
    let version = version_of_name(&path).or_else(|| version_inside(std::fs::File::open(&path).ok()?));
    Some(Library { path, version })
}

fn in_cache(ldconfig: &str) -> Option<PathBuf> {
    let question = Program { program: ldconfig.into(), args: vec!["-p".into()], set: Vec::new(), unset: Vec::new() };
    path_in_cache(&String::from_utf8_lossy(&question.ask().ok()?.stdout))
}

/// The path in a line as `libnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2`.
fn path_in_cache(cache: &str) -> Option<PathBuf> {
    let line = cache.lines().find(|line| line.trim_start().starts_with(&format!("{NAME} ")))?;
    line.split_once(" => ").map(|(_, path)| path.trim().into())
}

/// `2.28.3` of a link to `libnccl.so.2.28.3`.
fn version_of_name(path: &Path) -> Option<String> {
    let real = std::fs::canonicalize(path).ok()?;
    let version = real.file_name()?.to_str()?.strip_prefix("libnccl.so.")?;
    (version.matches('.').count() >= 2).then(|| version.to_owned())
}

/// The library holds its version as a line of text, to print it.
fn version_inside(mut file: impl Read) -> Option<String> {
    const WORDS: &[u8] = b"NCCL version ";
    const LONGEST: usize = 48;
    let mut window: Vec<u8> = Vec::new();
    let mut block = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut block).ok()?;
        window.extend_from_slice(&block[..read]);
        let mut from = 0;
        while let Some(at) = find_bytes(&window[from..], WORDS) {
            let after = &window[from + at + WORDS.len()..];
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b".+-".contains(byte);
            let version: Vec<u8> = after.iter().copied().take(LONGEST).take_while(is_part).collect();
            // Cut by the end of the block: it is whole once more is read.
            let is_whole = version.len() < after.len() || read == 0;
            if is_whole && version.first().is_some_and(u8::is_ascii_digit) {
                return String::from_utf8(version).ok();
            }
            from += at + 1;
        }
        if read == 0 {
            return None;
        }
        let keep = window.len().saturating_sub(WORDS.len() + LONGEST);
        window.drain(..keep);
    }
}

fn find_bytes(text: &[u8], words: &[u8]) -> Option<usize> {
    let first = words.first()?;
    let mut from = 0;
    // The first byte is sought alone, which the standard library does quickly.
    while let Some(at) = text[from..].iter().position(|byte| byte == first) {
        if text[from + at..].starts_with(words) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_name_or_inside() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("libnccl.so.2.28.3"), folder.path().join(NAME));
        std::fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(version_of_name(&link).as_deref(), Some("2.28.3"));
        let plain = folder.path().join("libnccl.so.3");
        std::fs::write(&plain, "").unwrap();
        assert_eq!(version_of_name(&plain), None);
    }

    #[test]
    fn words_are_found_wherever_a_block_ends() {
        let text = b"NCCL version %d\0NCCL versiNCCL version 2.28.9+cuda13.0\0";
        for before in [0, 1, (1 << 20) - 40, (1 << 20) - 20, (1 << 20) - 1, 3 << 20] {
            let mut bytes = vec![b'N'; before];
            bytes.extend_from_slice(text);
            assert_eq!(version_inside(bytes.as_slice()).as_deref(), Some("2.28.9+cuda13.0"), "after {before}");
        }
        assert_eq!(version_inside(&b"NCCL version "[..]), None);
        assert_eq!(version_inside(&b""[..]), None);
    }

    #[test]
    fn the_linkers_cache_is_read() {
        let cache =
            "2 libs found\n\tlibnccl.so.22 (libc6) => /x\n\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2\n";
        assert_eq!(path_in_cache(cache).unwrap(), Path::new("/usr/lib/libnccl.so.2"));
        assert_eq!(path_in_cache("0 libs found\n"), None);
    }
}
