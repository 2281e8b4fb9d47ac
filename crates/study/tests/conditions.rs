//! `docs/conditions.md` lists the conditions of the library and their recorded goodput in both worlds. `make conditions`
//! rewrites its tables.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use rampmeter_scenario::{ConditionFacts, Registries};
use rampmeter_study::claims::Records;

const NETWORK: &str = include_str!("../../scenario/src/conditions/network.toml");
const FLOW: &str = include_str!("../../scenario/src/conditions/flow.toml");

#[test]
fn the_documented_conditions_are_those_of_the_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/conditions.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let facts = ConditionFacts::all(&Registries::default()).unwrap();
    let right = with_part(&text, "conditions", &library(&facts));
    let records = Records::read(&root.join("studies/worlds/measured.json")).unwrap();
    let right = with_part(&right, "worlds", &worlds(&facts, &records));
    let right = with_part(&right, "flow", &format!("\n```toml\n{NETWORK}{FLOW}```\n"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page, right).unwrap();
    } else {
        assert!(text == right, "docs/conditions.md differs from the library or its results: run `make conditions`");
    }
}

/// `text` with `part` between the comments called `name`.
fn with_part(text: &str, name: &str, part: &str) -> String {
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&start).expect("the page has the start of the table");
    let (_, after) = rest.split_once(&end).expect("the page has the end of the table");
    format!("{before}{start}{part}\n{end}{after}")
}

/// A table for each group.
fn library(facts: &[ConditionFacts]) -> String {
    let mut text = String::new();
    for group in facts.chunk_by(|a, b| a.group == b.group) {
        writeln!(text, "\n### {}\n", group[0].group).unwrap();
        text += "| condition | what it is | rate | reverse | round trip | queue | lost | source |\n|---|---|---|---|---|---|---|---|\n";
        for facts in group {
            let varies = facts.varies.map_or(String::new(), |model| format!(" (`{model}`)"));
            let buffer =
                facts.buffer.map_or(String::new(), |buffer| format!(", {}", ConditionFacts::milliseconds(buffer)));
            let lost = if facts.loss > 0.0 { format!("{:.2}%", facts.loss * 100.0) } else { String::new() };
            let cells = [
                format!("`{}`", facts.name),
                facts.title.clone(),
                format!("{}{varies}", facts.rate),
                facts.reverse_rate.to_string(),
                ConditionFacts::milliseconds(facts.round_trip),
                format!("`{}`{buffer}", facts.router),
                lost,
                facts.source.clone(),
            ];
            writeln!(text, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    text
}

/// A row for each condition with a result, and the names of the others.
fn worlds(facts: &[ConditionFacts], records: &Records) -> String {
    let mut results: BTreeMap<(&str, &str), (String, bool)> = BTreeMap::new();
    for record in records.claims.values() {
        for value in &record.values {
            let at = |axis: &str| value.at.get(axis).and_then(toml::Value::as_str).unwrap_or_default();
            let (Some(quotient), [emulated, simulated]) = (value.value, &value.terms[..]) else { continue };
            let cells = format!("{} | {} | {quotient:.2}", megabits(*simulated), megabits(*emulated));
            results.insert((at("condition"), at("scheme")), (cells, (0.85..=1.15).contains(&quotient)));
        }
    }
    let names = |facts: &[&ConditionFacts]| {
        let names: Vec<String> = facts.iter().map(|facts| format!("`{}` ({})", facts.name, facts.rate)).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let result = |facts: &ConditionFacts| {
        let result = |scheme| results.get(&(facts.name.as_str(), scheme)).cloned();
        Some((result("newreno")?, result("cubic")?))
    };
    let (with, without): (Vec<_>, Vec<_>) = facts.iter().partition(|facts| result(facts).is_some());
    let is_outside = |facts: &&ConditionFacts| result(facts).is_some_and(|(newreno, cubic)| !newreno.1 || !cubic.1);
    let outside: Vec<&ConditionFacts> = with.iter().copied().filter(is_outside).collect();
    let mut text = format!(
        "\n{} of {} conditions have a result, {} of them within 15% under both. Outside: {}.\n\n",
        with.len(),
        facts.len(),
        with.len() - outside.len(),
        names(&outside)
    );
    text += "| condition | NewReno simulated | emulated | quotient | CUBIC simulated | emulated | quotient |\n";
    text += "|---|---|---|---|---|---|---|\n";
    for (facts, (newreno, cubic)) in with.iter().filter_map(|facts| Some((facts, result(facts)?))) {
        writeln!(text, "| `{}` | {} | {} |", facts.name, newreno.0, cubic.0).unwrap();
    }
    writeln!(text, "\nWithout a result: {}.", names(&without)).unwrap();
    text
}

/// A rate in Mb/s, with three digits where they matter.
fn megabits(bits: f64) -> String {
    let megabits = bits / 1e6;
    if megabits < 1.0 { format!("{megabits:.3}") } else { format!("{megabits:.2}") }
}
