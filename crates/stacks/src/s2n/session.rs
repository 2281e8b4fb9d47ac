//! A session without encryption instead of TLS: its handshake has the sizes of TLS 1.3 with a small certificate, its
//! packets have room for tags. Both ends are in one program, so no authentication is needed.

use std::task::Poll;

use bytes::Bytes;
use s2n_codec::EncoderValue;
use s2n_quic_core::application::ServerName;
use s2n_quic_core::crypto::packet_protection::Error;
use s2n_quic_core::crypto::retry::IntegrityTag;
use s2n_quic_core::crypto::tls::{self, ApplicationParameters, CipherSuite, ConnectionInfo, Context, HandshakeType};
use s2n_quic_core::crypto::{self, HeaderProtectionMask, scatter};
use s2n_quic_core::transport;

/// The bytes of an authentication tag.
const TAG: usize = 16;

/// The sizes in bytes of TLS's messages: the client's first, the server's first, all others of the server's, the client's
/// last.
const CLIENT_HELLO: usize = 280;
const SERVER_HELLO: usize = 90;
const SERVER_FINISHED: usize = 800;
const CLIENT_FINISHED: usize = 36;

/// The bytes before the parameters of a message: type, length of what follows, length of the parameters.
const HEADER: usize = 6;

/// A key of any kind.
#[derive(Debug)]
pub(super) struct NoKey;

