//! Secrets by the name before them: `HF_TOKEN=…`, `--api-key …`, `"password": "…"`.

use std::ops::Range;

/// A name that ends so holds a secret, also where it is one word with what stands before, as `PGPASSWORD`.
const GLUED: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "authkey",
    "accesskey",
    "secretkey",
    "privatekey",
    "authtoken",
    "accesstoken",
    "apitoken",
    "bearertoken",
    "refreshtoken",
    "idtoken",
];
/// A name whose last word is one of these does.
const LAST_WORD: &[&str] = &[
    "token",
    "credential",
    "credentials",
    "auth",
    "authorization",
    "pass",
    "pwd",
    "secrets",
    "passwords",
    "cookie",
    "pat",
    "pw",
];
/// A parameter of an address whose name ends so does: who has a signed address may do what it says.
const OF_ADDRESS: &[&str] = &["sig", "signature", "key", "credential", "code"];
/// A name whose last words are these does.
const LAST_TWO: &[(&str, &str)] = &[
    ("api", "key"),
    ("access", "key"),
    ("secret", "key"),
    ("private", "key"),
    ("account", "key"),
    ("auth", "key"),
    ("signing", "key"),
    ("encryption", "key"),
    ("ssh", "key"),
    ("master", "key"),
    ("service", "key"),
    ("storage", "key"),
    ("wandb", "key"),
    ("hf", "key"),
    ("openai", "key"),
    ("anthropic", "key"),
    ("comet", "key"),
];
/// Tokens of a language model are no secrets: `--eos-token`, `--per-token`.
const OF_LANGUAGE: &[&str] = &[
    "pad", "eos", "bos", "unk", "mask", "sep", "cls", "special", "stop", "start", "end", "next", "per", "last",
    "first", "image", "audio", "class", "new", "max", "min", "num", "sink", "register",
];
/// Headers of a request whose value goes to the end of the line.
const HEADERS: &[&str] = &["authorization", "cookie"];
/// What follows a name in the words of a person, and is no value.
const NO_VALUES: &[&str] = &[
    "", "true", "false", "yes", "no", "on", "off", "none", "null", "nil", "auto", "required", "optional", "basic",
    "bearer",
];

/// Whether `value`, which stands under `name`, is to be hidden.
pub fn hides(name: &str, value: &str) -> bool {
    let words = words(name);
    let value = value.trim();
    if NO_VALUES.contains(&value.to_ascii_lowercase().as_str()) || is_reference(value) {
        return false;
    }
    let (Some(last), before) = (words.last(), words.len().checked_sub(2).map(|place| words[place].as_str())) else {
        return false;
    };
    // A password may be a number; a number under `token` counts something.
    let is_number = value.parse::<f64>().is_ok() && value.len() < 12;
    if GLUED.iter().any(|end| last.ends_with(end)) {
        return !is_path(value);
    }
    if last == "pwd" || last == "pass" {
        // `PWD` and `OLDPWD` are folders, a `pass` over data is none; with a word before they are a person's.
        return before.is_some_and(|word| !["old", "max", "min", "n", "num"].contains(&word))
            && !is_path(value)
            && !is_number;
    }
    if LAST_TWO.iter().any(|(first, second)| before == Some(first) && last == second) {
        return !is_path(value) && !is_number;
    }
    if !LAST_WORD.contains(&last.as_str()) || is_path(value) || is_number {
        return false;
    }
    match last.as_str() {
        "token" => before.is_none_or(|word| !OF_LANGUAGE.contains(&word)) && !value.starts_with('<'),
        // A way to prove who one is has a plain word as its name.
        "auth" | "cookie" | "pat" => {
            value.len() >= 8 && value.chars().any(|c| c.is_ascii_digit() || matches!(c, ':' | '='))
        }
        _ => true,
    }
}

/// The values in `text` that stand behind a name that hides them: after `=`, after `--name `, and in JSON.
pub fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    for (at, mark) in text.char_indices().filter(|(_, c)| matches!(c, '=' | ':' | ' ')) {
        let head = text[..at].trim_end_matches(['"', '\'']);
        let name =
            &head[head.char_indices().rev().take_while(|(_, c)| is_name(*c)).last().map_or(head.len(), |(i, _)| i)..];
        let quoted = head.len() < at;
        let before = head[..head.len() - name.len()].chars().next_back();
        let is_parameter = mark == '=' && matches!(before, Some('?' | '&'));
        let is_header = mark == ':' && !quoted && text[at + 1..].starts_with(' ');
        match mark {
            _ if name.is_empty() => continue,
            ' ' if !name.starts_with("--") => continue,
            // JSON, or the header of a request; `host:port` is neither.
            ':' if !quoted && !is_header && !name.to_ascii_lowercase().ends_with("authorization") => continue,
            _ => {}
        }
        let rest = &text[at + 1..];
        let begins = at + 1 + (rest.len() - rest.trim_start_matches(' ').len());
        let rest = &text[begins..];
        let value = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let inside = &rest[1..];
                begins + 1..begins + 1 + inside.find(quote).unwrap_or(inside.len())
            }
            // A header's value may be several words.
            _ if mark == ':' && (!is_header || HEADERS.iter().any(|end| name.to_ascii_lowercase().ends_with(end))) => {
                begins..begins + rest.find(['"', '\'', '\n']).unwrap_or(rest.len())
            }
            _ => {
                begins
                    ..begins
                        + rest.find(|c: char| c.is_whitespace() || ";&|\"'`()<>,}".contains(c)).unwrap_or(rest.len())
            }
        };
        let signs = is_parameter && words(name).last().is_some_and(|last| OF_ADDRESS.contains(&last.as_str()));
        let shown = &text[value.clone()];
        if hides(name, shown) || (signs && !shown.is_empty() && !is_reference(shown)) {
            found.push(value);
        }
    }
    found
}

/// The words of a name in lower case: parted by `_`, `-`, `.`, by a capital after a small letter; numbers at its end
/// are left out.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        let parts = matches!(c, '_' | '-' | '.' | ' ');
        if (parts || (was_small && c.is_ascii_uppercase())) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if !parts {
            words.last_mut().expect("there is one").push(c.to_ascii_lowercase());
        }
        was_small = c.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    while words.len() > 1 && words.last().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
        words.pop();
    }
    words
}

/// Whether `value` only says where the secret is: `$HF_TOKEN`, `{{ token }}`, what is hidden already.
fn is_reference(value: &str) -> bool {
    value.starts_with('$') || value.starts_with("{{") || value.starts_with(super::HIDDEN)
}

/// Whether `value` is a path to a file: it begins as one, and none of its parts looks like random letters. (A secret
/// in base64 may begin with a slash.)
fn is_path(value: &str) -> bool {
    let begins = ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start));
    begins
        && !value.contains(['+', '='])
        && !value.split('/').any(|part| part.len() >= 16 && super::forms::is_mixed(part))
}
