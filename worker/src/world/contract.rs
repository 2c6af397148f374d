//! What the launcher told this process through its environment.

use super::WorldError;
use foxlaunch_shared::env;
use foxlaunch_shared::ids::{Attempt, Rank, WorldSize};
use foxlaunch_shared::run_dir::RunDir;

/// What this process shall compute on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    /// The host's processor.
    Cpu,
    /// The visible NVIDIA device with this number.
    Cuda(usize),
}

/// The worker contract, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contract {
    /// The name of the channel to the launcher; none without one.
    pub(crate) channel: Option<String>,
    pub(crate) rank: Rank,
    pub(crate) world: WorldSize,
    pub(crate) attempt: Attempt,
    pub(crate) device: DeviceKind,
    pub(crate) run_dir: Option<RunDir>,
}

impl Contract {
    /// Reads it from this process's environment.
    pub(crate) fn from_environment() -> Result<Contract, WorldError> {
        Contract::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Reads it from `look_up`, which gives a variable's value by its name.
    pub(crate) fn read(look_up: impl Fn(&str) -> Option<String>) -> Result<Contract, WorldError> {
        let device = match look_up(env::FOXLAUNCH_DEVICE).as_deref() {
            None | Some("" | "cpu") => DeviceKind::Cpu,
            Some("cuda") => {
                let ordinal = look_up(env::FOXLAUNCH_DEVICE_ORDINAL);
                DeviceKind::Cuda(match ordinal.as_deref() {
                    None | Some("") => 0,
                    Some(text) => number(env::FOXLAUNCH_DEVICE_ORDINAL, text)? as usize,
                })
            }
            Some(other) => return Err(WorldError::variable(env::FOXLAUNCH_DEVICE, other, "it must be cpu or cuda")),
        };
        let run_dir = look_up(env::FOXLAUNCH_RUN_DIR).filter(|path| !path.is_empty()).map(RunDir::new);
        let Some(channel) = look_up(env::FOXLAUNCH_CHANNEL).filter(|name| !name.is_empty()) else {
            // Variables of another launcher, as torchrun's RANK, mean nothing without a channel.
            let (rank, world, attempt) = (Rank(0), WorldSize(1), Attempt::FIRST);
            return Ok(Contract { channel: None, rank, world, attempt, device, run_dir });
        };
        let required = |name: &'static str| {
            let text = look_up(name).ok_or(WorldError::Missing { name })?;
            number(name, &text)
        };
        let world = required(env::WORLD_SIZE)?;
        let rank = required(env::RANK)?;
        let attempt = required(env::FOXLAUNCH_ATTEMPT)?;
        if world == 0 {
            return Err(WorldError::variable(env::WORLD_SIZE, "0", "a world has at least one worker"));
        }
        if rank >= world {
            let why = format!("{} is {world}, so it must be below that", env::WORLD_SIZE);
            return Err(WorldError::variable(env::RANK, &rank.to_string(), &why));
        }
        if attempt == 0 {
            return Err(WorldError::variable(env::FOXLAUNCH_ATTEMPT, "0", "attempts count from 1"));
        }
        let (rank, world, attempt) = (Rank(rank), WorldSize(world), Attempt(attempt));
        Ok(Contract { channel: Some(channel), rank, world, attempt, device, run_dir })
    }
}

fn number(name: &'static str, text: &str) -> Result<u32, WorldError> {
    text.trim().parse().map_err(|_| WorldError::variable(name, text, "it must be a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Contract, WorldError> {
        Contract::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    const FULL: [(&str, &str); 6] = [
        ("FOXLAUNCH_CHANNEL", "/tmp/x"),
        ("RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("FOXLAUNCH_ATTEMPT", "3"),
        ("FOXLAUNCH_DEVICE", "cuda"),
        ("FOXLAUNCH_DEVICE_ORDINAL", "5"),
    ];

    #[test]
    fn without_a_channel_other_launchers_variables_are_not_believed() {
        let contract = read(&[("RANK", "3"), ("WORLD_SIZE", "8")]).unwrap();
        assert_eq!((contract.rank, contract.world), (Rank(0), WorldSize(1)));
        assert_eq!(contract.device, DeviceKind::Cpu);
    }

    #[test]
    fn the_whole_contract_is_read() {
        let contract = read(&FULL).unwrap();
        assert_eq!((contract.rank, contract.world, contract.attempt), (Rank(1), WorldSize(2), Attempt(3)));
        assert_eq!(contract.device, DeviceKind::Cuda(5));
    }

    #[test]
    fn what_is_missing_or_malformed_is_named() {
        for name in ["RANK", "WORLD_SIZE", "FOXLAUNCH_ATTEMPT"] {
            let without: Vec<_> = FULL.iter().copied().filter(|(key, _)| *key != name).collect();
            assert_eq!(read(&without).unwrap_err().to_string().split(' ').next(), Some(name));
            for bad in ["", "-1", "two", "99999999999"] {
                let with = FULL.map(|(key, value)| (key, if key == name { bad } else { value }));
                let text = read(&with).unwrap_err().to_string();
                assert!(text.starts_with(&format!("{name}={bad:?}")), "{text}");
            }
        }
        let beyond = FULL.map(|(key, value)| (key, if key == "RANK" { "2" } else { value }));
        assert!(read(&beyond).unwrap_err().to_string().contains("below"));
        let other = FULL.map(|(key, value)| (key, if key == "FOXLAUNCH_DEVICE" { "tpu" } else { value }));
        assert!(read(&other).unwrap_err().to_string().contains("cpu or cuda"));
    }
}
