//! The JSON Schema accepts what the reader accepts, and refuses misspelt keys.

mod common;

use std::path::Path;

use common::good::GOOD;
use rampmeter_scenario::{CONDITIONS, Registries, json_schema};
use serde_json::Value;

/// The first place where `value` does not match `schema`, which uses the few keywords below.
fn mismatch(schema: &Value, value: &Value, place: &str) -> Option<String> {
    let wrong = || Some(format!("{place}: {value}"));
    if let Some(choices) = schema["anyOf"].as_array() {
        let mut mismatches = choices.iter().map(|choice| mismatch(choice, value, place));
        let first = mismatches.next()?;
        return if mismatches.any(|other| other.is_none()) { None } else { first };
    }
    let is_type = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    let is_choice = schema["enum"].as_array().is_none_or(|choices| choices.contains(value));
    let has_pattern = schema["pattern"].as_str().is_none_or(|pattern| {
        assert_eq!(pattern, "^\\$");
        value.as_str().is_some_and(|text| text.starts_with('$'))
    });
    if !(is_type && is_choice && has_pattern) {
        return wrong();
    }
    let elements = value.as_array().into_iter().flatten();
    let entries = value.as_object().into_iter().flatten();
    let of_entry = |(key, entry): (&String, &Value)| {
        let place = format!("{place}.{key}");
        match (&schema["properties"][key], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => Some(format!("{place} is no key")),
            (Value::Null, other) => mismatch(other, entry, &place),
            (known, _) => mismatch(known, entry, &place),
        }
    };
    elements
        .enumerate()
        .find_map(|(n, element)| mismatch(&schema["items"], element, &format!("{place}.{n}")))
        .or_else(|| entries.into_iter().find_map(of_entry))
}

fn refused(text: &str) -> Option<String> {
    let value = serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
    mismatch(&json_schema(&Registries::default()), &value, "")
}

#[test]
fn all_scenarios_and_conditions_match() {
    for condition in CONDITIONS {
        assert_eq!(refused(condition.text), None, "{}", condition.name);
    }
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let mut scenarios = 0;
    let directories = std::fs::read_dir(studies).unwrap().map(|entry| entry.unwrap().path());
    for directory in directories.filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if file.extension().is_some_and(|it| it == "toml") && text.lines().any(|line| line.starts_with("duration"))
            {
                assert_eq!(refused(&text), None, "{}", file.display());
                scenarios += 1;
            }
        }
    }
    assert!(scenarios > 50, "{scenarios}");
}

#[test]
fn misspelt_keys_and_wrong_types_do_not_match() {
    assert_eq!(refused(GOOD), None);
    for (find, replace, place) in [
        ("drain", "drian", ".drian is no key"),
        ("duration = \"10 s\"", "duration = 10", ".duration: 10"),
        ("per_packet", "per_paket", ".link.0.loss.per_paket is no key"),
        ("packets = 100", "pakets = 100", ".link.0.router.pakets is no key"),
        ("\"drop-tail\"", "\"droptail\"", ".link.0.router.kind: \"droptail\""),
        ("initial_window = 1", "initial_windw = 1", ".scheme.tcp.settings.initial_windw is no key"),
        ("min_rto", "min_rtoo", ".scheme.tcp.transport.min_rtoo is no key"),
        ("\"newreno\"", "\"newrino\"", ".scheme.tcp.controller: \"newrino\""),
        ("count = 2", "cuont = 2", ".traffic.1.arrivals.cuont is no key"),
        ("count = 3", "count = \"3\"", ".hosts.0.count: \"3\""),
    ] {
        assert_eq!(refused(&GOOD.replacen(find, replace, 1)).as_deref(), Some(place));
    }
}
