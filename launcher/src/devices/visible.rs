//! The rules of `CUDA_VISIBLE_DEVICES` and `--gpus`, as pure functions.
//!
//! Indices in `--gpus` count within the inherited list, so a launch never reaches a device that was not given to
//! it. Tokens, ordinals or `GPU-…`/`MIG-…`, are passed on as they were written.

use super::Gpu;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Words that schedulers and users write for "no device".
const NONE_WORDS: [&str; 5] = ["", "-1", "none", "void", "nodevfiles"];

/// Why a list of devices was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum VisibleError {
    /// Nothing between two commas.
    #[error("{list}: entry {place} is blank")]
    Blank {
        /// Which list.
        list: String,
        /// Which entry, from 1.
        place: usize,
    },
    /// The same device twice.
    #[error("{list}: {token:?} stands there twice")]
    Duplicate {
        /// Which list.
        list: String,
        /// The entry.
        token: String,
    },
    /// Neither an ordinal nor a UUID.
    #[error("{list}: {token:?} is neither a device's number nor GPU-… or MIG-…")]
    Malformed {
        /// Which list.
        list: String,
        /// The entry.
        token: String,
    },
    /// A number that no device has.
    #[error("{list}: there is no device {token}; {there}")]
    OutOfRange {
        /// Which list.
        list: String,
        /// The entry.
        token: String,
        /// What there is.
        there: String,
    },
}

/// One entry of a list of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A number.
    Ordinal(u32),
    /// A UUID, possibly shortened, with its prefix.
    Uuid(String),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Ordinal(n) => n.fmt(f),
            Token::Uuid(uuid) => uuid.fmt(f),
        }
    }
}

/// What `--gpus` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gpus {
    /// Every device that is visible.
    All,
    /// No device.
    None,
    /// These, in this order.
    List(Vec<Token>),
}

impl FromStr for Gpus {
    type Err = VisibleError;

    fn from_str(text: &str) -> Result<Gpus, VisibleError> {
        match text.trim().to_lowercase().as_str() {
            "all" => Ok(Gpus::All),
            "none" => Ok(Gpus::None),
            _ => Ok(Gpus::List(parse("--gpus", text)?)),
        }
    }
}

/// Reads a list of devices, refusing what CUDA would silently cut short.
fn parse(list: &str, text: &str) -> Result<Vec<Token>, VisibleError> {
    let list = || list.to_owned();
    let mut tokens: Vec<Token> = Vec::new();
    for (place, entry) in text.split(',').map(str::trim).enumerate() {
        if entry.is_empty() {
            return Err(VisibleError::Blank { list: list(), place: place + 1 });
        }
        let is_uuid = |prefix| entry.strip_prefix(prefix).is_some_and(|rest: &str| !rest.is_empty());
        let token = match entry.parse() {
            Ok(ordinal) if !entry.starts_with('+') => Token::Ordinal(ordinal),
            _ if is_uuid("GPU-") || is_uuid("MIG-") => Token::Uuid(entry.to_owned()),
            _ => return Err(VisibleError::Malformed { list: list(), token: entry.to_owned() }),
        };
        if tokens.contains(&token) {
            return Err(VisibleError::Duplicate { list: list(), token: entry.to_owned() });
        }
        tokens.push(token);
    }
    Ok(tokens)
}

/// The devices that this process may see: the inherited list, or all that the machine has.
///
/// `inherited` is the value of `CUDA_VISIBLE_DEVICES`, if it is set.
pub fn visible(inherited: Option<&str>, machine: &[Gpu]) -> Result<Vec<Token>, VisibleError> {
    let Some(text) = inherited else {
        return Ok(machine.iter().map(|gpu| Token::Ordinal(gpu.index)).collect());
    };
    if NONE_WORDS.contains(&text.trim().to_lowercase().as_str()) {
        return Ok(Vec::new());
    }
    let tokens = parse("CUDA_VISIBLE_DEVICES", text)?;
    for token in &tokens {
        check_exists("CUDA_VISIBLE_DEVICES", token, machine)?;
    }
    Ok(tokens)
}

