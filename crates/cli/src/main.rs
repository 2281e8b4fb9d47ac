//! The `rampmeter` command with the controllers, routers and stacks that come with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    rampmeter_cli::main_with(rampmeter_cli::registries())
}
