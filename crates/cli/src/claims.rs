//! stub
use crate::failure::Failure;
use clap::Args as ClapArgs;
use rampmeter_control::Registry;
use std::process::ExitCode;
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    paper: Option<String>,
    #[arg(long)]
    quick: bool,
    #[arg(long)]
    strict: bool,
    #[arg(long)]
    json: bool,
}
pub(crate) fn claims(_args: &Args, _registry: &Registry) -> Result<ExitCode, Failure> {
    Err(Failure::failed("not yet"))
}
