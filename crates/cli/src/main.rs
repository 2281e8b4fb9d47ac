//! The `rampmeter` command with the controllers, routers and stacks that come with it.

use std::process::ExitCode;

use rampmeter_cli::Registries;

fn main() -> ExitCode {
    rampmeter_cli::main_with(with_stacks(Registries::default()))
}

#[cfg(feature = "stacks")]
fn with_stacks(registries: Registries) -> Registries {
    let quinn = rampmeter_stacks::Quinn::new(&registries.controllers);
    registries.stack("quinn", quinn)
}

#[cfg(not(feature = "stacks"))]
fn with_stacks(registries: Registries) -> Registries {
    registries
}