/// The devices to use, out of the visible ones.
pub fn select(request: &Gpus, visible: &[Token], machine: &[Gpu]) -> Result<Vec<Token>, VisibleError> {
    let list = || "--gpus".to_owned();
    let tokens = match request {
        Gpus::All => return Ok(visible.to_vec()),
        Gpus::None => return Ok(Vec::new()),
        Gpus::List(tokens) => tokens,
    };
    let mut chosen: Vec<Token> = Vec::new();
    for token in tokens {
        let found = match token {
            Token::Ordinal(n) => visible.get(*n as usize).cloned().ok_or_else(|| VisibleError::OutOfRange {
                list: list(),
                token: token.to_string(),
                there: match visible.len() {
                    0 => "no device is visible".to_owned(),
                    1 => format!("the one visible device is number 0 ({})", visible[0]),
                    n => format!("the visible devices are numbers 0 to {} ({})", n - 1, join(visible)),
                },
            })?,
            Token::Uuid(uuid) => {
                check_exists("--gpus", token, machine)?;
                let is_visible = visible.iter().any(|v| same_device(v, uuid, machine));
                // A slice may be one of a whole device that is visible: which, only CUDA knows.
                let may_be_part = uuid.starts_with("MIG-") && visible.iter().any(|token| !is_slice(token));
                if !is_visible && !may_be_part {
                    let there = match visible {
                        [] => "no device is visible".to_owned(),
                        some => format!("CUDA_VISIBLE_DEVICES allows {}", join(some)),
                    };
                    return Err(VisibleError::OutOfRange { list: list(), token: uuid.clone(), there });
                }
                token.clone()
            }
        };
        // One device may be called by its number and by its name.
        let device = device_of(&found, machine);
        if chosen.iter().any(|other| *other == found || (device.is_some() && device_of(other, machine) == device)) {
            return Err(VisibleError::Duplicate { list: list(), token: token.to_string() });
        }
        chosen.push(found);
    }
    Ok(chosen)
}

fn check_exists(list: &str, token: &Token, machine: &[Gpu]) -> Result<(), VisibleError> {
    let exists = match token {
        Token::Ordinal(n) => machine.iter().any(|gpu| gpu.index == *n),
        Token::Uuid(uuid) if uuid.starts_with("GPU-") => machine.iter().any(|gpu| gpu.uuid.starts_with(uuid)),
        // The driver's list holds whole devices; a slice's own name is left to CUDA to check.
        Token::Uuid(_) => true,
    };
    if exists {
        return Ok(());
    }
    let there = match machine.len() {
        0 => "this machine has no NVIDIA device".to_owned(),
        n => format!("this machine has devices 0 to {}", n - 1),
    };
    Err(VisibleError::OutOfRange { list: list.to_owned(), token: token.to_string(), there })
}

/// Whether `token` names a part of a device.
fn is_slice(token: &Token) -> bool {
    matches!(token, Token::Uuid(uuid) if uuid.starts_with("MIG-"))
}

/// Whether the visible `token` names the device with this UUID.
fn same_device(token: &Token, uuid: &str, machine: &[Gpu]) -> bool {
    match token {
        Token::Uuid(visible) => visible.starts_with(uuid) || uuid.starts_with(visible.as_str()),
        Token::Ordinal(n) => machine.iter().any(|gpu| gpu.index == *n && gpu.uuid.starts_with(uuid)),
    }
}

/// The device that `token` names, if the driver's list has it: it holds whole devices.
pub fn device_of<'a>(token: &Token, machine: &'a [Gpu]) -> Option<&'a Gpu> {
    machine.iter().find(|gpu| match token {
        Token::Ordinal(n) => gpu.index == *n,
        Token::Uuid(uuid) => gpu.uuid.starts_with(uuid),
    })
}

