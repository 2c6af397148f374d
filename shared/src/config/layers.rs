//! Settings in layers: each value knows which layer it came from.

use super::{Config, ConfigError, DEFAULT, PRESETS};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Values from one place, by dotted key.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Where they come from, as a person would say it: `--set`, `my.toml`, `default`.
    pub origin: String,
    values: Vec<(String, Value)>,
}

impl Layer {
    /// An empty layer.
    pub fn new(origin: impl Into<String>) -> Layer {
        Layer { origin: origin.into(), values: Vec::new() }
    }

    /// Adds one value.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.values.push((key.into(), value.into()));
    }

    /// Reads a TOML document.
    pub fn from_toml(origin: &str, text: &str) -> Result<Layer, ConfigError> {
        let syntax = |reason: String| ConfigError::Syntax { origin: origin.to_owned(), reason };
        let table: Table = text.parse().map_err(|e: toml::de::Error| syntax(e.to_string().trim_end().to_owned()))?;
        let mut layer = Layer::new(origin);
        for (section, value) in table {
            match value {
                Value::Table(keys) => {
                    keys.into_iter().for_each(|(key, value)| layer.set(format!("{section}.{key}"), value));
                }
                other => layer.set(section, other),
            }
        }
        Ok(layer)
    }

    /// Reads `KEY=VALUE` pairs as they follow `--set`. A value that is not TOML is taken as a string.
    pub fn from_pairs<'a>(origin: &str, pairs: impl IntoIterator<Item = &'a str>) -> Result<Layer, ConfigError> {
        let mut layer = Layer::new(origin);
        for pair in pairs {
            let (key, text) = pair.split_once('=').ok_or_else(|| ConfigError::Syntax {
                origin: origin.to_owned(),
                reason: format!("{pair:?} is not KEY=VALUE"),
            })?;
            layer.set(key.trim(), parse_value(text));
        }
        Ok(layer)
    }

    /// Reads `FOXLAUNCH_SET_<SECTION>__<KEY>` out of `variables`.
    pub fn from_env(variables: impl IntoIterator<Item = (String, String)>) -> Layer {
        let mut layer = Layer::new("environment");
        for (name, text) in variables {
            if let Some(key) = name.strip_prefix(crate::env::FOXLAUNCH_SET_PREFIX) {
                layer.set(key.to_lowercase().replacen("__", ".", 1), parse_value(&text));
            }
        }
        layer
    }
}

fn parse_value(text: &str) -> Value {
    let document = format!("v = {text}");
    match document.parse::<Table>() {
        Ok(mut table) if table.len() == 1 => table.remove("v").unwrap_or_else(|| Value::String(text.to_owned())),
        _ => Value::String(text.to_owned()),
    }
}

/// Layers, from the weakest to the strongest.
#[derive(Clone, Debug)]
pub struct Layers {
    defaults: BTreeMap<String, Value>,
    values: BTreeMap<String, (Value, String)>,
    /// Which push, from 1, set a key that is not the default.
    pushed: BTreeMap<String, usize>,
    pushes: usize,
}

impl Default for Layers {
    fn default() -> Self {
        Layers::new()
    }
}

impl Layers {
    /// The defaults alone.
    pub fn new() -> Layers {
        let layer = Layer::from_toml("default", DEFAULT).expect("the default settings are TOML: a test says so");
        let defaults = layer.values.iter().cloned().collect();
        let values = layer.values.into_iter().map(|(key, value)| (key, (value, "default".to_owned()))).collect();
        Layers { defaults, values, pushed: BTreeMap::new(), pushes: 0 }
    }

