//! The `rampmeter` command with the controllers, routers and stacks that come with it.

use std::process::ExitCode;

use rampmeter_cli::Registries;

fn main() -> ExitCode {
    rampmeter_cli::main_with(with_stacks(Registries::default()))
}

#[cfg(feature = "stacks")]
fn with_stacks(registries: Registries) -> Registries {
    registries.stack("quinn", rampmeter_stacks::Quinn)
}

#[cfg(not(feature = "stacks"))]
fn with_stacks(registries: Registries) -> Registries {
    registries
}
