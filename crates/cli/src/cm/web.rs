//! `rampmeter cm web`: serves files over HTTP, paced by the host's Congestion Manager.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rampmeter_apps::web::{Line, Options, Server};
use rampmeter_units::Duration;

use super::connect;
use crate::failure::Failure;
use crate::files::HostPort;
use crate::{log, stop_flag};

/// The arguments of `rampmeter cm web`.
#[derive(Debug, Args)]
#[command(
    after_help = "A running daemon (rampmeter cm daemon) schedules the connections: all connections to one client \
    share one estimate of the path and get equal shares. If a directory has photo.low.jpg, photo.medium.jpg and \
    photo.high.jpg, a request for photo.jpg gets the largest that arrives in time at the connection's share; \
    Content-Location names it. Only GET and HEAD; nothing is encrypted."
)]
pub(crate) struct WebArgs {
    /// The directory whose regular files to serve
    directory: PathBuf,
    /// The address to listen at; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    listen: HostPort,
    /// The target transfer time, which selects among the representations of an object
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span)]
    within: Duration,
    /// The maximum number of connections
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    connections: usize,
    /// The socket of the congestion manager
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Write one JSON object per response to standard output, instead of text
    #[arg(long)]
    json: bool,
}

/// A time: `2s`, `500 ms`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    // Accept `2s` as well as `2 s`.
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let spaced = format!("{} {}", text[..unit].trim(), &text[unit..]);
    let span: Duration =
        spaced.parse().map_err(|_| "write a time with its unit, for example 2s or 500ms".to_owned())?;
    if span == Duration::ZERO { Err("write a time above zero, for example 2s".into()) } else { Ok(span) }
}

pub(super) fn serve(args: &WebArgs) -> Result<ExitCode, Failure> {
    let options = Options {
        directory: args.directory.clone(),
        listen: args.listen.resolve()?,
        within: args.within,
        max_connections: args.connections,
        stop: stop_flag(),
    };
    let on_line = |line: &Line| {
        if args.json {
            log(io::stdout(), serde_json::to_string(line).unwrap_or_default());
        } else {
            log(io::stdout(), line);
        }
    };
    let mut server = Server::bind(options, connect(args.socket.as_deref())?, on_line).map_err(refuse)?;
    if !args.json {
        println!("serving {} on http://{}", args.directory.display(), server.address());
    }
    server.run().map_err(refuse)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn refuse(error: rampmeter_apps::AppError) -> Failure {
    use rampmeter_apps::AppError;
    match error {
        AppError::Usage(_) | AppError::Directory(..) => Failure::input(error),
        AppError::Manager(_) | AppError::Listen(..) | AppError::NoReceiver { .. } | AppError::System(_) => {
            Failure::failed(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(span("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(span("1.5 s"), Ok(Duration::from_millis(1500)));
        assert!(span("2").is_err() && span("0s").is_err() && span("").is_err());
    }
}
