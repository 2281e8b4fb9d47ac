//! stub
use std::process::ExitCode;
use clap::Args as ClapArgs;
use rampmeter_control::Registry;
use crate::failure::Failure;
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    paper: Option<String>,
    #[arg(long)] quick: bool,
    #[arg(long)] strict: bool,
    #[arg(long)] json: bool,
}
pub(crate) fn claims(_args: &Args, _registry: &Registry) -> Result<ExitCode, Failure> { Err(Failure::failed("not yet")) }
