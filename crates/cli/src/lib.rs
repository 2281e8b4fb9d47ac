//! The `rampmeter` command as a library. A crate with its own controller, router or stack adds it to the registries and
//! gets the complete command.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     rampmeter_cli::main_with(rampmeter_cli::Registries::default()) // .controller::<Mine>("mine", "what it does")
//! }
//! ```
//!
//! Exit codes: 0 success; 1 the command, a check or a transfer failed; 2 the input is invalid; 3 some of several files or
//! runs failed, and no check did; 130 interrupted. Every error is one line on standard error. With `--json`, standard output has only the JSON object.

mod cm;
mod failure;
mod files;
#[cfg(feature = "kernel")]
mod kernel;
mod lists;
mod manual;
mod operate;
mod python;
#[cfg_attr(not(feature = "studies"), path = "no_studies.rs")]
mod studies;
mod table;
mod trace;
#[cfg(feature = "tunnel")]
mod tunnel;

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory, Parser, Subcommand};

pub use rampmeter_scenario::Registries;
/// The controllers, routers and stacks of the `rampmeter` command.
#[cfg(feature = "stacks")]
pub use rampmeter_stacks::registries;
use serde::Serialize;

use crate::failure::Failure;

const EXAMPLES: &str =
    "  rampmeter serve DIR                                               serve files over UDP, encrypted
  rampmeter get 127.0.0.1:7267/NAME                                 fetch a file
  rampmeter get 127.0.0.1:7267/NAME --controller cubic              fetch it with CUBIC
  rampmeter tunnel 'HOST:7268?key=KEY' --socks 1080                 carry other programs' TCP over UDP, encrypted
  rampmeter cm daemon                                               start the Congestion Manager daemon
  rampmeter cm web DIR                                              serve files over HTTP, paced by the daemon";

/// Design, simulate and use congestion control: in a simulator, in an emulated network, and on real networks
#[derive(Debug, Parser)]
#[command(name = "rampmeter", version = studies::VERSION, after_help = format!("Examples:\n{}{EXAMPLES}", studies::EXAMPLES), arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Studies(studies::Command),
    /// Serve the files of a directory over UDP
    Serve(files::ServeArgs),
    /// Fetch files by name from `rampmeter serve`
    Get(files::GetArgs),
    /// Carry TCP connections of other programs over UDP, encrypted
    #[cfg(feature = "tunnel")]
    Tunnel(tunnel::TunnelArgs),
    /// Run controllers under the kernel's TCP, for programs that know nothing of them (root)
    #[cfg(feature = "kernel")]
    Kernel(kernel::KernelArgs),
    /// Print this host's public key; make a key pair if there is none
    Key(files::KeyArgs),
    /// Print the state of running servers, tunnels and of the Congestion Manager's daemon
    Status(operate::StatusArgs),
    /// Run or use the Congestion Manager of this host
    Cm(cm::CmArgs),
    /// List the congestion controllers
    Controllers,
    /// List the routers
    Routers,
    /// List other transports' stacks with their controllers, as schemes
    Stacks,
    /// Draw a figure of a paper from runs of Rampmeter (needs the Python package)
    Figure(python::FigureArgs),
    /// Write a run's tables and charts as one HTML page (needs the Python package)
    Report(python::ReportArgs),
    /// Show why flows did what they did: traces in the browser (needs the Python package)
    View(python::ViewArgs),
    /// Write this command's man pages and shell completions
    Manual(manual::ManualArgs),
}

/// The controllers and routers of the `rampmeter` command; this build has no stacks.
#[cfg(not(feature = "stacks"))]
pub fn registries() -> Registries {
    Registries::default()
}

/// Runs the command with the controllers, routers and stacks of `registries`.
#[allow(clippy::needless_pass_by_value, reason = "the caller builds it for us in one expression")]
pub fn main_with(registries: Registries) -> ExitCode {
    // `rampmeter ... | head` ends quietly, as other commands do.
    failure::exit_on_output_error();
    // Also of a command line that is wrong.
    let json = std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::report_arguments(&error, json),
    };
    if let Command::Studies(command) = &cli.command {
        studies::prepare(command);
    }
    match execute(&cli.command, &registries) {
        Ok(code) => code,
        Err(failure) => failure.report(json),
    }
}

fn execute(command: &Command, registries: &Registries) -> Result<ExitCode, Failure> {
    match command {
        Command::Studies(command) => studies::execute(command, registries),
        Command::Serve(args) => files::serve(args, &registries.controllers),
        Command::Get(args) => files::get(args, &registries.controllers),
        #[cfg(feature = "tunnel")]
        Command::Tunnel(args) => tunnel::tunnel(args, &registries.controllers),
        #[cfg(feature = "kernel")]
        Command::Kernel(args) => kernel::execute(args, &registries.controllers),
        Command::Key(args) => files::key(args),
        Command::Status(args) => operate::status(args),
        Command::Cm(args) => cm::cm(args, &registries.controllers),
        Command::Controllers => Ok(lists::list(["controller", "what it does"], registries.controllers.list())),
        Command::Routers => Ok(lists::list(["router", "what it does"], registries.routers.list())),
        Command::Stacks => lists::stacks(&registries.stacks),
        Command::Figure(args) => python::figure(args),
        Command::Report(args) => python::report(args),
        Command::View(args) => python::view(args),
        Command::Manual(args) => manual::manual(args, Cli::command()),
    }
}

/// Prints a result to standard output: one JSON object, or a text.
fn print_result<T: Serialize>(json: bool, result: &T, text: fn(&T) -> String) -> Result<ExitCode, Failure> {
    if json {
        println!("{}", serde_json::to_string(result).map_err(Failure::failed)?);
    } else {
        print!("{}", text(result));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a line of the log of a server, which goes on whether or not somebody still reads its output.
fn log(mut output: impl Write, line: impl Display) {
    let _ = writeln!(output, "{line}");
}

/// Raised by the first Ctrl-C; the second one ends the process.
fn stop_flag() -> Arc<AtomicBool> {
    // Without signal handlers Ctrl-C only ends the process less gracefully: this is no error.
    rampmeter_net::stop_on_interrupt().unwrap_or_default()
}
