//! The `rampmeter` command with one controller more:
//!
//! ```text
//! cargo run --release -- run scenario.toml
//! cargo run --release -- run scenario.toml --world emulated
//! ```

mod steady;

use std::process::ExitCode;

use rampmeter_control::Registry;

fn main() -> ExitCode {
    rampmeter_cli::main_with(
        Registry::default().add::<steady::Steady>("steady", "Keeps the queue short by taking delay for a signal"),
    )
}
