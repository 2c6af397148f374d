//! Secrets by their own form: keys of known services, web tokens, passwords in addresses, private keys, and long
//! random values.

use std::ops::Range;

/// How a service's keys begin, how many characters follow at least, which these are besides letters and digits, and
/// whether one of them must be a digit (where words of a language could be taken for a key).
struct Service {
    start: &'static str,
    least: usize,
    also: &'static str,
    digit: bool,
}

const fn service(start: &'static str, least: usize, also: &'static str, digit: bool) -> Service {
    Service { start, least, also, digit }
}

/// From the services' own documentation, and their published patterns for scanners.
const SERVICES: &[Service] = &[
    service("AKIA", 16, "", false),
    service("ASIA", 16, "", false),
    service("ghp_", 20, "", false),
    service("gho_", 20, "", false),
    service("ghu_", 20, "", false),
    service("ghs_", 20, "", false),
    service("ghr_", 20, "", false),
    service("github_pat_", 22, "_", false),
    service("glpat-", 20, "_-", false),
    service("hf_", 20, "", false),
    service("sk-", 20, "_-", true),
    service("sk_live_", 16, "", false),
    service("rk_live_", 16, "", false),
    service("xoxa-", 10, "-", true),
    service("xoxb-", 10, "-", true),
    service("xoxp-", 10, "-", true),
    service("xoxr-", 10, "-", true),
    service("xoxs-", 10, "-", true),
    service("AIza", 35, "_-", false),
    service("ya29.", 20, "_-", false),
    service("npm_", 36, "", false),
    service("pypi-", 50, "_-", false),
    service("nvapi-", 40, "_-", false),
    service("dop_v1_", 64, "", false),
    service("r8_", 37, "", false),
    service("SG.", 40, "_-.", true),
];

/// A random value behind `=` is at least this long: shorter ones are names more often than keys.
const LONG: usize = 32;
/// And has at least so many bits in each character: words have about 3.5, digests in hex at most 4, keys in base64
/// of this length above 4.2.
const BITS: f64 = 4.2;

/// Where in `text` something stands that looks like a secret.
pub fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    of_services(text, &mut found);
    web_tokens(text, &mut found);
    in_addresses(text, &mut found);
    private_keys(text, &mut found);
    bearers(text, &mut found);
    random_values(text, &mut found);
    found
}

/// Whether nothing before `at` in `text` belongs to the same word.
fn begins_word(text: &str, at: usize) -> bool {
    !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

/// How many of the first bytes of `text` are letters, digits or in `also`.
fn run(text: &str, also: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && !also.contains(c)).unwrap_or(text.len())
}

fn of_services(text: &str, found: &mut Vec<Range<usize>>) {
    for service in SERVICES {
        for (at, start) in text.match_indices(service.start).filter(|(at, _)| begins_word(text, *at)) {
            let rest = &text[at + start.len()..];
            let length = run(rest, service.also);
            let has_digit = rest[..length].contains(|c: char| c.is_ascii_digit());
            if length >= service.least && (has_digit || !service.digit) {
                found.push(at..at + start.len() + length);
            }
        }
    }
}

/// JSON Web Tokens (RFC 7519): three parts in base64url, the first two of which are JSON objects.
fn web_tokens(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, _) in text.match_indices("eyJ").filter(|(at, _)| begins_word(text, *at)) {
        let rest = &text[at..];
        let length = run(rest, "_-.");
        let mut parts = rest[..length].split('.');
        let long = |part: Option<&str>, least: usize| part.is_some_and(|part| part.len() >= least);
        if long(parts.next(), 10) && parts.next().is_some_and(|part| part.len() >= 10 && part.starts_with("eyJ")) {
            found.push(at..at + length);
        }
    }
}

/// The password in `scheme://user:password@host`.
fn in_addresses(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, mark) in text.match_indices("://") {
        let begins = at + mark.len();
        let rest = &text[begins..];
        let authority = &rest[..rest.find(|c: char| c.is_whitespace() || "/?#\"'".contains(c)).unwrap_or(rest.len())];
        // A password may hold an @; the host does not.
        let Some(user) = authority.rfind('@').map(|end| &authority[..end]) else { continue };
        if let Some(colon) = user.find(':').filter(|colon| colon + 1 < user.len()) {
            found.push(begins + colon + 1..begins + user.len());
        }
    }
}

/// What stands between `-----BEGIN … PRIVATE KEY-----` and its end.
fn private_keys(text: &str, found: &mut Vec<Range<usize>>) {
    const END: &str = "PRIVATE KEY-----";
    for (at, _) in text.match_indices("-----BEGIN ") {
        let Some(head) = text[at..].find(END) else { continue };
        // Between the two stands the kind of key, in capitals.
        if !text[at..at + head].chars().all(|c| matches!(c, 'A'..='Z' | '0'..='9' | ' ' | '-')) {
            continue;
        }
        let inside = at + head + END.len();
        let end = text[inside..].find("-----END").map_or(text.len(), |end| inside + end);
        found.push(inside..end);
    }
}

/// `Bearer …` and `Basic …`, as a request's header has them.
fn bearers(text: &str, found: &mut Vec<Range<usize>>) {
    let small = text.to_ascii_lowercase();
    for word in ["bearer ", "basic "] {
        for (at, _) in small.match_indices(word).filter(|(at, _)| begins_word(text, *at)) {
            let begins = at + word.len();
            let length = run(&text[begins..], "._~+/=-");
            let value = &text[begins..begins + length];
            if length >= 16 && value.contains(|c: char| c.is_ascii_digit() || c == '=') {
                found.push(begins..begins + length);
            }
        }
    }
}

/// A long value behind `=` that looks random: letters of both cases and digits.
fn random_values(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, _) in text.match_indices('=') {
        let begins = at + 1;
        let length = run(&text[begins..], "_-+/=");
        let value = &text[begins..begins + length];
        let ends = text[begins + length..].chars().next().is_none_or(|c| c.is_whitespace() || ";&|\"'`),".contains(c));
        // What has many short parts is a path or a name.
        let longest = value.split(['/', '-', '_']).map(str::len).max().unwrap_or(0);
        if ends && length >= LONG && longest >= 16 && is_mixed(value) && bits(value) >= BITS {
            found.push(begins..begins + length);
        }
    }
}

/// Whether `text` has letters of both cases and digits.
pub(super) fn is_mixed(text: &str) -> bool {
    let has = |is: fn(&char) -> bool| text.chars().any(|c| is(&c));
    has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit)
}

/// The entropy of a character of `text` in bits (Shannon 1948), from its own frequencies.
fn bits(text: &str) -> f64 {
    let mut counts = [0usize; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = text.len() as f64;
    let part = |count: &usize| -(*count as f64 / all) * (*count as f64 / all).log2();
    counts.iter().filter(|count| **count > 0).map(part).sum()
}
