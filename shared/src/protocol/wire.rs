//! Frames: bincode with a size limit, checked for attempt and rank before anything is believed.
//!
//! The channel below carries opaque bytes (its own decoder panics on foreign packets), so a hostile or
//! stale frame costs its sender an error here and nothing else.

use crate::ids::{Attempt, Rank};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Says that a frame is ours; its lower half is the form's version.
const MAGIC: u32 = 0xF0C5_0001;
/// Where the version stands in [`MAGIC`].
const VERSION: u32 = 0xFFFF;
/// No message is longer: the largest, `Fault` and `Welcome`, are a few kilobytes.
pub const MAX_FRAME: usize = 256 * 1024;

/// A message with the sender's (or receiver's) place.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope<M> {
    /// The start of the world that it belongs to.
    pub attempt: Attempt,
    /// The worker that sent it or is meant by it.
    pub rank: Rank,
    /// What is said.
    pub message: M,
}

/// Why a frame was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// Longer than [`MAX_FRAME`].
    #[error("a frame of {0} bytes, longer than the limit of {MAX_FRAME}")]
    TooLong(usize),
    /// Not one of ours, or damaged.
    #[error("not a foxlaunch frame: {0}")]
    Garbage(String),
    /// One of ours, in the form of another version.
    #[error("a frame of version {got}, not {}; build launcher and worker from one source", MAGIC & VERSION)]
    WrongVersion {
        /// What the frame says.
        got: u32,
    },
    /// From another start of the world.
    #[error("a frame of attempt {got} where attempt {expected} runs")]
    WrongAttempt {
        /// What the frame says.
        got: Attempt,
        /// What runs.
        expected: Attempt,
    },
    /// From another rank than the one whose channel this is.
    #[error("a frame of rank {got} on the channel of rank {expected}")]
    WrongRank {
        /// What the frame says.
        got: Rank,
        /// Whose channel it is.
        expected: Rank,
    },
}

fn bincode_config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_FRAME>()
}

/// Turns `message` into a frame.
pub fn encode<M: Serialize>(attempt: Attempt, rank: Rank, message: &M) -> Result<Vec<u8>, WireError> {
    let bytes = bincode::serde::encode_to_vec((MAGIC, attempt, rank, message), bincode_config())
        .map_err(|e| WireError::Garbage(e.to_string()))?;
    if bytes.len() > MAX_FRAME {
        return Err(WireError::TooLong(bytes.len()));
    }
    Ok(bytes)
}

/// Reads a frame that should come from `rank` in `attempt`.
pub fn decode<M: DeserializeOwned>(frame: &[u8], attempt: Attempt, rank: Rank) -> Result<M, WireError> {
    let envelope: Envelope<M> = decode_any(frame)?;
    if envelope.attempt != attempt {
        return Err(WireError::WrongAttempt { got: envelope.attempt, expected: attempt });
    }
    if envelope.rank != rank {
        return Err(WireError::WrongRank { got: envelope.rank, expected: rank });
    }
    Ok(envelope.message)
}

/// Reads a frame from anyone.
pub fn decode_any<M: DeserializeOwned>(frame: &[u8]) -> Result<Envelope<M>, WireError> {
    if frame.len() > MAX_FRAME {
        return Err(WireError::TooLong(frame.len()));
    }
    // The head is read by itself first, so that foreign bytes are called foreign, whatever they would decode to.
    let head: Result<((u32, Attempt, Rank), usize), _> = bincode::serde::decode_from_slice(frame, bincode_config());
    match head {
        Ok(((MAGIC, _, _), _)) => {}
        Ok(((magic, _, _), _)) if magic & !VERSION == MAGIC & !VERSION => {
            return Err(WireError::WrongVersion { got: magic & VERSION });
        }
        Ok(((magic, _, _), _)) => return Err(WireError::Garbage(format!("it begins with {magic:#x}"))),
        Err(e) => return Err(WireError::Garbage(e.to_string())),
    }
    let ((_, attempt, rank, message), read): ((u32, Attempt, Rank, M), usize) =
        bincode::serde::decode_from_slice(frame, bincode_config()).map_err(|e| WireError::Garbage(e.to_string()))?;
    if read != frame.len() {
        return Err(WireError::Garbage(format!("{} bytes behind its end", frame.len() - read)));
    }
    Ok(Envelope { attempt, rank, message })
}

#[cfg(test)]
mod tests {
    use super::super::message::*;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_comes_back_as_it_went() {
        let message = FromWorker::Fault(Fault { message: "disk full".into(), code: 73, blames: Some(Rank(3)) });
        let frame = encode(Attempt(2), Rank(1), &message).unwrap();
        assert_eq!(decode::<FromWorker>(&frame, Attempt(2), Rank(1)).unwrap(), message);
    }

    #[test]
    fn stale_and_foreign_frames_are_told_apart() {
        let frame = encode(Attempt(1), Rank(1), &FromWorker::Bye).unwrap();
        assert_eq!(
            decode::<FromWorker>(&frame, Attempt(2), Rank(1)),
            Err(WireError::WrongAttempt { got: Attempt(1), expected: Attempt(2) })
        );
        assert_eq!(
            decode::<FromWorker>(&frame, Attempt(1), Rank(0)),
            Err(WireError::WrongRank { got: Rank(1), expected: Rank(0) })
        );
        assert!(matches!(decode::<FromWorker>(b"GET / HTTP/1.1", Attempt(1), Rank(0)), Err(WireError::Garbage(_))));
        let other = bincode::serde::encode_to_vec((MAGIC + 1, Attempt(1), Rank(0)), bincode_config()).unwrap();
        assert_eq!(decode::<FromWorker>(&other, Attempt(1), Rank(0)), Err(WireError::WrongVersion { got: 2 }));
        let long = vec![0; MAX_FRAME + 1];
        assert_eq!(decode::<FromWorker>(&long, Attempt(1), Rank(0)), Err(WireError::TooLong(MAX_FRAME + 1)));
    }

    #[test]
    fn a_message_over_the_limit_is_refused_by_its_sender() {
        let message = FromWorker::Note("x".repeat(MAX_FRAME + 1));
        assert!(encode(Attempt(1), Rank(0), &message).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = decode_any::<FromWorker>(&bytes);
            let _ = decode_any::<FromLauncher>(&bytes);
        }

        #[test]
        fn a_damaged_frame_never_panics(at in 0usize..64, bit in 0u8..8) {
            let hello = FromWorker::Hello(Hello {
                pid: 7, world_size: crate::ids::WorldSize(2), transport: Transport::Shm, arena_bytes: 1 << 20,
                comm_id: Some(CommId(vec![9; 128])), stops_when_told: true,
            });
            let mut frame = encode(Attempt(1), Rank(0), &hello).unwrap();
            let at = at % frame.len();
            frame[at] ^= 1 << bit;
            let _ = decode::<FromWorker>(&frame, Attempt(1), Rank(0));
        }
    }
}
