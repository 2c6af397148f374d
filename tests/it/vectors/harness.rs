//! Cases by kind, and what is right of a number.

use foxlaunch_worker::kernels::Scalar;
use serde_json::Value;
use std::sync::OnceLock;

/// How far a value may be from the expected one, relative to it and to the largest beside it.
pub(crate) const WIDE: f64 = 1e-9;
/// The same for 32 bits.
pub(crate) const NARROW: f64 = 2e-5;

fn file() -> &'static Value {
    static ALL: OnceLock<Value> = OnceLock::new();
    ALL.get_or_init(|| {
        let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vectors.json");
        let path = std::env::var("FOXLAUNCH_VECTORS").unwrap_or_else(|_| ours.to_owned());
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{path}: {e}"))
    })
}

/// Calls `check` with every case of `kind`. Our own file must have some; another one need not have every kind.
pub(crate) fn each(kind: &str, mut check: impl FnMut(&Case)) {
    let cases = file()["cases"][kind].as_array().map_or(&[][..], Vec::as_slice);
    let is_ours = std::env::var("FOXLAUNCH_VECTORS").is_err();
    assert!(!is_ours || !cases.is_empty(), "no cases of {kind}");
    if cases.is_empty() {
        println!("no cases of {kind} in this file");
    }
    for (at, case) in cases.iter().enumerate() {
        let note = format!("{kind} {at}: {}", case["note"].as_str().unwrap_or_default());
        check(&Case { note, value: case });
    }
}

/// One case.
pub(crate) struct Case<'a> {
    /// Its kind, number and note, for messages.
    pub(crate) note: String,
    value: &'a Value,
}

impl Case<'_> {
    /// Its kind within the kind, if it has one.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.value["kind"].as_str()
    }

    /// An input.
    pub(crate) fn input(&self, key: &str) -> &Value {
        self.get("input", key)
    }

    /// An expected output.
    pub(crate) fn output(&self, key: &str) -> &Value {
        self.get("output", key)
    }

    /// Whether there is such an output.
    pub(crate) fn has_output(&self, key: &str) -> bool {
        !self.value["output"][key].is_null()
    }

    fn get(&self, part: &str, key: &str) -> &Value {
        let value = &self.value[part][key];
        assert!(self.value[part].get(key).is_some(), "{}: no {part} {key}", self.note);
        value
    }

    /// An input that is one number.
    pub(crate) fn number(&self, key: &str) -> f64 {
        numbers(self.input(key))[0]
    }

    /// An input that is a whole number.
    pub(crate) fn whole(&self, key: &str) -> usize {
        self.number(key) as usize
    }

    /// All numbers of an input, in order, as `T`.
    pub(crate) fn inputs<T: Scalar>(&self, key: &str) -> Vec<T> {
        numbers(self.input(key)).into_iter().map(T::of).collect()
    }

    /// Requires that `got` is the output `key`, as exactly as `T` allows.
    pub(crate) fn expect<T: Scalar>(&self, key: &str, got: &[T]) {
        let expected = numbers(self.output(key));
        let wrong = distance(got, &expected);
        assert!(wrong <= tolerance::<T>(), "{}: {key} is off by {wrong:e}: {got:?}, expected {expected:?}", self.note);
    }

    /// Requires that `got` is not the output `key`, which shows a fault, unless that is the right one `right` too.
    pub(crate) fn refuse<T: Scalar>(&self, key: &str, right: &str, got: &[T]) {
        let (faulty, right) = (numbers(self.output(key)), numbers(self.output(right)));
        let apart = right.iter().zip(&faulty).any(|(a, b)| (a - b).abs() > 1e-6 * (1.0 + a.abs()));
        if apart {
            assert!(distance(got, &faulty) > tolerance::<T>(), "{}: {key}, the faulty one, was computed", self.note);
        }
    }
}

/// Numbers of nested lists in order; flags are 0 and 1, and `inf`, `-inf` and `nan` may stand as strings.
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Bool(flag) => vec![f64::from(u8::from(*flag))],
        Value::String(text) => vec![text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))],
        other => vec![other.as_f64().unwrap_or_else(|| panic!("{other} is not a number"))],
    }
}

/// The largest difference, relative to each expected value and the largest of all.
fn distance<T: Scalar>(got: &[T], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len(), "as many values as expected");
    // what cancels to almost nothing is as exact as what it came from
    let scale = expected.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let apart = |(got, expected): (&T, &f64)| {
        let (got, expected) = (got.wide(), *expected);
        if got == expected { 0.0 } else { (got - expected).abs() / (expected.abs().max(scale) + 1e-12) }
    };
    got.iter().zip(expected).map(apart).fold(0.0, |a, b| if b > a || b.is_nan() { b } else { a })
}

fn tolerance<T: Scalar>() -> f64 {
    if size_of::<T>() == 4 { NARROW } else { WIDE }
}
