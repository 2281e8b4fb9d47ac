//! The commands that run scenarios and judge claims, simulated and emulated.

mod capacity;
mod check;
mod claims;
mod cluster;
mod conditions;
mod emulate;
mod evaluate;
mod interrupt;
mod invocation;
mod kept;
mod new;
mod run;
mod schema;
mod wrap;

use std::process::ExitCode;

use clap::Subcommand;
use rampmeter_scenario::{Registries, ScenarioError};
use rampmeter_study::{StudyError, Unfinished};

use crate::failure::{Failure, SOME_FAILED};

/// With a hash of the simulator, which results and clusters name.
pub(crate) const VERSION: &str = rampmeter_study::BUILD;

pub(crate) const EXAMPLES: &str =
    "  rampmeter run studies/pcp/quick_start.toml                        simulate a scenario
  rampmeter run studies/pcp/quick_start.toml --world emulated       the same with real packets, on this machine
  rampmeter run studies/pcp/offered_load.toml --set load=0.3,0.6 --set scheme=pcp,tcp
  rampmeter emulate FILE.toml --left COMMAND --right COMMAND        a client and a server around an emulated network
";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run all points of a scenario and print the results
    Run(run::Args),
    /// Print the table of a run directory again, also of an interrupted run
    Show(kept::ShowArgs),
    /// List what differs between two run directories by more than chance explains
    Diff(kept::DiffArgs),
    /// Run the scenario of a run directory again, and compare the tables
    Repeat(kept::RepeatArgs),
    /// Write a small scenario to begin with
    New(new::Args),
    /// Show all errors of scenarios, conditions, claims and questions, without running them
    Check(check::Args),
    /// Write the JSON Schema of scenarios or claims, for editors
    Schema(schema::Args),
    /// Run any client and server on the two sides of a scenario's network, with real packets
    Emulate(emulate::Args),
    /// Run the scenarios of the papers' claims and report which claims hold
    Claims(claims::Args),
    /// List the conditions: networks with a name, that `run` and any scenario can use
    Conditions(conditions::Args),
    /// Draw the capacity of a scenario's link, or write it as a trace in mahimahi's format
    Capacity(capacity::Args),
    /// Ask the questions of RFC 9743 of a controller, compare it with its rivals, and write a page about it
    Evaluate(evaluate::Args),
    /// Show whether this machine can emulate networks
    Probe,
}

/// Prepares this process for real packets if the command may need them.
pub(crate) fn prepare(command: &Command) {
    let may_emulate = match command {
        Command::Probe | Command::Claims(_) | Command::Emulate(_) | Command::Repeat(_) => true,
        Command::Run(args) => args.is_emulated(),
        Command::New(_)
        | Command::Check(_)
        | Command::Schema(_)
        | Command::Show(_)
        | Command::Diff(_)
        | Command::Conditions(_)
        | Command::Capacity(_) => false,
        Command::Evaluate(args) => args.is_emulated(),
    };
    if may_emulate {
        // This must happen before there are threads. Errors are reported when a network namespace is created.
        let _ = rampmeter_linux::enter_user_namespace();
    }
}

pub(crate) fn execute(command: &Command, registries: &Registries) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => run::run(args, registries),
        Command::Show(args) => kept::show(args, registries),
        Command::Diff(args) => kept::diff(args, registries),
        Command::Repeat(args) => kept::repeat(args, registries),
        Command::New(args) => new::new(args),
        Command::Check(args) => check::check(args, registries),
        Command::Schema(args) => schema::schema(args, registries),
        Command::Emulate(args) => emulate::emulate(args, registries),
        Command::Claims(args) => claims::claims(args, registries),
        Command::Conditions(args) => conditions::conditions(args, registries),
        Command::Capacity(args) => capacity::capacity(args, registries),
        Command::Evaluate(args) => evaluate::evaluate(args, registries),
        Command::Probe => Ok(probe()),
    }
}

/// The exit codes of commands that run points.
const EXIT_CODES: &str = "Exit codes: 0 success; 1 the command failed; 2 the input is invalid; 3 runs failed, one line \
                          for each on standard error, and the others have results; 130 interrupted.";

/// Prints a line for each run that failed, and returns the exit code. A check that the user asked for decides before the
/// runs: a run that failed is often what makes it fail.
fn report_failed<'a>(failed: impl IntoIterator<Item = &'a Unfinished>, check_fails: bool) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for run in failed {
        eprintln!("rampmeter: failed at {}: {}", run.point, run.reason);
        code = ExitCode::from(SOME_FAILED);
    }
    if check_fails { ExitCode::FAILURE } else { code }
}

fn probe() -> ExitCode {
    let able = rampmeter_linux::probe();
    println!("{able}");
    if able.emulation().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        Self::input(error)
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        match error {
            StudyError::Interrupted { .. } => Self::interrupted(error),
            _ if error.is_bad_input() => Self::input(error),
            _ => Self::failed(error),
        }
    }
}
