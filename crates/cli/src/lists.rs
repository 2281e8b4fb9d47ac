//! What there is: controllers and routers.

use std::process::ExitCode;

use rampmeter_control::Registry;
use rampmeter_router::Registry as Routers;
use rampmeter_units::Known;
use toml::Table;

use crate::failure::Failure;
use crate::table::table;

pub(crate) fn controllers(registry: &Registry) -> ExitCode {
    list("controller", registry.list())
}

/// Refuses `name` where there is no place for settings and the controller can't do without, or where there is none of it.
pub(crate) fn check_controller(registry: &Registry, name: &str) -> Result<(), Failure> {
    let is_bare = |name: &str| registry.factory(name, &Table::new()).is_ok();
    if is_bare(name) {
        return Ok(());
    }
    let known = Known::near(name, registry.list().map(|(name, _)| name).filter(|name| is_bare(name)));
    let problem = match registry.reacts_to_congestion(name) {
        Some(_) => {
            format!("controller `{name}` can't be used here: it needs settings, as a scenario gives them; {known}")
        }
        None => format!("no controller is called `{name}`; {known}"),
    };
    Err(Failure::input(problem))
}

pub(crate) fn routers(registry: &Routers) -> ExitCode {
    list("router", registry.list())
}

fn list<'a>(kind: &str, names: impl Iterator<Item = (&'a str, &'a str)>) -> ExitCode {
    let rows: Vec<Vec<String>> = names.map(|(name, about)| vec![name.to_owned(), about.to_owned()]).collect();
    print!("{}", table(&[kind.to_owned(), "what it does".to_owned()], &rows));
    ExitCode::SUCCESS
}
