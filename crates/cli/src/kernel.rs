//! `rampmeter kernel`: controllers under the kernel's TCP, for programs that know nothing of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use rampmeter_control::Registry;
use rampmeter_kernel::{Closed, Kernel, KernelError, Sharing, Statistics};
use rampmeter_units::{Random, Rate};
use serde::Serialize;
use toml::{Table, Value};

use crate::failure::Failure;
use crate::lists::check_controller;
use crate::{log, stop_flag};

/// The arguments of `rampmeter kernel`.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  sudo rampmeter kernel run --controller copa -- nginx -g 'daemon off;'\n  \
                  sudo rampmeter kernel run --macroflow destination -- sudo -u $USER firefox\n  \
                  sudo rampmeter kernel attach --cgroup /sys/fs/cgroup/system.slice/nginx.service\n  \
                  sudo rampmeter kernel attach --all --existing\n\n\
                  It needs root and Linux 6.10. Other programs, hosts and routers change nothing. If it ends, or stalls \
                  for a tenth of a second, connections go on as Reno."
)]
pub(crate) struct KernelArgs {
    #[command(subcommand)]
    command: KernelCommand,
}

#[derive(Debug, Subcommand)]
enum KernelCommand {
    /// Run a program whose TCP connections have a controller of Rampmeter's, and end with it
    Run(RunArgs),
    /// Give the connections of programs that run already a controller of Rampmeter's, until interrupted
    Attach(AttachArgs),
}

/// How connections are controlled.
#[derive(Debug, Args)]
struct ControlArgs {
    /// The congestion controller (`rampmeter controllers` lists them)
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    controller: String,
    /// A setting of the controller, such as `initial_window=20`; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Which connections share a controller
    #[arg(long, value_enum, default_value_t)]
    macroflow: Macroflow,
    /// Write one JSON object to standard error at the end instead of a line for each connection
    #[arg(long)]
    json: bool,
}

/// Which connections share a controller.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Macroflow {
    /// Each connection has its own
    #[default]
    Socket,
    /// All connections to one address share a window in equal parts
    Destination,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    control: ControlArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

#[derive(Debug, Args)]
struct AttachArgs {
    #[command(flatten)]
    control: ControlArgs,
    /// New connections of the programs in this control group (version 2) and those below it; may be given several times
    #[arg(long, value_name = "DIRECTORY", required_unless_present = "all")]
    cgroup: Vec<PathBuf>,
    /// New connections of all programs
    #[arg(long, conflicts_with = "cgroup")]
    all: bool,
    /// And the connections that exist in this network namespace and have the system's default controller
    #[arg(long)]
    existing: bool,
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Self {
        if matches!(error, KernelError::Group { .. }) { Self::input(error) } else { Self::failed(error) }
    }
}

pub(crate) fn execute(args: &KernelArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    match &args.command {
        KernelCommand::Run(args) => run(args, registry),
        KernelCommand::Attach(args) => attach(args, registry),
    }
}

/// What happened, for scripts.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    controller: &'a str,
    connections: u64,
    bytes: u64,
    packets_sent: u64,
    packets_lost: u64,
    acks: u64,
    fallback_acks: u64,
    lost_events: u64,
    without_place: u64,
}

impl<'a> Summary<'a> {
    fn new(controller: &'a str) -> Self {
        Self {
            controller,
            connections: 0,
            bytes: 0,
            packets_sent: 0,
            packets_lost: 0,
            acks: 0,
            fallback_acks: 0,
            lost_events: 0,
            without_place: 0,
        }
    }

    fn add(&mut self, closed: &Closed) {
        self.connections += 1;
        self.bytes += closed.bytes.as_u64();
        self.packets_sent += u64::from(closed.sent);
        self.packets_lost += u64::from(closed.lost);
    }

    fn finish(mut self, statistics: Statistics, json: bool) {
        self.acks = statistics.acks;
        self.fallback_acks = statistics.fallback_acks;
        self.lost_events = statistics.lost_events;
        self.without_place = statistics.without_place;
        if json {
            let line = serde_json::to_string(&self).unwrap_or_default();
            log(io::stderr(), format_args!("{line}"));
        }
    }
}

