//! What stands before each line on the console, as `--log-prefix` describes it.

use foxlaunch_shared::ids::{Attempt, Rank};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A field of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Rank,
    LocalRank,
    WorldSize,
    Attempt,
    Host,
    Run,
    Time,
}

const FIELDS: [(&str, Field); 7] = [
    ("rank", Field::Rank),
    ("local_rank", Field::LocalRank),
    ("world_size", Field::WorldSize),
    ("attempt", Field::Attempt),
    ("host", Field::Host),
    ("run", Field::Run),
    ("time", Field::Time),
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(Field),
}

/// A prefix with fields in braces. Only the time is not known when a worker starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Template, String> {
        let mut pieces = vec![Piece::Text(String::new())];
        let mut letters = text.chars().peekable();
        while let Some(c) = letters.next() {
            match c {
                '{' | '}' if letters.peek() == Some(&c) => {
                    letters.next();
                    push(&mut pieces, c);
                }
                '{' => {
                    let mut name = String::new();
                    let closed = letters.by_ref().any(|c| {
                        name.extend((c != '}').then_some(c));
                        c == '}'
                    });
                    let field = FIELDS.iter().find(|(known, _)| closed && *known == name);
                    let known = || FIELDS.map(|(name, _)| name).join(", ");
                    let (_, field) = field.ok_or_else(|| {
                        format!("there is no field {{{name}}} for a prefix; there are {}, and {{{{ is a brace", known())
                    })?;
                    pieces.push(Piece::Field(*field));
                }
                '}' => return Err("a } without its {; }} is a brace".to_owned()),
                // It stands on the terminal before each line.
                c if c.is_control() && c != '\t' => return Err(format!("{c:?} cannot stand in a prefix")),
                c => push(&mut pieces, c),
            }
        }
        Ok(Template(pieces))
    }
}

fn push(pieces: &mut Vec<Piece>, c: char) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        _ => pieces.push(Piece::Text(c.into())),
    }
}

/// What a template's fields are for one worker.
#[derive(Clone, Debug)]
pub struct Fields {
    /// Its number.
    pub rank: Rank,
    /// How many there are.
    pub world_size: u32,
    /// Which start this is.
    pub attempt: Attempt,
    /// This machine's name.
    pub host: String,
    /// The run's name.
    pub run: String,
}

/// What stands before each line of one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    /// The parts between which the time stands.
    parts: Vec<String>,
}

impl Template {
    /// The prefix of the worker that `fields` describe.
    pub fn prefix(&self, fields: &Fields) -> Prefix {
        let mut parts = vec![String::new()];
        for piece in &self.0 {
            let text = match piece {
                Piece::Text(text) => text.clone(),
                Piece::Field(Field::Rank | Field::LocalRank) => fields.rank.to_string(),
                Piece::Field(Field::WorldSize) => fields.world_size.to_string(),
                Piece::Field(Field::Attempt) => fields.attempt.to_string(),
                Piece::Field(Field::Host) => super::prefix::printable(&fields.host),
                Piece::Field(Field::Run) => super::prefix::printable(&fields.run),
                Piece::Field(Field::Time) => {
                    parts.push(String::new());
                    continue;
                }
            };
            parts.last_mut().expect("there is one").push_str(&text);
        }
        Prefix { parts }
    }
}

impl Prefix {
    /// A prefix that is always `text`.
    pub fn fixed(text: impl Into<String>) -> Prefix {
        Prefix { parts: vec![text.into()] }
    }

    /// The prefix of lines that are read now.
    pub fn now(&self) -> String {
        if self.parts.len() < 2 {
            return self.parts.concat();
        }
        self.parts.join(&clock(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

/// The time of day, UTC, of a time since 1970.
fn clock(time: std::time::Duration) -> String {
    let seconds = time.as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, time.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(template: &str) -> Prefix {
        let (rank, attempt) = (Rank(3), Attempt(2));
        let fields = Fields { rank, world_size: 8, attempt, host: "h\u{1b}[2J".into(), run: "r".into() };
        template.parse::<Template>().unwrap().prefix(&fields)
    }

    #[test]
    fn fields_are_filled_in() {
        assert_eq!(prefix("[{rank}] ").now(), "[3] ");
        assert_eq!(prefix("{run}/{attempt}:{local_rank} of {world_size} {{x}} ").now(), "r/2:3 of 8 {x} ");
        assert_eq!(prefix("{host}|").now(), "h\u{fffd}[2J|");
        assert_eq!(prefix("").now(), "");
        let timed = prefix("{time} {rank} ").now();
        assert!(timed.len() == "00:00:00.000 3 ".len() && timed.ends_with(" 3 "), "{timed}");
        assert_eq!(clock(std::time::Duration::from_millis(86_400_000 * 3 + 3_661_007)), "01:01:01.007");
    }

    #[test]
    fn a_field_that_is_not_there_is_refused() {
        for wrong in ["{ranks}", "{", "{rank", "}", "{}", "{RANK}", "a\u{1b}b", "a\nb"] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong}");
        }
        assert!("{ranks}".parse::<Template>().unwrap_err().contains("rank, local_rank"));
    }

    proptest! {
        #[test]
        fn no_template_panics_and_none_touches_the_terminal(text in "\\PC{0,20}|[{}a-z\u{1b}]{0,12}") {
            if let Ok(template) = text.parse::<Template>() {
                let fields = Fields { rank: Rank(0), world_size: 1, attempt: Attempt(1), host: "h".into(), run: "r".into() };
                prop_assert!(!template.prefix(&fields).now().chars().any(char::is_control));
            }
        }
    }
}
