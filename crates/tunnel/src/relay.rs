//! One connection through the tunnel: a TCP connection here, a stream, a TCP connection there.
//!
//! The end of one direction is carried alone, so that a half-closed connection goes on in the other one. A reset of
//! either TCP connection resets the stream, and a reset of the stream resets the TCP connections.

use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::libc::linger;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{KeepAlive, Linger, TcpKeepCount, TcpKeepIdle, TcpKeepInterval};
use rampmeter_streams::Stream;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf, copy_bidirectional_with_sizes, copy_buf,
};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::allow::Allow;
use super::near::networks;
use super::protocol::{HEAD, Message, Refusal, Target};

/// The maximum time to connect to a destination, with the search for its address.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The seconds of silence of a TCP connection after which its peer is asked for a sign of life.
const KEEP_ALIVE: u32 = 60;

/// The bytes of a direction that are read at once.
const PIECE: usize = 64 * 1024;

/// Why a connection that has waited for so long is refused.
pub(super) fn no_answer() -> String {
    format!("the tunnel's server has not answered for {} s", CONNECT_TIMEOUT.as_secs())
}

/// Reads a message. If the future is dropped before it is ready, bytes are lost.
pub(super) async fn read_message(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, Refusal::BadMessage.to_string());
    let mut head = [0; HEAD];
    from.read_exact(&mut head).await?;
    let (kind, len) = Message::head(head).map_err(invalid)?;
    let mut body = vec![0; len];
    from.read_exact(&mut body).await?;
    Message::decode(kind, &body).map_err(invalid)
}

/// Relays until both directions have ended, or either side is reset. However else it stops, as when the session or this
/// process ends, the TCP connection is reset: after an end, what has arrived would look complete.
pub(super) async fn relay(tcp: &mut TcpStream, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    reset(tcp);
    copy_bidirectional_with_sizes(tcp, stream, PIECE, PIECE).await?;
    // It fails only where the connection has ended already.
    let _ = setsockopt(tcp, Linger, &linger { l_onoff: 0, l_linger: 0 });
    Ok(())
}

/// Carries what `input` has to a destination, and what that sends to `output`, until the destination has ended. The end of
/// `input` is carried alone.
pub(super) async fn carry(
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<()> {
    let (from, mut to) = tokio::io::split(stream);
    let (mut input, mut from) = (BufReader::with_capacity(PIECE, input), BufReader::with_capacity(PIECE, from));
    let sending = async {
        copy_buf(&mut input, &mut to).await?;
        to.shutdown().await?;
        pending().await
    };
    let receiving = async {
        copy_buf(&mut from, &mut output).await?;
        output.flush().await
    };
    tokio::select! {
        ended = receiving => ended,
        failed = sending => failed,
    }
}

/// Prepares a TCP connection: small writes leave at once, and a silent peer is asked for a sign of life, so that one that
/// has disappeared takes no place for ever.
pub(super) fn prepare(tcp: &TcpStream) {
    // Each fails only where the connection has ended already.
    let _ = tcp.set_nodelay(true);
    let _ = setsockopt(tcp, KeepAlive, &true);
    let _ = setsockopt(tcp, TcpKeepIdle, &KEEP_ALIVE);
    let _ = setsockopt(tcp, TcpKeepInterval, &10);
    let _ = setsockopt(tcp, TcpKeepCount, &6);
}

/// Lets the connection end with a reset, also if the system closes it.
pub(super) fn reset(tcp: &TcpStream) {
    // It fails only where the connection has ended already.
    let _ = tcp.set_zero_linger();
}

/// Connects to a destination; `allow` has those that are allowed.
pub(super) async fn connect(to: &Target, allow: Option<&Allow>) -> Result<TcpStream, Refusal> {
    let attempt = async {
        let mut refusal = Refusal::UnknownHost;
        for address in addresses(to, allow).await? {
            refusal = match TcpStream::connect(address).await {
                Ok(tcp) => {
                    prepare(&tcp);
                    return Ok(tcp);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::ConnectionRefused => Refusal::ConnectionRefused,
                    io::ErrorKind::TimedOut => Refusal::TimedOut,
                    _ => Refusal::Unreachable,
                },
            };
        }
        Err(refusal)
    };
    timeout(CONNECT_TIMEOUT, attempt).await.unwrap_or(Err(Refusal::TimedOut))
}

/// The allowed addresses of a destination.
async fn addresses(to: &Target, allow: Option<&Allow>) -> Result<Vec<SocketAddr>, Refusal> {
    let near = if allow.is_some() { networks() } else { Vec::new() };
    let is_allowed = |ip: IpAddr| allow.is_none_or(|allow| allow.allows_address(ip, to.port, &near));
    if let Ok(ip) = to.host.parse::<IpAddr>() {
        return if is_allowed(ip) { Ok(vec![(ip, to.port).into()]) } else { Err(Refusal::NotAllowed) };
    }
    let every = allow.is_none_or(|allow| allow.allows_name(&to.host, to.port));
    let found = lookup_host((to.host.as_str(), to.port)).await.map_err(|_| Refusal::UnknownHost)?;
    let found: Vec<SocketAddr> = found.collect();
    let allowed: Vec<_> = found.iter().copied().filter(|address| every || is_allowed(address.ip())).collect();
    match (found.is_empty(), allowed.is_empty()) {
        (true, _) => Err(Refusal::UnknownHost),
        (false, true) => Err(Refusal::NotAllowed),
        (false, false) => Ok(allowed),
    }
}

/// A stream whose peer's bytes follow an answer. Bytes can be sent before it has arrived.
#[derive(Debug)]
pub(super) struct Answered {
    stream: Stream,
    answer: Option<u8>,
}

impl Answered {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, answer: None }
    }

    /// Why the other end refused the connection, if it did.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.answer.filter(|code| *code != 0).map(|code| Refusal::from_code(code).unwrap_or(Refusal::BadMessage))
    }

    /// Waits for the answer.
    pub(super) async fn answer(&mut self) -> io::Result<Result<(), Refusal>> {
        let code = self.stream.read_u8().await?;
        self.answer = Some(code);
        Ok(self.refusal().map_or(Ok(()), Err))
    }
}

impl AsyncRead for Answered {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.answer.is_none() {
            let mut code = [0];
            let mut first = ReadBuf::new(&mut code);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut first))?;
            // A peer that ends without an answer has not carried the connection.
            let Some(&code) = first.filled().first() else {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            };
            self.answer = Some(code);
        }
        match self.refusal() {
            None => Pin::new(&mut self.stream).poll_read(context, out),
            Some(refusal) => Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionRefused, refusal.to_string()))),
        }
    }
}

impl AsyncWrite for Answered {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::getsockopt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_disappears_is_noticed_within_two_minutes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let to = Target { host: address.ip().to_string(), port: address.port() };
        let tcp = connect(&to, None).await.unwrap();
        assert_eq!(getsockopt(&tcp, KeepAlive), Ok(true));
        let [idle, interval, count] =
            [getsockopt(&tcp, TcpKeepIdle), getsockopt(&tcp, TcpKeepInterval), getsockopt(&tcp, TcpKeepCount)];
        assert_eq!(idle.unwrap() + interval.unwrap() * count.unwrap(), 120);
    }
}
