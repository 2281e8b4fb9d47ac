//! The `rampmeter` command with one additional router:
//!
//! ```text
//! cargo run --release -- run scenario.toml
//! cargo run --release -- run scenario.toml --world emulated
//! ```

mod step;

use std::process::ExitCode;

use rampmeter_cli::Registries;

fn main() -> ExitCode {
    rampmeter_cli::main_with(Registries::default().router::<step::Step>("step", "Marks packets that have waited long"))
}
