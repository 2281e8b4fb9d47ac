//! What the Python package draws: this command finds a Python that has the package and hands over.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args as ClapArgs;

use crate::failure::Failure;

/// What `rampmeter figure` takes: passed on as it is.
#[derive(Debug, ClapArgs)]
#[command(after_help = "The figures, and the options that they take: rampmeter figure pcp.4 --help")]
pub(crate) struct FigureArgs {
    /// The figure and its options, for example: pcp.4 --seeds 1 --out runs/figures; without any, the list
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// What `rampmeter report` takes.
#[derive(Debug, ClapArgs)]
pub(crate) struct ReportArgs {
    /// A run's folder: the last line of `rampmeter run` names it
    #[arg(value_name = "RUN_DIR")]
    folder: PathBuf,
    /// Where the page goes [default: report.html in that folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn figure(args: &FigureArgs) -> Result<ExitCode, Failure> {
    let (python, mut command) = module("figures")?;
    run(&python, command.args(&args.arguments))
}

pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let (python, mut command) = module("report")?;
    let out = args.out.iter().flat_map(|out| ["--out".as_ref(), out.as_os_str()]);
    run(&python, command.args(out).arg("--").arg(&args.folder))
}

/// A Python with the package, and the command that runs its module `name`.
fn module(name: &str) -> Result<(PathBuf, Command), Failure> {
    let python = checkouts_python().unwrap_or_else(|| PathBuf::from("python3"));
    let module = format!("rampmeter.{name}");
    let has_it = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if !has_it.is_ok_and(|output| output.status.success()) {
        return Err(Failure::failed(format!(
            "this needs the Python package `rampmeter` with matplotlib, and {} does not have them; in a checkout \
             `make python` installs both; elsewhere a python3 that has them must come first in PATH",
            python.display()
        )));
    }
    let mut command = Command::new(&python);
    command.args(["-m", &module]);
    Ok((python, command))
}

/// The Python of the checkout that we stand in, or that this command lies in: it has this very version of the package.
/// What else lies above where we stand may be a stranger's.
fn checkouts_python() -> Option<PathBuf> {
    let (here, command) = (std::env::current_dir(), std::env::current_exe());
    let above = command.iter().flat_map(|command| command.ancestors().skip(1));
    let mut paths = here.iter().map(PathBuf::as_path).chain(above).map(|folder| folder.join(".venv/bin/python"));
    paths.find(|python| python.exists())
}

fn run(python: &Path, command: &mut Command) -> Result<ExitCode, Failure> {
    let status = command.status().map_err(|error| Failure::failed(format!("{}: {error}", python.display())))?;
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(u8::try_from(code).unwrap_or(1))))
}
