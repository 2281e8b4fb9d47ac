//! What a client forwards: `-L [BIND:]PORT:HOST:HOSTPORT[,weight=N]`, the same of `-R`, and `--socks [BIND:]PORT`.

use std::fmt;
use std::str::FromStr;

use super::protocol::{Target, Weight, is_host};

/// Where to listen, and where connections go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Where to listen; by default for programs of the same machine only.
    pub listen: Target,
    /// Where connections go.
    pub to: Target,
    /// The weight of each connection beside the others of the tunnel.
    pub weight: Weight,
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.listen, self.to)
    }
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |problem: &str| {
            format!("{problem}; write [BIND:]PORT:HOST:HOSTPORT, for example 8080:intranet.example.org:80,weight=4")
        };
        let (path, weight) = match text.split_once(',') {
            None => (text, Weight::default()),
            Some((path, option)) => {
                let weight = option.strip_prefix("weight=").and_then(|weight| weight.parse().ok());
                (path, weight.and_then(Weight::new).ok_or_else(|| bad("`weight=` has a number from 0.01 to 100"))?)
            }
        };
        let parts = split(path).ok_or_else(|| bad("a bracket is missing"))?;
        let (bind, port, host, host_port) = match parts[..] {
            [port, host, host_port] => ("127.0.0.1", port, host, host_port),
            [bind, port, host, host_port] => (bind, port, host, host_port),
            _ => return Err(bad("it has too few or too many parts")),
        };
        let listen = listener(bind, port).ok_or_else(|| bad("the address or the port to listen on is wrong"))?;
        let to = host_port.parse().ok().filter(|port| *port > 0 && is_host(host));
        let port = to.ok_or_else(|| bad("the host or its port is wrong"))?;
        Ok(Self { listen, to: Target { host: host.to_owned(), port }, weight })
    }
}

/// Reads `[BIND:]PORT`.
pub fn listen_address(text: &str) -> Result<Target, String> {
    let parts = split(text).unwrap_or_default();
    let read = match parts[..] {
        [port] => listener("127.0.0.1", port),
        [bind, port] => listener(bind, port),
        _ => None,
    };
    read.ok_or_else(|| "write [BIND:]PORT, for example 1080".to_owned())
}

fn listener(bind: &str, port: &str) -> Option<Target> {
    let host = if bind == "*" { "0.0.0.0" } else { bind };
    let port = port.parse().ok().filter(|_| is_host(host))?;
    Some(Target { host: host.to_owned(), port })
}

/// Splits at colons outside of brackets, which are removed.
fn split(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        if let Some(bracket) = rest.strip_prefix('[') {
            let (inside, after) = bracket.split_once(']')?;
            parts.push(inside);
            match after.strip_prefix(':') {
                Some(after) => rest = after,
                None if after.is_empty() => return Some(parts),
                None => return None,
            }
        } else if let Some((part, after)) = rest.split_once(':') {
            parts.push(part);
            rest = after;
        } else {
            parts.push(rest);
            return Some(parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_has_two_ends_and_a_weight() {
        let read = |text: &str| text.parse::<Forward>().map(|f| (f.to_string(), f.weight.value()));
        let is = |text: &str, weight| Ok((text.to_owned(), weight));
        assert_eq!(read("8080:host:80"), is("127.0.0.1:8080 to host:80", 1.0));
        assert_eq!(read("*:8080:10.0.0.1:80,weight=2.5"), is("0.0.0.0:8080 to 10.0.0.1:80", 2.5));
        assert_eq!(read("[::1]:0:[fd00::1]:22"), is("[::1]:0 to [fd00::1]:22", 1.0));
    }

    #[test]
    fn a_bad_forward_is_refused_with_the_right_form() {
        for text in [
            "",
            "80",
            "80:h",
            "80:h:0",
            "x:h:80",
            "80:h:80,weight=0",
            "80:h:80,w=1",
            "[::1:80:h:80",
            "a:b:c:d:e",
            "80:a b:1",
        ] {
            assert!(text.parse::<Forward>().unwrap_err().contains("PORT:HOST:HOSTPORT"), "{text}");
        }
        assert_eq!(listen_address("[::]:1080").map(|at| at.to_string()), Ok("[::]:1080".into()));
        assert_eq!(listen_address("1080").map(|at| at.to_string()), Ok("127.0.0.1:1080".into()));
        assert!(listen_address("a:b:c").is_err() && listen_address("70000").is_err());
    }
}
