//! The events of a run, as `events.jsonl` keeps them and `--json` prints them: one place for their names, fields and
//! meaning, from which the README's table is made.

use super::health::Rule;
use foxlaunch_shared::ids::{Attempt, Rank};
use foxlaunch_shared::protocol::Phase;
use serde::Serialize;
use std::collections::BTreeMap;

macro_rules! records {
    ($($(#[doc = $doc:literal])+ $name:ident { $($field:ident: $type:ty),* $(,)? };)+) => {
        /// A line of `events.jsonl`, less its times.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "event", rename_all = "snake_case")]
        #[allow(missing_docs)] // the fields are those of `Event`
        pub enum Record {
            $($(#[doc = $doc])+ $name { attempt: Attempt, $($field: $type),* },)+
        }

        /// Every event: its name in Rust, its fields besides `t`, `time`, `event` and `attempt`, and what it says.
        pub const TABLE: &[(&str, &[&str], &str)] =
            &[$((stringify!($name), &[$(stringify!($field)),*], concat!($($doc),+))),+];
    };
}

records! {
    /// An attempt begins.
    Begin { world_size: u32 };
    /// A worker was started.
    Spawn { rank: Rank, pid: u32 };
    /// A worker could not be started.
    SpawnFailed { rank: Rank, code: i32, why: String };
    /// A worker said its first words.
    Hello { rank: Rank };
    /// All workers have said hello and were told so, with the size of their shared memory.
    Welcome { arena_bytes: u64 };
    /// A worker's collective stands.
    Ready { rank: Rank };
    /// A worker did its first step.
    FirstStep { rank: Rank };
    /// How far a worker is: at most one a second for each rank, and its last before it ends. What is not a number is null.
    Progress { rank: Rank, step: u64, total: u64, collectives: u64, phase: Phase, values: BTreeMap<String, f64> };
    /// A checkpoint became the latest.
    Checkpoint { rank: Rank, step: u64, path: String };
    /// A worker said something that a person should read.
    Note { rank: Rank, text: String };
    /// A worker said why it is about to fail.
    Fault { rank: Rank, message: String, code: i32 };
    /// What came over a worker's channel, or its pipe for progress, was not understood and is left out.
    Refused { rank: Rank, why: String };
    /// A worker's log has reached its size, or cannot be written.
    Log { rank: Rank, text: String };
    /// A worker's process ended.
    Exit { rank: Rank, how: String, code: i32 };
    /// A signal reached foxlaunch.
    Signal { signal: i32 };
    /// A worker was sent a signal.
    SignalSent { rank: Rank, signal: i32 };
    /// The job was asked to end.
    Stop { within_ms: u64 };
    /// A worker has stood still for half of the time that it may, by which rule, and for how many seconds.
    Still { rank: Rank, rule: Rule, since_s: f64, words: String };
    /// A worker that had stood still goes on.
    GoesOn { rank: Rank, stood_s: f64 };
    /// A worker stood still for too long, by which rule, and for how many seconds.
    Hang { rank: Rank, rule: Rule, since_s: f64, words: String };
    /// What the threads of a worker that hangs do.
    Threads { rank: Rank, lines: Vec<String> };
    /// The world will be started again, after a wait.
    Restart { used: u32, most: u32, wait_s: f64 };
    /// A worker's device or place is lost: the next attempt has one worker less.
    Lost { place: Rank, why: String, workers: u32 };
    /// A restart waits for devices whose memory is not free yet.
    DevicesHeld { devices: Vec<String> };
    /// A worker is killed, since it did not stop in time.
    Kill { rank: Rank };
    /// Processes that the workers had started live on; they are ended.
    Leftovers { processes: Vec<String> };
    /// The job is over, with this exit code.
    End { code: i32 };
}

/// An event's name as it is written: `FirstStep` is `first_step`.
pub fn written(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_what_is_written() {
        let (attempt, rank) = (Attempt(2), Rank(1));
        let progress = Record::Progress {
            attempt,
            rank,
            step: 3,
            total: 0,
            collectives: 4,
            phase: Phase::Step,
            values: BTreeMap::from([("loss".to_owned(), f64::NAN)]),
        };
        for record in [progress, Record::FirstStep { attempt, rank }, Record::End { attempt, code: 0 }] {
            let line = serde_json::to_value(&record).unwrap();
            let (_, fields, _) = TABLE.iter().find(|(name, ..)| line["event"] == written(name).as_str()).unwrap();
            let mut expected: Vec<&str> = fields.iter().copied().chain(["attempt", "event"]).collect();
            expected.sort_unstable();
            let mut got: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
            got.sort_unstable();
            assert_eq!(got, expected);
        }
    }
}
