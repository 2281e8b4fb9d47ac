//! Lists of controllers, routers and stacks.

use std::process::ExitCode;

use rampmeter_control::Registry;
use rampmeter_scenario::stack::{NO_STACKS, Stack, Stacks};
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

/// Names with a line about each, below the words `head`.
pub(crate) fn list<'a>(head: [&str; 2], names: impl Iterator<Item = (&'a str, &'a str)>) -> ExitCode {
    let rows: Vec<Vec<String>> = names.map(|(name, about)| vec![name.to_owned(), about.to_owned()]).collect();
    print!("{}", table(&head.map(str::to_owned), &rows));
    ExitCode::SUCCESS
}

/// Each controller of each stack, as the name of a scheme.
pub(crate) fn stacks(stacks: &Stacks) -> Result<ExitCode, Failure> {
    let schemes: Vec<(String, &dyn Stack)> = stacks.schemes().collect();
    if schemes.is_empty() {
        return Err(Failure::input(format!("there are no stacks: {NO_STACKS}")));
    }
    Ok(list(["scheme", "what it is"], schemes.iter().map(|(name, stack)| (name.as_str(), stack.about()))))
}