/// Loads the controller.
fn load(args: &ControlArgs, registry: &Registry) -> Result<Kernel, Failure> {
    let mut settings = Table::new();
    for setting in &args.settings {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(Failure::input(format!("--set {setting}: write KEY=VALUE")));
        };
        // A time or a rate is a text.
        let text = || Table::from_iter([(key.to_owned(), Value::String(value.to_owned()))]);
        settings.extend(format!("{key} = {value}").parse().unwrap_or_else(|_| text()));
    }
    if settings.is_empty() {
        check_controller(registry, &args.controller)?;
    }
    let make = registry.factory(&args.controller, &settings).map_err(Failure::input)?;
    let sharing = match args.macroflow {
        Macroflow::Socket => Sharing::Socket,
        Macroflow::Destination => Sharing::Destination,
    };
    Ok(Kernel::load(make, Random::from_seed(u64::from(std::process::id())), sharing)?)
}

/// Decides until `on_turn` returns false, and reports connections.
fn decide(kernel: &mut Kernel, args: &ControlArgs, on_turn: impl FnMut(usize) -> bool) -> Result<(), Failure> {
    let mut summary = Summary::new(&args.controller);
    let stop = stop_flag();
    kernel.run(&stop, on_turn, |closed| {
        summary.add(closed);
        if !args.json {
            log(io::stderr(), format_args!("{}", connection_line(closed)));
        }
    })?;
    summary.finish(kernel.statistics(), args.json);
    Ok(())
}

fn connection_line(closed: &Closed) -> String {
    let Closed { local, remote, bytes, duration, sent, lost } = closed;
    let rate = Rate::of(*bytes, *duration);
    let share = 100.0 * f64::from(*lost) / f64::from((*sent).max(1));
    format!("{local} to {remote}: {bytes} in {duration}, {rate}, lost {share:.2}% of {sent} packets")
}

/// After the program has ended, its connections may have data to send for so long.
const LINGER: Duration = Duration::from_secs(10);

fn run(args: &RunArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let mut kernel = load(&args.control, registry)?;
    let group = Group::create()?;
    kernel.attach(&group.directory)?;
    let mut child = group.run(&args.program)?;
    let (mut status, mut ended) = (None, None);
    decide(&mut kernel, &args.control, |sockets| {
        if status.is_none() {
            status = child.try_wait().ok().flatten();
            ended = status.map(|_| Instant::now());
        }
        ended.is_none_or(|ended| sockets > 0 && ended.elapsed() < LINGER)
    })?;
    let status = match status {
        Some(status) => status,
        None => child.wait().map_err(Failure::failed)?,
    };
    Ok(ExitCode::from(status.code().map_or(130, |code| code as u8)))
}

fn attach(args: &AttachArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let mut kernel = load(&args.control, registry)?;
    if args.all {
        kernel.attach(&groups()?)?;
    }
    for directory in &args.cgroup {
        kernel.attach(directory)?;
    }
    if args.existing {
        let connections = kernel.take_over()?;
        log(io::stderr(), format_args!("rampmeter: took over {connections} connections"));
    }
    decide(&mut kernel, &args.control, |_| true)?;
    Ok(ExitCode::SUCCESS)
}

/// The directory of control groups, version 2.
fn groups() -> Result<PathBuf, Failure> {
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(Failure::failed)?;
    let groups = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        words.next().filter(|_| words.next() == Some("cgroup2"))
    });
    groups.map(PathBuf::from).ok_or_else(|| Failure::failed("this system has no control groups of version 2"))
}

/// A control group of its own, for as long as this value lives.
struct Group {
    directory: PathBuf,
}

impl Group {
    fn create() -> Result<Self, Failure> {
        let groups = groups()?;
        remove_stale(&groups);
        let directory = groups.join(format!("rampmeter-{}", std::process::id()));
        fs::create_dir(&directory)
            .map_err(|error| Failure::failed(format!("cannot create {}: {error}", directory.display())))?;
        Ok(Self { directory })
    }

    /// Runs a program in it.
    fn run(&self, program: &[String]) -> Result<Child, Failure> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.processes()).args(program);
        command.spawn().map_err(|error| Failure::failed(format!("cannot run {}: {error}", program[0])))
    }

    fn processes(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What the program has left behind goes on, in the group above.
        if let (Ok(left), Some(above)) = (fs::read_to_string(self.processes()), self.directory.parent()) {
            for process in left.lines() {
                let _ = fs::write(above.join("cgroup.procs"), process);
            }
        }
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Removes the groups of processes that were killed. Those with programs in them stay.
fn remove_stale(groups: &Path) {
    for entry in fs::read_dir(groups).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix("rampmeter-"));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
