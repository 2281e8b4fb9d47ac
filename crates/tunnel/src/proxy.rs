//! What a program says to the port of SOCKS5 and HTTP, and the answers.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::protocol::{Refusal, Target};
use super::relay::no_answer;
use super::{http, socks};

/// How a program names its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proxy {
    Socks,
    Http,
}

impl Proxy {
    /// The answer once the destination is reached.
    pub(super) fn success(self) -> Vec<u8> {
        match self {
            Self::Socks => socks::answer(socks::SUCCEEDED).to_vec(),
            Self::Http => http::ESTABLISHED.to_vec(),
        }
    }

    /// The answer if it is not; without a reason, the server did not answer.
    pub(super) fn refusal(self, refusal: Option<Refusal>) -> Vec<u8> {
        if self == Self::Http {
            let status = if refusal == Some(Refusal::NotAllowed) { http::FORBIDDEN } else { http::BAD_GATEWAY };
            return http::refusal(status, &refusal.map_or_else(no_answer, |refusal| refusal.to_string()));
        }
        let code = match refusal {
            Some(Refusal::NotAllowed) => socks::NOT_ALLOWED,
            Some(Refusal::Unreachable) => socks::NETWORK_UNREACHABLE,
            Some(Refusal::UnknownHost | Refusal::TimedOut) => socks::HOST_UNREACHABLE,
            Some(Refusal::ConnectionRefused) => socks::CONNECTION_REFUSED,
            _ => socks::FAILURE,
        };
        socks::answer(code).to_vec()
    }
}

/// What a program asks for, and what it has sent after it.
pub(super) struct Asked {
    pub(super) by: Proxy,
    pub(super) to: Target,
    pub(super) rest: Vec<u8>,
}

/// Reads what a program asks for. `None` if it left, or was refused.
pub(super) async fn proxy_request(tcp: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    read_some(tcp, &mut bytes, socks::MAX_GREETING).await?;
    if http::is_first(bytes[0]) {
        loop {
            match http::request(&bytes) {
                Ok(Some((to, len))) => return Some(Asked { by: Proxy::Http, to, rest: bytes.split_off(len) }),
                Ok(None) => read_some(tcp, &mut bytes, http::MAX_REQUEST).await?,
                Err(answer) => return refuse(tcp, &answer).await,
            }
        }
    }
    let greeting = loop {
        match socks::greeting(&bytes) {
            Ok(Some(len)) => break len,
            Ok(None) => read_some(tcp, &mut bytes, socks::MAX_GREETING).await?,
            Err(error) => return refuse(tcp, error.0).await,
        }
    };
    bytes.drain(..greeting);
    tcp.write_all(&socks::NO_AUTHENTICATION).await.ok()?;
    loop {
        match socks::request(&bytes) {
            Ok(Some((to, len))) => return Some(Asked { by: Proxy::Socks, to, rest: bytes.split_off(len) }),
            Ok(None) => read_some(tcp, &mut bytes, socks::MAX_REQUEST).await?,
            Err(error) => return refuse(tcp, error.0).await,
        }
    }
}

async fn refuse<T>(tcp: &mut TcpStream, answer: &[u8]) -> Option<T> {
    let _ = tcp.write_all(answer).await;
    None
}

async fn read_some(tcp: &mut TcpStream, bytes: &mut Vec<u8>, max: usize) -> Option<()> {
    let space = max.saturating_sub(bytes.len()).max(1);
    let mut piece = vec![0; space];
    let count = tcp.read(&mut piece).await.ok().filter(|count| *count > 0)?;
    bytes.extend(&piece[..count]);
    Some(())
}
