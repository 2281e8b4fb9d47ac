//! The settings of a run's schemes in `run.json`, and which of them are not the defaults.

use rampmeter_scenario::{Registries, Scenario, ScenarioError, VARIES};
use serde_json::{Map, Value};

/// A setting of a scheme that is not the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSetting {
    /// The scheme.
    pub scheme: String,
    /// The keys of the setting: `settings.initial_window`.
    pub key: String,
    /// Its value, or those that it has at the points of the sweep.
    pub value: String,
    /// The default; empty if there is none.
    pub default: String,
}

/// All settings of each scheme that `scenario` uses.
pub(super) fn settings(scenario: &Scenario, registries: &Registries) -> Result<Map<String, Value>, ScenarioError> {
    let json = |table| serde_json::to_value(table).unwrap_or_default();
    Ok(scenario.scheme_settings(registries)?.into_iter().map(|scheme| (scheme.name, json(scheme.all))).collect())
}

/// Those of `schemes` that differ from the defaults.
pub(super) fn changed(
    schemes: &Map<String, Value>,
    scenario: &Scenario,
    registries: &Registries,
) -> Result<Vec<ChangedSetting>, ScenarioError> {
    let mut changed = Vec::new();
    for scheme in scenario.scheme_settings(registries)? {
        let defaults = serde_json::to_value(scheme.defaults).unwrap_or_default();
        let mut compare = |key: String, value: &Value, default: Option<&Value>| {
            // A name of what has the settings is none.
            if Some(value) != default && !["controller", "kernel"].contains(&key.as_str()) {
                let default = default.map(text).unwrap_or_default();
                changed.push(ChangedSetting { scheme: scheme.name.clone(), key, value: text(value), default });
            }
        };
        if let Some(all) = schemes.get(&scheme.name) {
            each(String::new(), all, Some(&defaults), &mut compare);
        }
    }
    Ok(changed)
}

/// Calls `compare` with each setting and its default.
fn each(key: String, value: &Value, default: Option<&Value>, compare: &mut impl FnMut(String, &Value, Option<&Value>)) {
    match value {
        Value::Object(table) if !table.contains_key(VARIES) => {
            for (name, value) in table {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                each(key, value, default.and_then(|default| default.get(name)), compare);
            }
        }
        value => compare(key, value, default),
    }
}

/// A value as in a scenario file; several with commas.
fn text(value: &Value) -> String {
    match value.get(VARIES).and_then(Value::as_array) {
        Some(values) => values.iter().map(text).collect::<Vec<_>>().join(", "),
        None => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}
