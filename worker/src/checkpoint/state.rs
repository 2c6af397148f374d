//! Values as bytes: bincode with a size limit, so that damaged bytes cannot ask for endless memory.

use super::CheckpointError;
use serde::{Serialize, de::DeserializeOwned};

/// No state is larger: a replay memory of market states takes about 60 bytes a transition.
const MAX_STATE: usize = 1 << 34;

fn form() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_STATE>()
}

/// `value` as bytes; `what` is its name in errors.
pub fn encode<T: Serialize>(what: &str, value: &T) -> Result<Vec<u8>, CheckpointError> {
    bincode::serde::encode_to_vec(value, form()).map_err(|e| CheckpointError::form(what, e))
}

/// The value that `bytes`, all of them, stand for; `what` is its name in errors.
pub fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, CheckpointError> {
    let (value, read) = bincode::serde::decode_from_slice(bytes, form()).map_err(|e| CheckpointError::form(what, e))?;
    if read != bytes.len() {
        return Err(CheckpointError::form(what, format!("{} bytes behind its end", bytes.len() - read)));
    }
    Ok(value)
}
