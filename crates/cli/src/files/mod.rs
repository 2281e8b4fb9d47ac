//! Files over UDP, with one of Rampmeter's controllers: `rampmeter serve`, `get`, `put`, `sync` and `key`.

mod bar;
mod client;
mod print;
mod serve;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rampmeter_net::keys::{self, KeyError};

use crate::failure::Failure;

pub(crate) use client::{GetArgs, PutArgs, SyncArgs, get, put, sync};
pub(crate) use print::rate;
pub(crate) use serve::{ServeArgs, serve};

/// The arguments of `rampmeter key`.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// The file of the secret key [default: ~/.config/rampmeter/key]
    file: Option<PathBuf>,
}

/// Prints the public key of a file, which is made if it does not exist.
pub(crate) fn key(args: &KeyArgs) -> Result<ExitCode, Failure> {
    let path = key_file(args.file.as_ref())?;
    let (pair, is_new) = keys::read_or_create_key(&path)?;
    if is_new {
        eprintln!("rampmeter: made the secret key {}; this is its public key:", path.display());
    }
    println!("{}", pair.public());
    Ok(ExitCode::SUCCESS)
}

/// The file of this host's secret key: the given one, or the user's.
pub(crate) fn key_file(given: Option<&PathBuf>) -> Result<PathBuf, KeyError> {
    given.map_or_else(keys::default_key, |path| Ok(path.clone()))
}

/// How a server that listens on `address` is reached: by a name that only its operator knows, if it listens on all
/// addresses.
pub(crate) fn reached_at(address: SocketAddr) -> String {
    if address.ip().is_unspecified() { format!("HOST:{}", address.port()) } else { address.to_string() }
}

/// Parses an address; the host may be a name.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("{error}; write for example 127.0.0.1:7267"))?;
    found.into_iter().next().ok_or_else(|| "this name has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_by_its_name() {
        let at = |text: &str| reached_at(text.parse().unwrap());
        assert_eq!(["0.0.0.0:7267", "[::]:7267", "10.0.0.1:7"].map(at), ["HOST:7267", "HOST:7267", "10.0.0.1:7"]);
    }

    #[test]
    fn hosts_have_names() {
        assert!(address("localhost:0").unwrap().ip().is_loopback());
        assert!(address("nowhere").unwrap_err().contains("127.0.0.1:7267"));
    }
}
