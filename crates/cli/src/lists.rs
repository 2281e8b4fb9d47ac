//! What there is: controllers, routers, abilities of this machine.

use std::process::ExitCode;

use rampmeter_control::Registry;

use crate::table::table;

pub(crate) fn controllers(registry: &Registry) -> ExitCode {
    list("controller", registry.list())
}

pub(crate) fn routers() -> ExitCode {
    list("router", rampmeter_router::registry::NAMES.iter().copied())
}

fn list<'a>(kind: &str, names: impl Iterator<Item = (&'a str, &'a str)>) -> ExitCode {
    let rows: Vec<Vec<String>> = names.map(|(name, about)| vec![name.to_owned(), about.to_owned()]).collect();
    print!("{}", table(&[kind.to_owned(), "what it does".to_owned()], &rows));
    ExitCode::SUCCESS
}

pub(crate) fn probe() -> ExitCode {
    let able = rampmeter_linux::probe();
    println!("{able}");
    if able.emulation().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