impl crypto::Key for NoKey {
    fn decrypt(&self, _: u64, _: &[u8], _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn encrypt(&mut self, _: u64, _: &[u8], payload: &mut scatter::Buffer<'_>) -> Result<(), Error> {
        let (_, tag) = payload.flatten().split_mut();
        tag[..TAG].fill(0);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn aead_confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn aead_integrity_limit(&self) -> u64 {
        u64::MAX
    }

    fn cipher_suite(&self) -> CipherSuite {
        CipherSuite::Unknown
    }
}

impl crypto::HeaderKey for NoKey {
    fn opening_header_protection_mask(&self, _: &[u8]) -> HeaderProtectionMask {
        HeaderProtectionMask::default()
    }

    fn opening_sample_len(&self) -> usize {
        TAG
    }

    fn sealing_header_protection_mask(&self, _: &[u8]) -> HeaderProtectionMask {
        HeaderProtectionMask::default()
    }

    fn sealing_sample_len(&self) -> usize {
        TAG
    }
}

impl crypto::InitialKey for NoKey {
    type HeaderKey = Self;

    fn new_server(_: &[u8]) -> (Self, Self) {
        (Self, Self)
    }

    fn new_client(_: &[u8]) -> (Self, Self) {
        (Self, Self)
    }
}

impl crypto::OneRttKey for NoKey {
    fn derive_next_key(&self) -> Self {
        Self
    }
}

impl crypto::RetryKey for NoKey {
    fn generate_tag(_: &[u8]) -> IntegrityTag {
        IntegrityTag::default()
    }

    fn validate(_: &[u8], _: IntegrityTag) -> Result<(), Error> {
        Ok(())
    }
}

impl crypto::HandshakeKey for NoKey {}
impl crypto::HandshakeHeaderKey for NoKey {}
impl crypto::InitialHeaderKey for NoKey {}
impl crypto::OneRttHeaderKey for NoKey {}
impl crypto::ZeroRttKey for NoKey {}
impl crypto::ZeroRttHeaderKey for NoKey {}

/// What an end does next.
#[derive(Debug)]
enum Step {
    ClientHello,
    AwaitServerHello,
    AwaitServerFinished,
    AwaitClientHello,
    AwaitClientFinished,
    Done,
}

/// One end of a handshake.
#[derive(Debug)]
pub(super) struct Plain {
    own: Vec<u8>,
    unread: Vec<u8>,
    step: Step,
}

impl Plain {
    fn new(own: &impl EncoderValue, step: Step) -> Self {
        Self { own: own.encode_to_vec(), unread: Vec::new(), step }
    }

    /// Takes the parameters of the next message out of what has arrived, if it has arrived completely. Parameters that
    /// are longer than their message count as none.
    fn take(&mut self, arrived: impl Iterator<Item = Bytes>) -> Option<Vec<u8>> {
        arrived.for_each(|bytes| self.unread.extend_from_slice(&bytes));
        let &[_, high, middle, low, upper, lower] = self.unread.first_chunk::<HEADER>()?;
        let size = 4 + u32::from_be_bytes([0, high, middle, low]) as usize;
        let message: Vec<u8> = (size <= self.unread.len()).then(|| self.unread.drain(..size).collect())?;
        let length = usize::from(u16::from_be_bytes([upper, lower]));
        Some(message.get(HEADER..HEADER + length).unwrap_or_default().to_vec())
    }
}

/// A message of `size` bytes, or more if it needs them: header, parameters, and zeros.
fn message(kind: HandshakeType, parameters: &[u8], size: usize) -> Bytes {
    let size = size.max(HEADER + parameters.len());
    let mut message = ((size - 4) as u32).to_be_bytes().to_vec();
    message[0] = kind as u8;
    message.extend((parameters.len() as u16).to_be_bytes());
    message.extend(parameters);
    message.resize(size, 0);
    message.into()
}

impl crypto::CryptoSuite for Plain {
    type HandshakeKey = NoKey;
    type HandshakeHeaderKey = NoKey;
    type InitialKey = NoKey;
    type InitialHeaderKey = NoKey;
    type OneRttKey = NoKey;
    type OneRttHeaderKey = NoKey;
    type ZeroRttKey = NoKey;
    type ZeroRttHeaderKey = NoKey;
    type RetryKey = NoKey;
}

impl tls::Session for Plain {
    fn poll<C: Context<Self>>(&mut self, context: &mut C) -> Poll<Result<(), transport::Error>> {
        loop {
            let arrived = match self.step {
                Step::AwaitServerHello | Step::AwaitClientHello => {
                    self.take(std::iter::from_fn(|| context.receive_initial(None)))
                }
                Step::AwaitServerFinished | Step::AwaitClientFinished => {
                    self.take(std::iter::from_fn(|| context.receive_handshake(None)))
                }
                Step::ClientHello => Some(Vec::new()),
                Step::Done => return Poll::Ready(Ok(())),
            };
            let Some(parameters) = arrived else { return Poll::Pending };
            let peers = ApplicationParameters { transport_parameters: &parameters };
            self.step = match self.step {
                Step::ClientHello => {
                    context.send_initial(message(HandshakeType::ClientHello, &self.own, CLIENT_HELLO));
                    Step::AwaitServerHello
                }
                Step::AwaitServerHello => {
                    context.on_handshake_keys(NoKey, NoKey)?;
                    Step::AwaitServerFinished
                }
                Step::AwaitServerFinished => {
                    context.on_application_protocol(Bytes::from_static(b"rampmeter"))?;
                    context.on_one_rtt_keys(NoKey, NoKey, peers)?;
                    context.send_handshake(message(HandshakeType::Finished, &[], CLIENT_FINISHED));
                    context.on_handshake_complete()?;
                    Step::Done
                }
                Step::AwaitClientHello => {
                    context.send_initial(message(HandshakeType::ServerHello, &[], SERVER_HELLO));
                    context.on_handshake_keys(NoKey, NoKey)?;
                    context.send_handshake(message(HandshakeType::Finished, &self.own, SERVER_FINISHED));
                    context.on_application_protocol(Bytes::from_static(b"rampmeter"))?;
                    context.on_one_rtt_keys(NoKey, NoKey, peers)?;
                    Step::AwaitClientFinished
                }
                Step::AwaitClientFinished => {
                    context.on_handshake_complete()?;
                    Step::Done
                }
                Step::Done => unreachable!("it has returned"),
            };
        }
    }
}

/// Starts sessions.
#[derive(Debug)]
pub(super) struct Sessions;

impl tls::Endpoint for Sessions {
    type Session = Plain;

    fn new_server_session<P: EncoderValue>(&mut self, own: &P, _: ConnectionInfo) -> Plain {
        Plain::new(own, Step::AwaitClientHello)
    }

    fn new_client_session<P: EncoderValue>(&mut self, own: &P, _: ServerName) -> Plain {
        Plain::new(own, Step::ClientHello)
    }

    fn max_tag_length(&self) -> usize {
        TAG
    }
}
