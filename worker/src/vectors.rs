//! Reference values for tests, from `tests/fixtures/vectors.json`.

use serde_json::Value;
use std::sync::OnceLock;

/// Every case of `kind`.
pub(crate) fn cases(kind: &str) -> &'static [Value] {
    static ALL: OnceLock<Value> = OnceLock::new();
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/vectors.json");
    let all = ALL.get_or_init(|| serde_json::from_slice(&std::fs::read(text).unwrap()).unwrap());
    all["cases"][kind].as_array().unwrap_or_else(|| panic!("no cases of {kind}"))
}

/// All numbers of a nested list, in order.
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap_or_else(|| panic!("{other} is not a number"))],
    }
}

/// Requires equality within `tolerance`, relative to the expected value.
pub(crate) fn close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= tolerance * e.abs() + 1e-15, "value {i}: {g}, expected {e}");
    }
}
