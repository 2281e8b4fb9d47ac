//! The JSON Schema of scenarios and conditions, for editors: draft 4, which taplo reads.

use rampmeter_transport::Config as Transport;
use rampmeter_units::settings;
use rampmeter_workload::registry::TABLES;
use serde_json::{Map, Value, json};

use crate::Registries;
use crate::keys::{self, Key, Kind};

/// The schema of a scenario, which may also be a condition, with the controllers and routers of `registries`.
pub fn json_schema(registries: &Registries) -> Value {
    let mut schema = table(&[keys::SCENARIO, keys::CONDITION], registries);
    schema["$schema"] = json!("http://json-schema.org/draft-04/schema#");
    schema["title"] = json!("A scenario or a condition of Rampmeter");
    schema
}

fn table(lists: &[&[Key]], registries: &Registries) -> Value {
    let keys = lists.iter().copied().flatten();
    object(&keys.map(|(name, kind)| ((*name).to_owned(), value(*kind, registries))).collect())
}

fn object(properties: &Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// An object whose keys have any value.
fn settings<'n>(names: impl IntoIterator<Item = &'n str>) -> Value {
    object(&names.into_iter().map(|name| (name.to_owned(), json!({}))).collect())
}

fn value(kind: Kind, registries: &Registries) -> Value {
    let exact = match kind {
        Kind::Text => return json!({ "type": "string" }),
        Kind::Any => return json!({}),
        Kind::Number => json!({ "type": "number" }),
        Kind::Whole => json!({ "type": "integer" }),
        Kind::Truth => json!({ "type": "boolean" }),
        Kind::Words(words) => json!({ "enum": words }),
        Kind::Controller => json!({ "enum": registries.controllers.list().map(|(name, _)| name).collect::<Vec<_>>() }),
        Kind::List(element) => json!({ "type": "array", "items": value(*element, registries) }),
        Kind::Named(element) => json!({ "type": "object", "additionalProperties": value(*element, registries) }),
        Kind::Table(lists) => table(lists, registries),
        Kind::Traffic => {
            let mut traffic = table(&[keys::TRAFFIC], registries);
            for workload in TABLES {
                traffic["properties"][*workload] = json!({});
            }
            traffic
        }
        Kind::Either(kinds) => {
            return json!({ "anyOf": kinds.iter().map(|kind| value(*kind, registries)).collect::<Vec<_>>() });
        }
        Kind::Controllers => settings(registries.controllers.settings()),
        Kind::Transport => settings(settings::names::<Transport>().unwrap_or_default().iter().copied()),
        Kind::Router => {
            let mut router = settings(registries.routers.settings());
            let names: Vec<&str> = registries.routers.list().map(|(name, _)| name).collect();
            router["properties"]["kind"] = or_placeholder(&json!({ "enum": names }));
            router
        }
    };
    or_placeholder(&exact)
}

/// `exact`, or a text that stands for the value of an axis.
fn or_placeholder(exact: &Value) -> Value {
    json!({ "anyOf": [exact, { "type": "string", "pattern": "^\\$" }] })
}
