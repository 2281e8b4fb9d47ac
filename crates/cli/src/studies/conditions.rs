//! `rampmeter conditions`: lists the conditions of the library, or prints one.

use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_scenario::{Condition, ConditionFacts, Registries};
use rampmeter_units::Rate;
use serde_json::json;

use crate::failure::Failure;
use crate::table::table;

/// The arguments of `rampmeter conditions`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "rampmeter run, trace and emulate take a condition's name in the place of a scenario. A scenario uses \
    one with `condition = \"NAME\"`, or as an axis: docs/conditions.md.\n\n\
    Examples:\n  rampmeter run lte-walking --set scheme=cubic,bbr\n  rampmeter conditions lte-walking >mine.toml; then \
    edit it, and:\n  rampmeter run lte-walking --set condition=mine.toml"
)]
pub(crate) struct Args {
    /// Print this condition's file
    name: Option<String>,
    /// Write one JSON object to standard output instead of a table
    #[arg(long, conflicts_with = "name")]
    json: bool,
}

pub(crate) fn conditions(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    if let Some(name) = &args.name {
        print!("{}", Condition::find(name).map_err(Failure::input)?.text);
        return Ok(ExitCode::SUCCESS);
    }
    let facts = ConditionFacts::all(registries)?;
    if args.json {
        println!("{}", json!({ "conditions": facts }));
    } else {
        print!("{}", list(&facts));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(facts: &[ConditionFacts]) -> String {
    let head = ["condition", "rate", "reverse", "round trip", "queue", "lost", "what it is"].map(String::from);
    let rows: Vec<Vec<String>> = facts
        .iter()
        .map(|facts| {
            let [rate, reverse] = [facts.rate, facts.reverse_rate].map(|rate: Rate| rate.to_string());
            let varies = facts.varies.map_or(String::new(), |model| format!(" ({model})"));
            let buffer =
                facts.buffer.map_or(String::new(), |buffer| format!(", {}", ConditionFacts::milliseconds(buffer)));
            let loss = if facts.loss > 0.0 { format!("{:.1}%", facts.loss * 100.0) } else { String::new() };
            vec![
                facts.name.clone(),
                rate + &varies,
                reverse,
                ConditionFacts::milliseconds(facts.round_trip),
                format!("{}{buffer}", facts.router),
                loss,
                facts.title.clone(),
            ]
        })
        .collect();
    table(&head, &rows)
}
