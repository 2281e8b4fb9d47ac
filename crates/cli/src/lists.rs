//! Lists of controllers, routers and stacks.

use std::process::ExitCode;

use rampmeter_control::Registry;
use rampmeter_scenario::stack::{Stack, Stacks};
use rampmeter_units::Known;
use toml::Table;

use crate::failure::Failure;
use crate::table::table;

/// Refuses `name` if no such controller exists, or if it needs settings, which cannot be given here.
pub(crate) fn check_controller(registry: &Registry, name: &str) -> Result<(), Failure> {
    let needs_no_settings = |name: &str| registry.factory(name, &Table::new()).is_ok();
    if needs_no_settings(name) {
        return Ok(());
    }
    let known = Known::near(name, registry.list().map(|(name, _)| name).filter(|name| needs_no_settings(name)));
    let problem = if registry.has(name) {
        format!("controller `{name}` cannot be used here: it needs settings, which only a scenario can give; {known}")
    } else {
        format!("no controller is called `{name}`; {known}")
    };
    Err(Failure::input(problem))
}

pub(crate) fn list<'a>(kind: &str, names: impl Iterator<Item = (&'a str, &'a str)>) -> ExitCode {
    let rows: Vec<Vec<String>> = names.map(|(name, about)| vec![name.to_owned(), about.to_owned()]).collect();
    print!("{}", table(&[kind.to_owned(), "what it does".to_owned()], &rows));
    ExitCode::SUCCESS
}

/// The controllers of each stack, with the stack's version.
pub(crate) fn stacks(stacks: &Stacks) -> ExitCode {
    let rows_of = |(name, stack): (&str, &dyn Stack)| {
        let row = |controller: &str| vec![name.to_owned(), controller.to_owned(), stack.about().to_owned()];
        stack.controllers().into_iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = stacks.list().flat_map(rows_of).collect();
    print!("{}", table(&["stack".to_owned(), "controller".to_owned(), "what it is".to_owned()], &rows));
    ExitCode::SUCCESS
}
