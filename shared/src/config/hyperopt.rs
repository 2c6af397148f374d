//! The result of a hyper-parameter search, as the user's system writes it: one JSON object.

use super::{ConfigError, Layer};
use serde_json::Value;

/// Reads a `--hyperopt` file: `learning_rate`, `batch_size`, `gamma`, `buffer_size`, `hidden_dim_base`.
///
/// Where `gamma` is absent it is 0.95, `buffer_size` 50,000 and the hidden widths `[128, 64]`; the other settings keep
/// their value. What both algorithms have is set for both.
pub fn hyperopt_layer(origin: &str, text: &str) -> Result<Layer, ConfigError> {
    let syntax = |reason: String| ConfigError::Syntax { origin: origin.to_owned(), reason };
    let document: Value = serde_json::from_str(text).map_err(|e| syntax(e.to_string()))?;
    let Value::Object(map) = document else {
        return Err(syntax("it is not a JSON object".to_owned()));
    };
    let mut layer = Layer::new(origin);
    layer.set("dqn.gamma", 0.95);
    layer.set("ppo.gamma", 0.95);
    layer.set("dqn.buffer_size", 50_000);
    if !map.contains_key("hidden_dim_base") {
        for key in ["network.hidden", "ppo.policy_hidden", "ppo.value_hidden"] {
            layer.set(key, vec![128, 64]);
        }
        layer.set("network.hidden_dim_base", 0);
    }
    for (key, value) in &map {
        let number = value.as_f64().ok_or_else(|| syntax(format!("{key} must be a number, not {value}")))?;
        let whole = || {
            if number.fract() == 0.0 && number.abs() < 9e15 {
                Ok(number as i64)
            } else {
                Err(syntax(format!("{key} must be a whole number, not {value}")))
            }
        };
        match key.as_str() {
            "learning_rate" => {
                let keys = ["dqn.learning_rate", "ppo.learning_rate", "ppo.learning_rate_end"];
                keys.into_iter().for_each(|key| layer.set(key, number));
            }
            "gamma" => ["dqn.gamma", "ppo.gamma"].into_iter().for_each(|key| layer.set(key, number)),
            "batch_size" => {
                let rows = whole()?;
                ["dqn.batch_size", "ppo.batch_size"].into_iter().for_each(|key| layer.set(key, rows));
            }
            "buffer_size" => layer.set("dqn.buffer_size", whole()?),
            "hidden_dim_base" => layer.set("network.hidden_dim_base", whole()?),
            other => {
                let known = ["learning_rate", "batch_size", "gamma", "buffer_size", "hidden_dim_base"];
                return Err(syntax(format!("{other:?} is not one of {}", known.join(", "))));
            }
        }
    }
    Ok(layer)
}
