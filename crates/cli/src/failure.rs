//! One line for whatever went wrong, and the exit code that says whose fault it was.

use std::fmt::Display;
use std::process::ExitCode;

use rampmeter_net::files::NetError;
use rampmeter_scenario::ScenarioError;
use rampmeter_study::StudyError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// The input is wrong.
    #[allow(clippy::needless_pass_by_value, reason = "errors are handed over")]
    pub(crate) fn input(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// The input is right and it did not work out.
    #[allow(clippy::needless_pass_by_value, reason = "errors are handed over")]
    pub(crate) fn failed(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    /// The user stopped it.
    #[allow(clippy::needless_pass_by_value, reason = "errors are handed over")]
    pub(crate) fn interrupted(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 130 }
    }

    /// With something to add if the user stopped it.
    pub(crate) fn if_interrupted(mut self, more: &str) -> Self {
        if self.code == 130 {
            self.message.push_str(more);
        }
        self
    }

    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("rampmeter: {}", self.message);
        ExitCode::from(self.code)
    }
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

impl From<NetError> for Failure {
    fn from(error: NetError) -> Self {
        if error.is_usage() { Self::input(error) } else { Self::failed(error) }
    }
}

/// Ends the process when the reader of its output has gone, as other commands do: Rust turns that into a panic.
pub(crate) fn end_quietly_on_a_broken_pipe() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.to_string().contains("Broken pipe") {
            std::process::exit(141);
        }
        usual(panic);
    }));
}
