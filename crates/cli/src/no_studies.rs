//! The commands on scenarios in a build without the feature `studies`: they report that the feature is missing.

use std::process::ExitCode;

use clap::Subcommand;
use rampmeter_scenario::Registries;

use crate::failure::Failure;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) const EXAMPLES: &str = "";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(name = "run", aliases = ["emulate", "claims", "probe"], hide = true, disable_help_flag = true)]
    Missing {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<String>,
    },
}

/// Does nothing: no command of this build needs preparation.
pub(crate) fn prepare(_command: &Command) {}

pub(crate) fn execute(_command: &Command, _registries: &Registries) -> Result<ExitCode, Failure> {
    Err(Failure::input(
        "this rampmeter was built without `run`, `emulate`, `claims` and `probe`: build it with `--features studies`",
    ))
}
