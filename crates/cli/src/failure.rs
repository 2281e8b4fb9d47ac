//! One line for whatever went wrong, and the exit code that says whose fault it was.

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
    pub(crate) fn input(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// The input is right and it did not work out.
    pub(crate) fn failed(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    /// The user stopped it.
    pub(crate) fn interrupted(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: 130 }
    }

    /// The same with something to add.
    pub(crate) fn with(mut self, more: &str) -> Self {
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

/// Restores the system's way with a reader that has gone, which Rust turns into a panic.
pub(crate) fn end_quietly_on_a_broken_pipe() {
    let default = signal_hook::low_level::emulate_default_handler;
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or_default();
        if message.contains("Broken pipe") {
            let _ = default(signal_hook::consts::SIGPIPE);
            std::process::exit(141);
        }
        quiet(panic);
    }));
}
