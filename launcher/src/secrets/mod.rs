//! What must not be written down: values that look like secrets, in the environment, the arguments and the settings.
//! A worker gets them as they are; the plan, the events, the settings' file and our own lines show [`HIDDEN`] instead.
//!
//! A value is known by the name before it ([`names`]) or by its form ([`forms`]). One that was found once is hidden
//! wherever it comes up again, as in an error's words.

pub mod forms;
pub mod names;

use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;

/// What stands in the place of a secret.
pub const HIDDEN: &str = "[secret]";

/// A shorter value is hidden where it was given, but not looked for elsewhere: it may be a part of any word.
const SHORTEST: usize = 8;

/// The secrets of one job. Its `Debug` form does not show them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    known: BTreeSet<String>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({} values)", self.known.len())
    }
}

impl Secrets {
    /// The secrets in `environment` and in `arguments`.
    pub fn find(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Secrets {
        let text = |os: OsString| os.to_string_lossy().into_owned();
        let mut secrets = Secrets::default();
        for (name, value) in environment {
            let value = text(value);
            if names::hides(&text(name), &value) {
                secrets.add(&value);
            }
            forms::find(&value).into_iter().for_each(|range| secrets.add(&value[range]));
        }
        let arguments: Vec<String> = arguments.into_iter().map(text).collect();
        for (place, argument) in arguments.iter().enumerate() {
            if place > 0 && is_value_of(&arguments[place - 1], argument) {
                secrets.add(argument);
            }
            let found = names::find(argument).into_iter().chain(forms::find(argument));
            found.for_each(|range| secrets.add(&argument[range]));
        }
        secrets
    }

    /// Those of this process.
    pub fn of_this_process() -> Secrets {
        Secrets::find(std::env::vars_os(), std::env::args_os().skip(1))
    }

    fn add(&mut self, value: &str) {
        if value.len() >= SHORTEST && value != HIDDEN {
            self.known.insert(value.to_owned());
        }
    }

    /// `text` without secrets: those that are known, and what looks like one.
    pub fn hide(&self, text: &str) -> String {
        let mut shown = self.hide_once(text);
        // What stood right behind one, as in `ghp_…--api-key KEY`, has a beginning of its own only now. Each time something
        // more is hidden, so this ends.
        loop {
            let again = self.hide_once(&shown);
            if again == shown {
                return shown;
            }
            shown = again;
        }
    }

    fn hide_once(&self, text: &str) -> String {
        let mut found: Vec<_> = names::find(text).into_iter().chain(forms::find(text)).collect();
        for value in &self.known {
            let whole = |at: usize| {
                let touches = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                !touches(text[..at].chars().next_back()) && !touches(text[at + value.len()..].chars().next())
            };
            found.extend(text.match_indices(value).filter(|(at, _)| whole(*at)).map(|(at, _)| at..at + value.len()));
        }
        replace(text, found)
    }

    /// Arguments as they may be shown: also where the name is one argument and the value the next.
    pub fn hide_arguments(&self, arguments: &[OsString]) -> Vec<String> {
        let texts: Vec<String> = arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let shown = |(place, text): (usize, &String)| match place.checked_sub(1).and_then(|before| texts.get(before)) {
            Some(name) if is_value_of(name, text) => HIDDEN.to_owned(),
            _ => self.hide(text),
        };
        texts.iter().enumerate().map(shown).collect()
    }

    /// Hides secrets in all texts of `value`, and what stands under a name that hides.
    pub fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hide(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(text) if names::hides(name, text) => HIDDEN.clone_into(text),
                        member => self.hide_in(member),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Whether `argument` is the secret value of the option before it.
fn is_value_of(option: &str, argument: &str) -> bool {
    let name = option.trim_start_matches('-');
    let is_option = option.starts_with('-') && !name.is_empty() && !name.contains('=');
    // As of curl: a name and a password. `1000:1000` are a user's and a group's number.
    if is_option && ["u", "user", "proxy-user"].contains(&name) {
        let parts = argument.split_once(':');
        return parts.is_some_and(|(user, word)| !user.is_empty() && !word.is_empty() && word.parse::<u64>().is_err());
    }
    is_option && !argument.starts_with("--") && names::hides(name, argument)
}

/// `text` with [`HIDDEN`] in the place of each of `ranges`, which may overlap.
fn replace(text: &str, mut ranges: Vec<std::ops::Range<usize>>) -> String {
    ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
    for range in ranges {
        if range.start >= end {
            shown.push_str(&text[end..range.start]);
            shown.push_str(HIDDEN);
        }
        end = end.max(range.end);
    }
    shown + &text[end..]
}

#[cfg(test)]
mod tests;
