//! Errors of commands: one line each, and an exit code that tells errors of input from failures.

use std::fmt::{self, Display};
use std::process::ExitCode;

use clap::error::ErrorKind;
use rampmeter_files::NetError;
use rampmeter_net::keys::KeyError;

#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

#[allow(clippy::needless_pass_by_value, reason = "errors are handed over")]
impl Failure {
    /// The input is invalid.
    pub(crate) fn input(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// The input is valid and the command failed.
    pub(crate) fn failed(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    /// The user interrupted the command.
    pub(crate) fn interrupted(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 130 }
    }

    /// Adds `more` to the message if the user interrupted the command.
    #[cfg(feature = "studies")]
    pub(crate) fn if_interrupted(mut self, more: &str) -> Self {
        if self.code == 130 {
            self.message = format!("{}; {more}", self.message);
        }
        self
    }

    /// Prints it: with `json` as an object, whose reader needs no other format.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        report(&self.message, self.code, json);
        ExitCode::from(self.code)
    }
}

/// The exit code if some of several files or runs failed, and others did not.
pub(crate) const SOME_FAILED: u8 = 3;

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<NetError> for Failure {
    fn from(error: NetError) -> Self {
        if error.is_usage() { Self::input(error) } else { Self::failed(error) }
    }
}

#[cfg(feature = "tunnel")]
impl From<rampmeter_net::ContactError> for Failure {
    fn from(error: rampmeter_net::ContactError) -> Self {
        if error.is_usage() { Self::input(error) } else { Self::failed(error) }
    }
}

#[cfg(feature = "tunnel")]
impl From<rampmeter_tunnel::TunnelError> for Failure {
    fn from(error: rampmeter_tunnel::TunnelError) -> Self {
        if error.is_usage() { Self::input(error) } else { Self::failed(error) }
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::input(error)
    }
}

fn report(message: &str, code: u8, json: bool) {
    if json {
        eprintln!("{}", serde_json::json!({ "error": message, "exit_code": code }));
    } else {
        eprintln!("rampmeter: {message}");
    }
}

/// Reports invalid arguments in one line, or prints the help or the version that the arguments ask for.
pub(crate) fn report_arguments(error: &clap::Error, json: bool) -> ExitCode {
    let number = u8::try_from(error.exit_code()).unwrap_or(2);
    let code = ExitCode::from(number);
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // If the help cannot be printed, there is nothing else to say.
        let _ = error.print();
        return code;
    }
    report(&one_line(&error.to_string(), error.kind() == ErrorKind::MissingRequiredArgument), number, json);
    code
}

/// The message of an error of arguments, whose parts have a line each, in one line. Its usage follows if `with_usage`.
fn one_line(message: &str, with_usage: bool) -> String {
    let mut line = String::new();
    for part in message.lines().map(str::trim).filter(|part| !part.is_empty()) {
        let part = part.strip_prefix("error: ").unwrap_or(part);
        let is_usage = part.starts_with("Usage: ");
        if part.starts_with("For more information") || (is_usage && !with_usage) {
            continue;
        }
        line.push_str(match line.chars().next_back() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        });
        line.push_str(&part.replacen("Usage: ", "usage: ", usize::from(is_usage)));
    }
    line
}

/// Rust panics if standard output cannot be written. This hook ends the process instead: quietly if the reader has
/// closed the pipe, as other commands do, or with an error of one line, for example if the disk is full.
pub(crate) fn exit_on_output_error() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>();
        let Some(reason) = message.and_then(|message| message.strip_prefix("failed printing to stdout: ")) else {
            return default(panic);
        };
        if reason.contains("Broken pipe") {
            std::process::exit(141);
        }
        eprintln!("rampmeter: standard output cannot be written: {reason}");
        std::process::exit(1);
    }));
}
