//! `rampmeter conditions`: lists the conditions of the library or of one group, or prints one.

use std::path::Path;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_scenario::{CONDITIONS, Condition, ConditionFacts, Registries};
use rampmeter_units::{Known, Rate};
use serde_json::json;

use crate::failure::Failure;
use crate::table::table;

/// The arguments of `rampmeter conditions`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "rampmeter run, trace and emulate take a condition's name in the place of a scenario. A scenario uses \
    one with `condition = \"NAME\"`, or as an axis: docs/conditions.md.\n\n\
    Examples:\n  rampmeter conditions wifi\n  rampmeter run lte-walking --set scheme=cubic,bbr\n  \
    rampmeter conditions lte-walking >mine.toml; then edit it, and:\n  rampmeter conditions mine.toml\n  \
    rampmeter run mine.toml"
)]
pub(crate) struct Args {
    /// Print this condition's file; or list this group, or the condition in this file
    name: Option<String>,
    /// Write one JSON object to standard output instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn conditions(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    let name = args.name.as_deref();
    if let Some(condition) = name.filter(|_| !args.json).and_then(|name| Condition::find(name).ok()) {
        print!("{}", condition.text);
        return Ok(ExitCode::SUCCESS);
    }
    let facts = name.map_or_else(|| Ok(ConditionFacts::all(registries)?), |name| named(name, registries))?;
    if args.json {
        println!("{}", json!({ "conditions": facts }));
    } else {
        print!("{}", list(&facts));
    }
    Ok(ExitCode::SUCCESS)
}

/// The conditions of the group called `name`, or the one with this name or file.
fn named(name: &str, registries: &Registries) -> Result<Vec<ConditionFacts>, Failure> {
    if Condition::find(name).is_ok() || Path::new(name).exists() {
        return Ok(vec![ConditionFacts::of(name, registries)?]);
    }
    let mut facts = ConditionFacts::all(registries)?;
    let mut groups: Vec<String> = facts.iter().map(|facts| facts.group.clone()).collect();
    groups.dedup();
    facts.retain(|facts| facts.group == name);
    if !facts.is_empty() {
        return Ok(facts);
    }
    let names = CONDITIONS.iter().map(|condition| condition.name).chain(groups.iter().map(String::as_str));
    let advice = match Known::near(name, names) {
        Known::All(_) => format!("the groups are {}", groups.join(", ")),
        Known::Several(near, _) => Known::Several(near, Vec::new()).to_string(),
        near @ Known::Near(_) => near.to_string(),
    };
    let unknown = format!("no condition or group is called `{}`; {advice}", name.escape_debug());
    Err(Failure::input(format!("{unknown}; `rampmeter conditions` lists all; a file's name ends in .toml")))
}

/// A table in which the name of each group precedes its conditions.
fn list(facts: &[ConditionFacts]) -> String {
    let head = ["condition", "rate", "reverse", "round trip", "queue", "lost", "what it is"].map(String::from);
    let group = |facts: &[ConditionFacts]| {
        let heading = Some(vec![facts[0].group.clone()]).filter(|heading| !heading[0].is_empty());
        heading.into_iter().chain(facts.iter().map(row)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = facts.chunk_by(|a, b| a.group == b.group).map(group).collect();
    table(&head, &rows.join(&[Vec::new()][..])) // an empty row between groups
}

fn row(facts: &ConditionFacts) -> Vec<String> {
    let [rate, reverse] = [facts.rate, facts.reverse_rate].map(|rate: Rate| rate.to_string());
    let varies = facts.varies.map_or(String::new(), |model| format!(" ({model})"));
    let buffer = facts.buffer.map_or(String::new(), |buffer| format!(", {}", ConditionFacts::milliseconds(buffer)));
    let loss = if facts.loss > 0.0 { format!("{:.1}%", facts.loss * 100.0) } else { String::new() };
    vec![
        format!("  {}", facts.name),
        rate + &varies,
        reverse,
        ConditionFacts::milliseconds(facts.round_trip),
        format!("{}{buffer}", facts.router),
        loss,
        facts.title.clone(),
    ]
}
