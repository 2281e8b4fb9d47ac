//! `docs/conditions.md` lists the conditions of the library. `make conditions` rewrites its tables.

use std::fmt::Write;
use std::path::Path;

use rampmeter_scenario::{ConditionFacts, Registries};
use rampmeter_units::Duration;

const NETWORK: &str = include_str!("../../scenario/src/conditions/network.toml");
const FLOW: &str = include_str!("../../scenario/src/conditions/flow.toml");

#[test]
fn the_documented_conditions_are_those_of_the_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/conditions.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let facts = ConditionFacts::all(&Registries::default()).unwrap();
    let right = with_part(&text, "conditions", &library(&facts));
    let right = with_part(&right, "flow", &format!("\n```toml\n{NETWORK}{FLOW}```\n"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page, right).unwrap();
    } else {
        assert!(text == right, "docs/conditions.md differs from the library: run `make conditions`");
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
            let buffer = facts.buffer.map_or(String::new(), |buffer| format!(", {}", milliseconds(buffer)));
            let lost = if facts.loss > 0.0 { format!("{:.2}%", facts.loss * 100.0) } else { String::new() };
            let cells = [
                format!("`{}`", facts.name),
                facts.title.clone(),
                format!("{}{varies}", facts.rate),
                facts.reverse_rate.to_string(),
                milliseconds(facts.round_trip),
                format!("`{}`{buffer}", facts.router),
                lost,
                facts.source.clone(),
            ];
            writeln!(text, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    text
}

fn milliseconds(span: Duration) -> String {
    let milliseconds = span.as_secs_f64() * 1e3;
    if milliseconds < 10.0 { format!("{milliseconds:.1} ms") } else { format!("{milliseconds:.0} ms") }
}
