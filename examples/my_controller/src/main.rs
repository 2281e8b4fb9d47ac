//! The `rampmeter` command with one controller more:
//!
//! ```text
//! cargo run --release -- run scenario.toml
//! cargo run --release -- run scenario.toml --world emulated
//! ```

mod steady;

use std::process::ExitCode;

use rampmeter_cli::Registries;

fn main() -> ExitCode {
    let about = "Keeps the queue short by taking delay for a signal";
    rampmeter_cli::main_with(Registries::default().controller::<steady::Steady>("steady", about))
}
