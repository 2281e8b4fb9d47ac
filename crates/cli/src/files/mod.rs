//! Files over UDP, with one of Rampmeter's controllers: `rampmeter serve`, `get` and `key`.

mod bar;
mod get;
mod print;
mod serve;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use rampmeter_files::NetError;
use rampmeter_net::keys::{self, KeyError};
use rampmeter_net::{ContactError, hide_memory};

use crate::failure::Failure;

pub(crate) use get::{GetArgs, get};
pub(crate) use print::rate;
pub(crate) use serve::{ServeArgs, serve};
#[cfg(feature = "tunnel")]
pub(crate) use serve::{authorized, reload};

/// The arguments of `rampmeter key`.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// The file of the secret key [default: ~/.config/rampmeter/key]
    file: Option<PathBuf>,
}

/// Prints the public key of a file, which is made if it does not exist.
pub(crate) fn key(args: &KeyArgs) -> Result<ExitCode, Failure> {
    hide_memory();
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

/// How a server that listens on `address` is reached: by the first of its `names`, which it demands from clients; without
/// names, by one that only its operator knows, if it listens on all
/// addresses.
pub(crate) fn reached_at(address: SocketAddr, names: &[String]) -> String {
    match names.first() {
        Some(name) => name.clone(),
        None if address.ip().is_unspecified() => format!("HOST:{}", address.port()),
        None => address.to_string(),
    }
}

/// HOST:PORT. The host's name is looked up when the command begins: a failure of that is none of the command line.
#[derive(Debug, Clone)]
pub(crate) struct HostPort(String);

impl FromStr for HostPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Self(text.to_owned())),
            _ => Err("it is not HOST:PORT; write for example 127.0.0.1:7267"),
        }
    }
}

impl HostPort {
    /// A port of all addresses of this host.
    pub(crate) fn of_all(port: u16) -> Self {
        Self(format!("0.0.0.0:{port}"))
    }

    /// Its first address.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, Failure> {
        let found = self.0.to_socket_addrs().ok().and_then(|mut found| found.next());
        let host = self.0.rsplit_once(':').map_or(self.0.as_str(), |(host, _)| host);
        found.ok_or_else(|| NetError::from(ContactError::UnknownHost(host.to_owned())).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_by_its_name() {
        let at = |text: &str| reached_at(text.parse().unwrap(), &[]);
        assert_eq!(["0.0.0.0:7267", "[::]:7267", "10.0.0.1:7"].map(at), ["HOST:7267", "HOST:7267", "10.0.0.1:7"]);
        let names = ["files.example.org:7267".to_owned()];
        assert_eq!(reached_at("0.0.0.0:7267".parse().unwrap(), &names), names[0]);
    }

    #[test]
    fn hosts_have_names() {
        let resolve = |text: &str| text.parse::<HostPort>().unwrap().resolve();
        assert!(resolve("localhost:0").unwrap().ip().is_loopback() && resolve("[::1]:7").unwrap().is_ipv6());
        assert!(resolve("no-such-host.invalid:7").unwrap_err().to_string().contains("`no-such-host.invalid`"));
        for text in ["nowhere", ":7", "host:", "host:x", "host:70000"] {
            assert!(text.parse::<HostPort>().unwrap_err().contains("127.0.0.1:7267"), "{text}");
        }
    }
}
