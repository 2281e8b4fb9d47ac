//! The `rampmeter` command with one additional controller:
//!
//! ```text
//! cargo run --release -- run scenario.toml
//! cargo run --release -- run scenario.toml --world emulated
//! ```

mod steady;

use std::process::ExitCode;

use rampmeter_cli::Registries;

fn main() -> ExitCode {
    let about = "Keeps the queue short by reacting to delay";
    rampmeter_cli::main_with(Registries::default().controller::<steady::Steady>("steady", about))
}
