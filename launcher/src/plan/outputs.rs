//! What is done with all that the workers print, and with the run's events.

use super::LaunchPlan;
use crate::cli::LaunchOptions;
use crate::logs::template::{Fields, Prefix, Template};
use foxlaunch_shared::ids::{Attempt, Rank};

/// The smallest limit of a log: its parts hold a line at least.
const LEAST_LOG: u64 = 4 << 10;

/// What is done with output and events.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The most bytes that one worker's log and its parts hold in one attempt.
    pub log_limit: Option<u64>,
    /// What stands before each line on the console; if not said, the rank where there are several.
    pub prefix: Option<Template>,
    /// Whether a log that could not be written makes the job fail.
    pub strict_logs: bool,
    /// Whether events go to standard output, and what the workers print to standard error.
    pub prints_events: bool,
}

impl Outputs {
    /// What `options` ask for.
    pub fn of(options: &LaunchOptions) -> Outputs {
        Outputs {
            log_limit: options.log_max_size,
            prefix: options.log_prefix.clone(),
            strict_logs: options.strict_logs,
            prints_events: options.json,
        }
    }
}

impl LaunchPlan {
    /// What stands before a worker's lines: what was asked for, else its number, which one that works alone needs not.
    pub fn prefix(&self, attempt: Attempt, rank: Rank) -> Prefix {
        match &self.outputs.prefix {
            Some(template) => template.prefix(&Fields {
                rank,
                world_size: self.world().0,
                attempt,
                host: crate::process::surroundings::host_name(),
                run: self.run_id.to_string(),
            }),
            None if self.devices.len() > 1 => Prefix::fixed(format!("[{rank}] ")),
            None => Prefix::default(),
        }
    }
}

/// Reads a size of a log: bytes, or a number with `k`, `M` or `G` (powers of 1024; `KiB`, `MB` and so on mean the same).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let each = match unit.trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 1u64,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return Err(format!("{text:?} is no size: use bytes, or a number with k, M or G, as 100M")),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each));
    match size {
        Some(size) if size >= LEAST_LOG => Ok(size),
        Some(size) => Err(format!("{size} bytes are too few for a log: at least {LEAST_LOG}")),
        None => Err(format!("{text:?} is no size: use bytes, or a number with k, M or G, as 100M")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in
            [("4096", 4096), ("10k", 10 << 10), ("100M", 100 << 20), ("2GiB", 2 << 30), ("5 MB", 5 << 20)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "k", "-1", "1.5M", "10T", "100", "99999999999999999999", "9999999999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
