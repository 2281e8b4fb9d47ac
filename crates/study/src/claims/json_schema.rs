//! The JSON Schema of files of claims, for editors: draft 4, which taplo reads.

use rampmeter_units::settings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::expect::NAMES;
use super::file::{Entry, File};
use super::{Metric, Variant};

/// The schema of `claims.toml`.
pub fn json_schema() -> Value {
    let bound = object(NAMES, |_| json!({}));
    let claim = of::<Entry>(|key| match key {
        "set" => json!({ "type": "object" }),
        "quick" => json!({ "anyOf": [{ "type": "boolean" }, { "type": "object" }] }),
        "metric" => of::<Metric>(|_| json!({})),
        "expect" => bound.clone(),
        "status" => json!({ "enum": ["holds", "open"] }),
        "world" => json!({ "enum": ["simulated", "emulated"] }),
        _ => json!({ "type": "string" }),
    });
    let variant = of::<Variant>(|_| json!({}));
    let mut schema = of::<File>(|key| match key {
        "claim" => json!({ "type": "array", "items": claim }),
        "variant" => json!({ "type": "array", "items": variant }),
        _ => json!({ "type": "string" }),
    });
    schema["$schema"] = json!("http://json-schema.org/draft-04/schema#");
    schema["title"] = json!("Claims about scenarios of Rampmeter");
    schema
}

/// An object with the fields of `T`, each of which has the schema `value`.
fn of<T: DeserializeOwned>(value: impl Fn(&str) -> Value) -> Value {
    object(settings::names::<T>().unwrap_or_default().iter().copied(), value)
}

fn object<'n>(names: impl IntoIterator<Item = &'n str>, value: impl Fn(&str) -> Value) -> Value {
    let properties: Map<String, Value> = names.into_iter().map(|name| (name.to_owned(), value(name))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_studies_claims_is_in_the_schema() {
        let schema = json_schema();
        let known = &schema["properties"]["claim"]["items"]["properties"];
        let studies = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
        let mut claims = 0;
        for directory in std::fs::read_dir(studies).unwrap() {
            let file = directory.unwrap().path().join("claims.toml");
            let Ok(text) = std::fs::read_to_string(file) else { continue };
            let table: toml::Table = text.parse().unwrap();
            assert!(table.keys().all(|key| schema["properties"].get(key).is_some()));
            for claim in table["claim"].as_array().unwrap() {
                let claim = claim.as_table().unwrap();
                assert!(claim.keys().all(|key| known.get(key).is_some()), "{claim}");
                for key in ["metric", "expect"] {
                    let known = &known[key]["properties"];
                    assert!(claim[key].as_table().unwrap().keys().all(|key| known.get(key).is_some()), "{claim}");
                }
                claims += 1;
            }
        }
        assert!(claims > 100, "{claims}");
        assert_eq!(known["status"]["enum"][0], "holds");
    }
}
