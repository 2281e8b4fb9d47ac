//! `--trace` of commands that use a real network.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use rampmeter_trace::HostTrace;
use rampmeter_units::{Bytes, Time};

use crate::failure::Failure;

/// Arguments of the trace.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Write what each connection did, and why, to a qlog file, in a directory in DIR that is named after the time
    /// (docs/traces.md)
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// The maximum size of all files of the trace: the newest part is kept, at least half of this
    #[arg(long, value_name = "SIZE", default_value = "1 GB", requires = "trace")]
    trace_limit: Bytes,
}

impl TraceArgs {
    /// The trace, if there is to be one.
    pub(crate) fn open(&self) -> Result<Option<HostTrace>, Failure> {
        let open = |path: &PathBuf| {
            // A server that is started again, or the next transfer, must not replace the files of the last one.
            let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string().replace(':', "-");
            let opened = HostTrace::new(&path.join(now), self.trace_limit);
            opened.map_err(|error| Failure::input(format!("--trace {}: {error}", path.display())))
        };
        self.trace.as_ref().map(open).transpose()
    }

    /// Ends a trace, and says if it is not whole.
    pub(crate) fn finish(&self, trace: Option<HostTrace>) {
        let (Some(trace), Some(path)) = (trace, &self.trace) else { return };
        match trace.finish() {
            Ok(None) => {}
            Ok(Some(at)) => eprintln!(
                "rampmeter: trace {}: begins {} after the start: it has reached --trace-limit {}, and what was before is \
                 removed",
                path.display(),
                at.since(Time::ZERO),
                self.trace_limit
            ),
            Err(error) => eprintln!("rampmeter: trace {}: not whole: {error}", path.display()),
        }
    }
}
