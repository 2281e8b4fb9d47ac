//! `rampmeter cm bench`: measures the cost of a grant with a daemon in a separate process, as in normal use. The daemon
//! ends with the command, however the command ends.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use rampmeter_cm::Error;
use rampmeter_cm::bench::{self, Measurements, Spread};

use crate::failure::Failure;
use crate::table::table;
use crate::{print_result, stop_flag};

/// The interval at which the command checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The maximum time until the daemon listens.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// The arguments of `rampmeter cm bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The number of grants
    #[arg(long, value_name = "NUMBER", default_value_t = 50_000, value_parser = ten_or_more)]
    samples: usize,
    /// Write one JSON object to standard output
    #[arg(long)]
    json: bool,
}

fn ten_or_more(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|samples| *samples >= 10).ok_or_else(|| "write a whole number of 10 or more".into())
}

pub(super) fn measure(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let stop = stop_flag();
    let daemon = Daemon::start()?;
    let (path, samples) = (daemon.path(), args.samples);
    // In a separate thread, because the measurement must not check for a stop.
    let measurement = std::thread::spawn(move || wait_for(&path).and_then(|()| bench::measure(&path, samples)));
    let interrupted = || stop.load(Ordering::Relaxed);
    let refuse = || Failure::interrupted("interrupted; nothing was measured");
    while !measurement.is_finished() {
        if interrupted() {
            return Err(refuse());
        }
        std::thread::sleep(STOP_CHECK_INTERVAL);
    }
    let figures = measurement.join().map_err(|_| Failure::failed("the measurement failed"))?;
    // A signal also interrupts the measurement's waits.
    let figures = figures.map_err(|error| if interrupted() { refuse() } else { Failure::failed(error) })?;
    drop(daemon);
    print_result(args.json, &figures, format_figures)
}

/// A daemon in a temporary directory. Dropping it removes both.
struct Daemon {
    process: Option<Child>,
    directory: PathBuf,
}

impl Daemon {
    fn start() -> Result<Self, Failure> {
        let directory = std::env::temp_dir().join(format!("rampmeter-cm-bench-{}", std::process::id()));
        let mut daemon = Self { process: None, directory };
        let mut command = Command::new(std::env::current_exe().map_err(Failure::failed)?);
        // A controller without a rate, whose window is open.
        command.args(["cm", "daemon", "--controller", "newreno", "--port", "0", "--socket"]).arg(daemon.path());
        // SAFETY: between fork and exec the child makes one system call and allocates no memory.
        unsafe {
            command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGTERM)?));
        }
        daemon.process = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(Failure::failed)?);
        Ok(daemon)
    }

    fn path(&self) -> PathBuf {
        self.directory.join("cm.sock")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn wait_for(path: &Path) -> Result<(), Error> {
    let interval = Duration::from_millis(10);
    let checks = START_TIMEOUT.as_millis() / interval.as_millis();
    let is_listening = (0..checks).any(|_| {
        std::thread::sleep(interval);
        path.exists()
    });
    if is_listening { Ok(()) } else { Err(Error::NoDaemon) }
}

fn format_figures(figures: &Measurements) -> String {
    let row = |name: &str, spread: Spread| {
        let number = |us: f64| format!("{us:.2}");
        vec![name.to_owned(), number(spread.median_us), number(spread.p90_us), number(spread.p99_us)]
    };
    let rows = [
        row("request to grant", figures.grant),
        row("request to grant, after 1 ms without commands", figures.grant_after_silence),
        row("of 16 hosts at once, each", figures.each_of_16_hosts),
        row("of 1000 hosts at once, each", figures.each_of_1000_hosts),
        row("of 16 flows to one host at once, each", figures.each_of_16_flows),
        row("of 1000 flows to one host at once, each", figures.each_of_1000_flows),
        row("round trip over a Unix socket", figures.socket_round_trip),
    ];
    let table = table(&["microseconds", "median", "p90", "p99"].map(String::from), &rows);
    format!("{table}a grant takes {:.2} of a round trip over a Unix socket\n", figures.grant_over_socket)
}