/// A list as `CUDA_VISIBLE_DEVICES` takes it.
pub fn join(tokens: &[Token]) -> String {
    tokens.iter().map(Token::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn machine(n: u32) -> Vec<Gpu> {
        let gpu = |index| Gpu {
            index,
            uuid: format!("GPU-{index}a7b"),
            name: "H200".into(),
            memory_bytes: 1 << 37,
            memory_free_bytes: 0,
            pci_bus_id: String::new(),
        };
        (0..n).map(gpu).collect()
    }

    /// What a worker's device list becomes, or the refusal.
    fn chosen(inherited: Option<&str>, gpus: &str) -> Result<String, String> {
        let machine = machine(8);
        let visible = visible(inherited, &machine).map_err(|e| e.to_string())?;
        let request: Gpus = gpus.parse().map_err(|e: VisibleError| e.to_string())?;
        select(&request, &visible, &machine).map(|tokens| join(&tokens)).map_err(|e| e.to_string())
    }

    #[test]
    fn indices_count_within_the_inherited_list() {
        assert_eq!(chosen(Some("4,5,6,7"), "0,2").unwrap(), "4,6");
        assert_eq!(chosen(Some("4,5,6,7"), "all").unwrap(), "4,5,6,7");
        assert_eq!(chosen(Some("GPU-3a7b,1"), "1,0").unwrap(), "1,GPU-3a7b");
        assert_eq!(chosen(None, "3").unwrap(), "3");
        assert_eq!(chosen(None, "all").unwrap(), "0,1,2,3,4,5,6,7");
        assert_eq!(chosen(Some("0, 1"), "all").unwrap(), "0,1");
    }

    #[test]
    fn uuids_pass_unchanged_and_only_if_visible() {
        assert_eq!(chosen(None, "GPU-5a").unwrap(), "GPU-5a");
        assert_eq!(chosen(Some("GPU-5a7b"), "GPU-5a").unwrap(), "GPU-5a");
        assert_eq!(chosen(Some("5"), "GPU-5a").unwrap(), "GPU-5a");
        assert_eq!(
            chosen(Some("4"), "GPU-5a").unwrap_err(),
            "--gpus: there is no device GPU-5a; CUDA_VISIBLE_DEVICES allows 4"
        );
        assert_eq!(chosen(Some("MIG-11/1/0,MIG-12/1/0"), "1").unwrap(), "MIG-12/1/0");
        assert!(chosen(None, "GPU-zz").unwrap_err().contains("no device GPU-zz"));
    }

    #[test]
    fn a_slice_is_left_to_cuda_only_where_it_may_be_of_a_visible_device() {
        assert_eq!(chosen(None, "MIG-12/1/0").unwrap(), "MIG-12/1/0");
        assert_eq!(chosen(Some("4"), "MIG-12/1/0").unwrap(), "MIG-12/1/0");
        assert!(chosen(Some(""), "MIG-12/1/0").unwrap_err().ends_with("no device is visible"));
        assert!(
            chosen(Some("MIG-11/1/0"), "MIG-12/1/0").unwrap_err().ends_with("CUDA_VISIBLE_DEVICES allows MIG-11/1/0")
        );
    }

    #[test]
    fn a_device_is_taken_once_however_it_is_called() {
        for twice in ["5,GPU-5a7b", "GPU-5a,GPU-5a7b", "GPU-5a7b,5"] {
            assert!(chosen(None, twice).is_err(), "{twice}");
        }
        assert_eq!(chosen(None, "MIG-11/1/0,MIG-11/2/0").unwrap(), "MIG-11/1/0,MIG-11/2/0");
    }

    #[test]
    fn words_for_none_mean_none() {
        for word in ["", "-1", "none", "NoDevFiles", "void"] {
            assert_eq!(chosen(Some(word), "all").unwrap(), "", "{word}");
            assert_eq!(chosen(Some(word), "0").unwrap_err(), "--gpus: there is no device 0; no device is visible");
        }
        assert_eq!(chosen(None, "none").unwrap(), "");
    }

    #[test]
    fn what_cuda_would_cut_short_is_refused_by_name() {
        for (list, reason) in [
            ("0,0", "\"0\" stands there twice"),
            ("0,,1", "entry 2 is blank"),
            ("0,1,", "entry 3 is blank"),
            ("1,-1,0", "\"-1\" is neither"),
            ("1gpu", "\"1gpu\" is neither"),
            ("GPU-", "\"GPU-\" is neither"),
            ("+1", "\"+1\" is neither"),
            ("9", "there is no device 9"),
            ("99999999999", "is neither"),
        ] {
            for (inherited, gpus, name) in [(Some(list), "all", "CUDA_VISIBLE_DEVICES: "), (None, list, "--gpus: ")] {
                let error = chosen(inherited, gpus).unwrap_err();
                assert!(error.starts_with(name) && error.contains(reason), "{list}: {error}");
            }
        }
        assert!(chosen(Some("GPU-0a7b,GPU-0a7b"), "all").unwrap_err().contains("twice"));
        assert!(chosen(Some("4,5"), "2").unwrap_err().contains("numbers 0 to 1 (4,5)"));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_passes_is_unique(inherited in "[0-9GPUMIG,\\- a-z]{0,40}", gpus in "[0-9GPUMIG,\\-a-z]{0,20}") {
            if let Ok(list) = chosen(Some(&inherited), &gpus) {
                let tokens: Vec<_> = list.split(',').filter(|t| !t.is_empty()).collect();
                let unique: std::collections::BTreeSet<_> = tokens.iter().collect();
                prop_assert_eq!(unique.len(), tokens.len());
            }
        }
    }
}
