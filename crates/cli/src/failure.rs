//! One line for whatever went wrong, and the exit code that says whose fault it was.

use std::fmt::Display;
use std::process::ExitCode;

use rampmeter_net::files::NetError;

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
    #[cfg(feature = "studies")]
    pub(crate) fn if_interrupted(mut self, more: &str) -> Self {
        if self.code == 130 {
            self.message.push_str("; ");
            self.message.push_str(more);
        }
        self
    }

    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("rampmeter: {}", self.message);
        ExitCode::from(self.code)
    }
}

impl From<NetError> for Failure {
    fn from(error: NetError) -> Self {
        if error.is_usage() { Self::input(error) } else { Self::failed(error) }
    }
}

/// Rust turns output that can't be written into a panic. When its reader has gone the process ends quietly, as other
/// commands do; when a disk is full it says so in a line.
pub(crate) fn end_where_output_does() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>();
        let Some(why) = message.and_then(|message| message.strip_prefix("failed printing to stdout: ")) else {
            return usual(panic);
        };
        if why.contains("Broken pipe") {
            std::process::exit(141);
        }
        eprintln!("rampmeter: the output can't be written: {why}");
        std::process::exit(1);
    }));
}
