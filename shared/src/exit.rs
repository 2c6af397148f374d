//! Every exit code of the launcher and of the workers, in one place.
//!
//! A job ends with the code of its *first cause*: the code of the worker that failed first, or 128 + the
//! signal that killed it. What foxlaunch itself has to say stays clear of the codes programs use: sysexits
//! (64-78) for bad input, and 90-95 for ends that only a launcher can see.

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: i32 = $code;)+

        /// Every code with its meaning, in order; the README's table is made from it.
        pub const TABLE: &[(i32, &str)] = &[$(($code, concat!($($doc),+))),+];
    };
}

codes! {
    /// Everything ended well.
    OK = 0;
    /// A worker failed without saying more (its own code is passed on where it has one).
    FAILURE = 1;
    /// The command line is wrong: nothing was started.
    USAGE = 2;
    /// An input file is damaged or holds something else: file, offset or row, and reason are named.
    DATA = 65;
    /// An input file is missing, unreadable or empty.
    NO_INPUT = 66;
    /// A device that was asked for, or a worker that can use it, is not there.
    UNAVAILABLE = 69;
    /// A fault inside foxlaunch.
    SOFTWARE = 70;
    /// An output folder or file cannot be written.
    CANT_CREATE = 73;
    /// The job ended in order before its time, with a checkpoint: start it again with --resume ("requeue me").
    TRY_AGAIN = 75;
    /// A setting is unknown or out of range.
    CONFIG = 78;
    /// A worker gave no sign of progress for longer than allowed.
    HANG = 90;
    /// A worker failed because another one had: never the first cause.
    COLLATERAL = 92;
    /// Restarting does not help: attempts in a row made no progress ("do not requeue me").
    NO_PROGRESS = 93;
    /// The supervisor itself was killed; everything it had started was ended.
    SUPERVISOR_LOST = 94;
    /// The program to run is there but cannot be executed.
    NOT_EXECUTABLE = 126;
    /// The program to run, or a library that it needs, was not found.
    NOT_FOUND = 127;
}

/// The code for a death by `signal`, as shells give it.
pub fn of_signal(signal: i32) -> i32 {
    128 + signal
}

/// A short meaning for `code`, if it is one of ours or a death by signal.
pub fn meaning(code: i32) -> Option<&'static str> {
    TABLE.iter().find(|(c, _)| *c == code).map(|(_, text)| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_never_look_like_a_signal() {
        for (i, (code, _)) in TABLE.iter().enumerate() {
            assert!((0..128).contains(code), "{code}");
            assert!(TABLE[..i].iter().all(|(other, _)| other != code), "{code} twice");
        }
    }
}
