//! `rampmeter emulate`: runs any client and any server on the two sides of a scenario's network.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_linux::{CommandHost, Commands, Emulated, Status};
use rampmeter_scenario::{DegradedSummary, LinkPlan, NodeId, Outcome, Plan, Registries, Scenario, WorldError};
use rampmeter_study::TraceOptions;
use rampmeter_trace::Trace;
use rampmeter_units::{Bytes, Duration};

use super::run::set_point;
use crate::failure::Failure;
use crate::stop_flag;

/// The shell command that becomes the user's shell.
const SHELL: &str = r#"exec "${SHELL:-/bin/sh}""#;

/// The arguments of `rampmeter emulate`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "The network is that of the scenario's first point, with queues, losses and changes. The traffic of \
    the scenario, if it has any, runs beside the commands. The variables RAMPMETER_LEFT and RAMPMETER_RIGHT have the \
    addresses of the hosts, and RAMPMETER_HOST is left or right; `ip netns exec rampmeter-left COMMAND` and \
    `rampmeter-right` run more commands there, as root. When the right command has ended, the left one gets SIGTERM; \
    when the left one has failed, the right one does. \
    The exit code is that of the right command, or of the left one if it failed first. Standard input is empty, except \
    for the shell of --inspect. At the end all processes on the two hosts end.\n\n\
    Example:\n  rampmeter emulate studies/cm/apps.toml --left 'python3 -m http.server 8000' \
    --right 'sleep 1; curl -o /dev/null http://$RAMPMETER_LEFT:8000/FILE'\n  \
    rampmeter emulate lte-walking --left 'iperf3 -s -1' --right 'sleep 1; iperf3 -R -c $RAMPMETER_LEFT'\n  \
    rampmeter emulate lte-walking --left 'iperf3 -s' --inspect"
)]
pub(crate) struct Args {
    /// The scenario (docs/scenario.md explains the format), or a condition (rampmeter conditions)
    file: PathBuf,
    /// The shell command on the left host
    #[arg(long, value_name = "COMMAND")]
    left: Option<String>,
    /// The shell command on the right host
    #[arg(long, value_name = "COMMAND")]
    right: Option<String>,
    /// Open your shell on the right host, for ping, ss, tcpdump and the like: the network ends with it
    #[arg(long, conflicts_with = "right")]
    inspect: bool,
    /// Write the packets of measured links, in both directions, to a directory in DIR, as pcapng for Wireshark with
    /// comments on dropped and marked packets; and what the scenario's own flows did, as qlog
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// The maximum size of the trace, after which it is cut
    #[arg(long, value_name = "SIZE", default_value = "1 GB", requires = "trace")]
    trace_limit: Bytes,
    /// The two hosts, as in the scenario [default: the first ones of its first two groups]
    #[arg(long, value_name = "LEFT,RIGHT", value_delimiter = ',')]
    between: Vec<String>,
    /// A value of an axis, or of a key such as link.bottleneck.rate, instead of its first one; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub(crate) fn emulate(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    if args.left.is_none() && args.right.is_none() && !args.inspect {
        return Err(Failure::input("no command is given; give --left COMMAND, --right COMMAND or both, or --inspect"));
    }
    let mut scenario = Scenario::read_network(&args.file)?;
    set_point(&mut scenario, &args.set)?;
    let plan = scenario.plan(&scenario.points()[0], registries)?;
    let commands = Commands {
        between: between(&plan, &args.between)?,
        left: args.left.clone(),
        right: if args.inspect { Some(SHELL.to_owned()) } else { args.right.clone() },
        is_interactive: args.inspect,
    };
    let world = Emulated::new(stop_flag());
    let run = |trace: Option<&Trace>| world.run_with_commands(&plan, &commands, trace, |hosts| announce(args, &hosts));
    let result = match &args.trace {
        Some(directory) => {
            let remark = |text| eprintln!("rampmeter: trace {text}");
            // TCP is understood with its acknowledgements.
            let is_traced =
                |link: &&LinkPlan| link.measured || link.reverse_of.is_some_and(|of| plan.links[of.0].measured);
            let links = plan.links.iter().filter(is_traced).map(|link| link.name.clone()).collect();
            let options = TraceOptions { links, limit: args.trace_limit, ..TraceOptions::all(directory) };
            options.trace(&plan, |trace| run(Some(trace)), remark)
        }
        None => run(None),
    };
    let (outcome, status) = result.map_err(|error| match error {
        WorldError::Interrupted => Failure::interrupted("interrupted; both commands were stopped"),
        error => Failure::failed(error),
    })?;
    report(&plan, &outcome, status);
    if let Some(directory) = &args.trace {
        eprintln!("rampmeter: traces: {}", directory.display()); // standard output is that of the commands
    }
    Ok(ExitCode::from(status.code()))
}

/// Says how to look into the network while it exists.
fn announce(args: &Args, hosts: &[CommandHost; 2]) {
    let [left, right] = hosts;
    if args.inspect {
        let [left, right] = [left.address, right.address];
        eprintln!("rampmeter: a shell on the right host, {right} (RAMPMETER_HOST=right); the left one is {left}");
    }
    match [left, right].map(|host| host.namespace.as_ref()) {
        [Ok(left), Ok(right)] => {
            eprintln!("rampmeter: more commands on the hosts: ip netns exec {left} COMMAND (or {right})");
        }
        [Err(reason), _] | [_, Err(reason)] => {
            let [left, right] = [left, right].map(|host| host.file.display());
            eprintln!(
                "rampmeter: no names for `ip netns` ({reason}); more commands on the hosts: nsenter \
                 --preserve-credentials --user=/proc/{}/ns/user --net={left} COMMAND (or --net={right})",
                std::process::id()
            );
        }
    }
}

fn between(plan: &Plan, names: &[String]) -> Result<(NodeId, NodeId), Failure> {
    let known = || {
        let hosts = plan.nodes.iter().filter(|node| node.is_host).map(|node| node.name.as_str());
        hosts.take(20).collect::<Vec<_>>().join(", ")
    };
    match names {
        [] => Commands::first_hosts(plan).ok_or_else(|| {
            Failure::input("the scenario has no two groups of [[hosts]]: one for the left, one for the right")
        }),
        [left, right] => {
            let host = |name: &str| {
                let advice = || Failure::input(format!("no host is called `{name}`; there are {}", known()));
                Commands::host(plan, name.trim()).ok_or_else(advice)
            };
            Ok((host(left)?, host(right)?))
        }
        _ => Err(Failure::input(format!("--between takes two hosts, LEFT,RIGHT, of {}", known()))),
    }
}

/// Prints warnings of the run to standard error.
fn report(plan: &Plan, outcome: &Outcome, status: Status) {
    if let Some(code) = status.left.filter(|code| *code > 0) {
        eprintln!("rampmeter: the left command ended with {code}");
    }
    for DegradedSummary { reason, scheme, first, flows } in DegradedSummary::all(plan, outcome) {
        eprintln!("rampmeter: {scheme}, {first}, one of {flows} flows: {reason}");
    }
    let late = outcome.host_jitter.map(|late| late.p99.as_secs_f64()).unwrap_or_default();
    let rtt = plan.min_round_trip().map_or(f64::MAX, Duration::as_secs_f64);
    if late > (rtt / 10.0).min(0.002) {
        eprintln!("rampmeter: 1% of packets were late by more than {:.1} ms: the machine is busy", late * 1e3);
    }
}
