//! What can be wrong with bars, each with the exit code that a process ends with because of it.

use foxlaunch_shared::exit;
use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// Where in a file something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line of text, counted from 1, the header included.
    Line(u64),
    /// A record of a DBN file, counted from 0.
    Record(u64),
    /// An offset in bytes, after decompression where the file is compressed.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File => Ok(()),
            Place::Line(line) => write!(f, ", row at line {line}"),
            Place::Record(record) => write!(f, ", record {record} (the first is 0)"),
            Place::Byte(byte) => write!(f, ", byte {byte}"),
        }
    }
}

/// Why bars were refused. Each message is one line that names the place and says what to do.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DataError {
    /// A file that is missing, unreadable or empty.
    #[error("{}: {reason}", .path.display())]
    NoInput {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that is damaged, holds bars that cannot be, or holds something else than bars.
    #[error("{}{place}: {reason}", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: Place,
        /// What is wrong there and what to do.
        reason: String,
    },
    /// Instruments that were asked for and are not there.
    #[error("{origin}: no instrument {}; it holds {}", .missing.join(", "), .there.join(", "))]
    UnknownInstruments {
        /// The data's name.
        origin: String,
        /// What was asked for in vain.
        missing: Vec<String>,
        /// What there is.
        there: Vec<String>,
    },
    /// More instruments than `data.max_instruments`.
    #[error(
        "{origin}: {there} instruments, more than data.max_instruments = {limit}; name those to use in data.instruments"
    )]
    TooManyInstruments {
        /// The data's name.
        origin: String,
        /// How many there are.
        there: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// Bars that do not suffice for what is asked of them.
    #[error("{origin}: {reason}")]
    TooShort {
        /// The data's name.
        origin: String,
        /// What is too short and what to change.
        reason: String,
    },
    /// Data that are not those which a run was trained on so far.
    #[error(
        "{origin}: the data is not what this run began with (its checkpoint is {}); put the old data back, or start a \
         new run", .checkpoint.display()
    )]
    Changed {
        /// The data's name.
        origin: String,
        /// The checkpoint of the run.
        checkpoint: PathBuf,
    },
    /// Columns that do not belong together, handed over by a caller.
    #[error("{origin}: {reason}")]
    Mismatch {
        /// The data's name.
        origin: String,
        /// What does not fit.
        reason: String,
    },
}

impl DataError {
    /// A refusal with the counts of all problems behind it; others as they are.
    pub(super) fn with_counts(mut self, counts: &str) -> DataError {
        if let DataError::Refused { reason, .. } = &mut self {
            *reason = format!("{reason} (in all: {counts})");
        }
        self
    }

    /// The exit code of a process that ends because of this: 66 where there is nothing to read, else 65.
    pub fn exit_code(&self) -> i32 {
        match self {
            DataError::NoInput { .. } => exit::NO_INPUT,
            _ => exit::DATA,
        }
    }
}