    /// Every key that exists.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.defaults.keys().map(String::as_str)
    }

    /// Puts `layer` over what is there.
    pub fn push(&mut self, layer: Layer) -> Result<(), ConfigError> {
        let Layer { origin, values } = layer;
        self.pushes += 1;
        for (key, value) in values {
            let Some(default) = self.defaults.get(&key) else {
                let nearest = nearest(&key, self.keys());
                return Err(ConfigError::UnknownKey { origin, key, nearest });
            };
            let item = if key == "train.seeds" { Value::Integer(0) } else { Value::String(String::new()) };
            let value = fit(default, value, &item).map_err(|got| ConfigError::WrongType {
                origin: origin.clone(),
                key: key.clone(),
                expected: type_name(default),
                got,
            })?;
            self.pushed.insert(key.clone(), self.pushes);
            self.values.insert(key, (value, origin.clone()));
        }
        Ok(())
    }

    /// All values, with those that `dqn.preset` gives to keys that no layer sets as late as it.
    fn with_preset(&self) -> BTreeMap<String, (Value, String)> {
        let mut values = self.values.clone();
        let name = values.get("dqn.preset").and_then(|(name, _)| name.as_str()).unwrap_or_default().to_owned();
        let switches = PRESETS.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, switches)| switches);
        let push = |key: &str| self.pushed.get(key).copied().unwrap_or(0);
        for (key, value) in switches {
            let key = format!("dqn.{key}");
            if push(&key) < push("dqn.preset") {
                values.insert(key, (Value::from(*value), format!("dqn.preset = {name:?}")));
            }
        }
        values
    }

    /// The settings that hold, and for each key the layer it came from.
    pub fn resolve(&self) -> Result<(Config, BTreeMap<String, String>), ConfigError> {
        let values = self.with_preset();
        let mut document = Table::new();
        for (key, (value, _)) in &values {
            let (section, name) = key.split_once('.').expect("every default stands in a section");
            let section = document.entry(section).or_insert_with(|| Value::Table(Table::new()));
            section.as_table_mut().expect("just made").insert(name.to_owned(), value.clone());
        }
        // rewards are scaled for markets, where they are small
        if values.get("environment.name").is_some_and(|(name, _)| name.as_str() != Some("market"))
            && values.get("environment.reward_scale").is_some_and(|(_, origin)| origin == "default")
            && let Some(section) = document.get_mut("environment").and_then(Value::as_table_mut)
        {
            section.insert("reward_scale".to_owned(), Value::Float(1.0));
        }
        let origin_of = |key: &str| values.get(key).map_or("default", |(_, origin)| origin).to_owned();
        // The one thing a value of the right type can still be wrong in here is its sign.
        for (key, (value, origin)) in &values {
            if value.as_integer().is_some_and(|n| n < 0) {
                return Err(ConfigError::OutOfRange {
                    origin: origin.clone(),
                    key: key.clone(),
                    value: value.to_string(),
                    reason: "must not be negative".to_owned(),
                });
            }
        }
        let config: Config = document.try_into().map_err(|e: toml::de::Error| ConfigError::Syntax {
            origin: "settings".to_owned(),
            reason: e.to_string(),
        })?;
        config.check().map_err(|(key, value, reason)| ConfigError::OutOfRange {
            origin: origin_of(key),
            key: key.to_owned(),
            value,
            reason,
        })?;
        let origins = values.iter().map(|(key, (_, origin))| (key.clone(), origin.clone())).collect();
        Ok((config, origins))
    }
}

/// Makes `value` of the default's type, or says what it is instead. An empty default array is one of things like `item`.
fn fit(default: &Value, value: Value, item: &Value) -> Result<Value, String> {
    match (default, value) {
        (Value::Float(_), Value::Integer(n)) => Ok(Value::Float(n as f64)),
        (Value::Float(_), Value::Float(x)) if !x.is_finite() => Err(x.to_string()),
        (Value::Array(of), Value::Array(items)) => {
            let element = of.first().unwrap_or(item);
            items.into_iter().map(|value| fit(element, value, item)).collect::<Result<_, _>>().map(Value::Array)
        }
        (default, value) if default.same_type(&value) => Ok(value),
        (Value::String(_), value @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_))) => {
            Ok(Value::String(value.to_string()))
        }
        (_, value) => Err(value.to_string()),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(of) if of.first().is_some_and(Value::is_integer) => "a list of whole numbers",
        Value::Array(of) if of.first().is_some_and(Value::is_float) => "a list of numbers",
        Value::Array(_) => "a list of strings",
        Value::Table(_) => "a section",
    }
}

/// The key or name among `known` that `key` was probably meant to be.
pub fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let last = |k: &str| k.rsplit('.').next().unwrap_or(k).to_owned();
    known
        .map(|k| (strsim::jaro_winkler(key, k).max(strsim::jaro_winkler(&last(key), &last(k)) - 0.02), k))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))
        .map(|(_, k)| k.to_owned())
}
