//! What the Python package draws.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args as ClapArgs;

use crate::failure::Failure;

/// What `rampmeter figure` takes: passed on as it is.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The figure and its options, for example: pcp.4 --seeds 1 --out runs/figures; without any, the list
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn figure(args: &Args) -> Result<ExitCode, Failure> {
    // A checkout's own environment first: it has this very version of the package.
    let local = PathBuf::from(".venv/bin/python");
    let python = if local.exists() { local } else { PathBuf::from("python3") };
    let has_package = Command::new(&python).args(["-c", "import rampmeter.figures"]).output();
    if !has_package.is_ok_and(|output| output.status.success()) {
        return Err(Failure::failed(
            "figures need the Python package `rampmeter`, which is not here; in a checkout `make python` installs it",
        ));
    }
    let status = Command::new(&python).args(["-m", "rampmeter.figures"]).args(&args.arguments).status();
    let status = status.map_err(|error| Failure::failed(format!("{}: {error}", python.display())))?;
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(u8::try_from(code).unwrap_or(1))))
}
