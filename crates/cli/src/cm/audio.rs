//! `rampmeter cm audio` and `rampmeter cm listen`: sends and receives layered audio.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rampmeter_apps::audio::{self, Change, ENCODINGS, Receiver, Report};
use rampmeter_units::{Bytes, Duration, Rate};

use super::connect;
use super::web::{refuse, span};
use crate::failure::Failure;
use crate::files::{HostPort, rate};
use crate::table::table;
use crate::{log, print_result, stop_flag};

/// The arguments of `rampmeter cm audio`.
#[derive(Debug, Args)]
#[command(after_help = "Datagrams are sent at the times of the encoding. The running daemon (rampmeter cm daemon) \
    shapes all other traffic to that host around them and reports when another encoding fits. The receiver is \
    `rampmeter cm listen`.")]
pub(crate) struct AudioArgs {
    /// The receiver
    #[arg(long, value_name = "HOST:PORT")]
    to: HostPort,
    /// Encodings in kb/s, from the lowest to the highest
    #[arg(long, value_name = "KBPS,...", value_delimiter = ',', default_value = ENCODINGS)]
    encodings: Vec<u64>,
    /// Bytes of each datagram
    #[arg(long, value_name = "BYTES", default_value_t = 1000)]
    datagram: u16,
    /// Send datagrams through the congestion manager, like `cm_send`; the congestion manager of the receiver reports
    /// what arrived. The receiver is then `rampmeter cm listen PORT --through-cm`, or a program at a port of its
    /// daemon's `--deliver`
    #[arg(long)]
    through_cm: bool,
    /// The duration of the stream
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    duration: Duration,
    /// The socket of the congestion manager
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Write one JSON object to standard output at the end, instead of text
    #[arg(long)]
    json: bool,
}

/// The arguments of `rampmeter cm listen`.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// The address to listen at: a port of all addresses, or HOST:PORT; port 0 picks a free one
    #[arg(value_name = "[HOST:]PORT", value_parser = listen_address)]
    listen: HostPort,
    /// Receive the datagrams for that port that arrive through the congestion manager of this host
    #[arg(long)]
    through_cm: bool,
    /// The socket of the congestion manager
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

fn listen_address(text: &str) -> Result<HostPort, &'static str> {
    text.parse::<u16>().map_or_else(|_| text.parse(), |port| Ok(HostPort::of_all(port)))
}

pub(super) fn send(args: &AudioArgs) -> Result<ExitCode, Failure> {
    let options = audio::Options {
        to: args.to.resolve()?,
        encodings: args.encodings.iter().map(|kbps| Rate::from_bps(kbps.saturating_mul(1000))).collect(),
        datagram: Bytes::new(args.datagram.into()),
        through_cm: args.through_cm,
        duration: args.duration,
        stop: stop_flag(),
    };
    let client = connect(args.socket.as_deref())?;
    let report = audio::send(&options, &client, &mut |change| {
        if !args.json {
            println!("{}", format_change(change));
        }
    })
    .map_err(refuse)?;
    print_result(args.json, &report, format_report)
}

fn format_change(change: &Change) -> String {
    format!(
        "{:7.2} s  {:>8}  (share {}, round trip {:.*} ms)",
        change.at_s,
        Rate::from_bps(change.encoding_bps).to_string(),
        rate(change.share_bps as f64),
        if change.srtt_s < 0.01 { 2 } else { 0 },
        change.srtt_s * 1e3
    )
}

fn format_report(report: &Report) -> String {
    let rows: Vec<Vec<String>> = report
        .encodings
        .iter()
        .map(|spent| vec![Rate::from_bps(spent.encoding_bps).to_string(), format!("{:.1}", spent.part * 100.0)])
        .collect();
    format!(
        "{}{} datagrams in {:.1} s{}; {:.1}% of the time in the encoding just below the mean share\n",
        table(&["encoding", "time %"].map(String::from), &rows),
        report.datagrams,
        report.seconds,
        report.lost.map_or(String::new(), |lost| format!(", {lost} lost")),
        report.just_below_share * 100.0
    )
}

pub(super) fn listen(args: &ListenArgs) -> Result<ExitCode, Failure> {
    let mut receiver = Receiver::bind(args.listen.resolve()?, stop_flag()).map_err(refuse)?;
    let address = receiver.address().map_err(refuse)?;
    println!("acknowledging datagrams at {address}");
    // The daemon delivers as long as its client is connected.
    let client = if args.through_cm { Some(connect(args.socket.as_deref())?) } else { None };
    if let Some(client) = &client {
        client.listen(address.port()).map_err(|error| Failure::failed(error.to_string()))?;
    }
    receiver.run(|from| log(io::stdout(), format_args!("a stream from {from}"))).map_err(refuse)?;
    Ok(ExitCode::SUCCESS)
}
