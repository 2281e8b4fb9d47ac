//! `rampmeter new`: writes a small scenario to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_scenario::Condition;

use crate::failure::Failure;

const DUMBBELL: &str = include_str!("dumbbell.toml");
const CONDITION: &str = include_str!("condition.toml");

/// The arguments of `rampmeter new`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  rampmeter new mine.toml\n  rampmeter new mine.toml --condition lte-walking")]
pub(crate) struct Args {
    /// The file to write, which must not exist
    file: PathBuf,
    /// Use the network of this condition (rampmeter conditions), instead of a link of the scenario's own
    #[arg(long, value_name = "NAME")]
    condition: Option<String>,
}

pub(crate) fn new(args: &Args) -> Result<ExitCode, Failure> {
    let text = match &args.condition {
        None => DUMBBELL.to_owned(),
        Some(name) => CONDITION.replace("NAME", Condition::find(name).map_err(Failure::input)?.name),
    };
    let file = args.file.display();
    let created = OpenOptions::new().write(true).create_new(true).open(&args.file);
    created.and_then(|mut created| created.write_all(text.as_bytes())).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::input(format!("{file} exists; give the name of a new file")),
        _ => Failure::failed(format!("{file} cannot be written: {error}; give a file in a directory that exists")),
    })?;
    println!("{file}: run it with `rampmeter run {file}`");
    Ok(ExitCode::SUCCESS)
}
