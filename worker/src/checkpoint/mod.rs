//! Checkpoints: folders that are either whole or not there.
//!
//! ```text
//! checkpoints/
//!   fold-000-update-000001500/
//!     model.safetensors       the weights; nothing in it varies by run
//!     optimizer.safetensors   the optimiser's moments
//!     state.bin               counters, replay memory, environments
//!     ...                     what the trainer adds: target.safetensors, best.safetensors, run.bin, policy.json
//!     manifest.json           version, place in the run, size and SHA-256 of each file
//!   fold-000-best/            the weights with the best validation score of a fold, and policy.json to act by them
//!   latest -> fold-000-update-000001500
//! ```
//!
//! A folder is written beside its place, every file and the folder synced, then renamed; `latest` moves last. So a
//! kill or a full disk at any moment leaves the one before. A reader believes nothing that does not match the
//! manifest, and falls back.

mod keep;
mod read;
mod state;
mod tensors;
mod write;

pub use keep::Name;
pub use read::{Found, Loaded, newest, read};
pub use state::{decode, encode};
pub use tensors::{flat_bytes, load_flat, load_weights, moments, moments_bytes, weights_bytes};
pub use write::Writer;

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The form of checkpoints that this code writes, and the only one that it reads.
pub const VERSION: u32 = 1;
/// The weights.
pub const MODEL: &str = "model.safetensors";
/// The optimiser's moments.
pub const OPTIMIZER: &str = "optimizer.safetensors";
/// Everything else that training goes on from.
pub const STATE: &str = "state.bin";
/// What the folder should hold.
pub const MANIFEST: &str = "manifest.json";
/// The link to the newest checkpoint.
pub const LATEST: &str = "latest";

/// Why a checkpoint could not be written or read.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried, as `write`.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Not a checkpoint of ours, or no longer as it was written.
    #[error("{}: {reason}", path.display())]
    Damaged {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// None of a run's checkpoints can be used.
    #[error("no usable checkpoint in {}: {}", root.display(), if reasons.is_empty() { "there is none".to_owned() } else { reasons.join("; ") })]
    NoneUsable {
        /// The folder of checkpoints.
        root: PathBuf,
        /// What is wrong with each.
        reasons: Vec<String>,
    },
    /// A value that cannot be turned into bytes, or bytes that are no such value.
    #[error("{what}: {reason}")]
    Form {
        /// Which file or value.
        what: String,
        /// What is wrong.
        reason: String,
    },
}

impl CheckpointError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CheckpointError {
        let path = path.to_owned();
        move |source| CheckpointError::Io { what, path, source }
    }

    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> CheckpointError {
        CheckpointError::Damaged { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn form(what: &str, reason: impl ToString) -> CheckpointError {
        CheckpointError::Form { what: what.to_owned(), reason: reason.to_string() }
    }
}

/// Where in a run a checkpoint was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Which fold, from 0.
    pub fold: u32,
    /// Optimiser updates of this fold so far.
    pub update: u64,
    /// Environment steps of this fold so far.
    pub step: u64,
    /// Digest of the settings that decide the numbers.
    pub config_digest: String,
    /// Digest of the bars that it was trained on.
    pub data_digest: String,
}

/// What a checkpoint holds: its place in the run, and files by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// Where it was taken.
    pub point: Point,
    /// File names without folders, and their bytes.
    pub files: Vec<(String, Vec<u8>)>,
}

/// One file, as the manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileEntry {
    name: String,
    bytes: u64,
    sha256: String,
}

/// `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    #[serde(flatten)]
    point: Point,
    files: Vec<FileEntry>,
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests;
