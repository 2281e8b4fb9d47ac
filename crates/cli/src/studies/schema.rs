//! `rampmeter schema`: JSON Schemas for editors.

use std::process::ExitCode;

use clap::{Args as ClapArgs, ValueEnum};
use rampmeter_scenario::{Registries, json_schema};
use rampmeter_study::claims;

use crate::failure::Failure;

/// The arguments of `rampmeter schema`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "With taplo, for example in Helix, Neovim and VS Code:\n  rampmeter schema >scenario.json\n  \
    and in the first line of a scenario: #:schema ./scenario.json")]
pub(crate) struct Args {
    /// What the schema describes
    #[arg(default_value = "scenario")]
    of: Of,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Of {
    /// Scenarios and conditions
    Scenario,
    /// Files of claims
    Claims,
}

pub(crate) fn schema(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    let schema = match args.of {
        Of::Scenario => json_schema(registries),
        Of::Claims => claims::json_schema(),
    };
    println!("{}", serde_json::to_string_pretty(&schema).map_err(Failure::failed)?);
    Ok(ExitCode::SUCCESS)
}
