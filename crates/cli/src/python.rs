//! The commands of the Python package: finds a Python that has the package and runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args as ClapArgs;

use crate::failure::Failure;

/// The arguments of `rampmeter figure`, passed on unchanged.
#[derive(Debug, ClapArgs)]
#[command(after_help = "All figures and their options: rampmeter figure pcp.4 --help")]
pub(crate) struct FigureArgs {
    /// The figure and its options, for example: pcp.4 --seeds 1 --out runs/figures; without arguments, the list of
    /// figures
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The arguments of `rampmeter report`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ReportArgs {
    /// The directory of a run, as in the last line of `rampmeter run`
    #[arg(value_name = "RUN_DIR")]
    directory: PathBuf,
    /// The file to write [default: report.html in that directory]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The axis to draw along [default: the first whose values are quantities]
    #[arg(long, value_name = "AXIS")]
    x: Option<String>,
    /// What to draw: a column of the results, as in claims, or of a traffic or scheme, such as share(bbr); also several
    /// times
    #[arg(long, value_name = "VALUE")]
    y: Vec<String>,
    /// The axis whose values have a line each, also several times; others have panels [default: all others]
    #[arg(long, value_name = "AXIS")]
    lines: Vec<String>,
}

/// The arguments of `rampmeter view`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ViewArgs {
    /// Directories of `rampmeter run --trace`, qlog of QUIC stacks, or captures of TCP; several are shown side by side
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,
    /// Follow directories that a run writes, or will write
    #[arg(long, conflicts_with = "picture")]
    live: bool,
    /// The port at 127.0.0.1 [default: any that is free]
    #[arg(long)]
    port: Option<u16>,
    /// Only print the address of the page
    #[arg(long)]
    no_browser: bool,
    /// The view to open: the part of an earlier address after #
    #[arg(long, value_name = "VIEW")]
    show: Option<String>,
    /// Write a picture, .svg or .png, instead of serving the page (needs Chromium)
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

pub(crate) fn figure(args: &FigureArgs) -> Result<ExitCode, Failure> {
    let (python, mut command) = module("figures")?;
    run(&python, command.args(&args.arguments))
}

pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let (python, mut command) = module("report")?;
    let out = args.out.iter().flat_map(|out| ["--out".as_ref(), out.as_os_str()]);
    let chosen = [("--x", args.x.as_slice()), ("--y", &args.y), ("--lines", &args.lines)];
    let chosen = chosen.iter().flat_map(|(option, values)| values.iter().map(move |value| format!("{option}={value}")));
    run(&python, command.args(out).args(chosen).arg("--").arg(&args.directory))
}

pub(crate) fn view(args: &ViewArgs) -> Result<ExitCode, Failure> {
    let (python, mut command) = module("view")?;
    command.args(args.port.iter().flat_map(|port| ["--port".to_owned(), port.to_string()]));
    command.args(args.live.then_some("--live"));
    command.args(args.no_browser.then_some("--no-browser"));
    command.args(args.show.iter().map(|view| format!("--show={view}")));
    command.args(args.picture.iter().flat_map(|file| ["--picture".as_ref(), file.as_os_str()]));
    run(&python, command.arg("--").args(&args.paths))
}

/// Finds a Python with the package, and the command that runs its module `name`.
pub(crate) fn module(name: &str) -> Result<(PathBuf, Command), Failure> {
    let python = checkout_python().unwrap_or_else(|| PathBuf::from("python3"));
    let module = format!("rampmeter.{name}");
    let import = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        return Err(Failure::failed(format!(
            "this needs the Python package `rampmeter` with what its module `{name}` imports, and {} does not have them; in a \
             checkout `make python` installs all in .venv; elsewhere call CHECKOUT/.venv/bin/python -m {module}, or put a python3 that \
             has them first in PATH",
            python.display()
        )));
    }
    let mut command = Command::new(&python);
    command.args(["-m", &module]);
    Ok((python, command))
}

/// The Python of the checkout of the current directory, or of this command's file: it has the same version of the
/// package. Only the current directory itself is searched, because the directories above it may belong to other users.
fn checkout_python() -> Option<PathBuf> {
    let (here, command) = (std::env::current_dir(), std::env::current_exe());
    let above = command.iter().flat_map(|command| command.ancestors().skip(1));
    let mut paths = here.iter().map(PathBuf::as_path).chain(above).map(|directory| directory.join(".venv/bin/python"));
    paths.find(|python| python.exists())
}

fn run(python: &Path, command: &mut Command) -> Result<ExitCode, Failure> {
    let status = command.status().map_err(|error| Failure::failed(format!("{}: {error}", python.display())))?;
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(u8::try_from(code).unwrap_or(1))))
}
