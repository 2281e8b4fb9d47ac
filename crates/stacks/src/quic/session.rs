//! A session without encryption instead of TLS: its handshake has the sizes of TLS 1.3 with a small certificate, its
//! packets have room for tags. Both ends are in one program, so no authentication is needed.

use std::any::Any;

use super::api::{Config, Id};
use super::proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, HmacKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use super::proto::transport_parameters::TransportParameters;
use super::proto::{ConnectError, Side, TransportError};

/// The bytes of an authentication tag.
pub(super) const TAG: usize = 16;

/// The sizes in bytes of TLS's messages: the client's first, the server's first, all others of the server's, the client's
/// last.
const CLIENT_HELLO: usize = 280;
const SERVER_HELLO: usize = 90;
const SERVER_FINISHED: usize = 800;
const CLIENT_FINISHED: usize = 36;

/// A key of any kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoKey;

impl NoKey {
    /// Fills the last bytes of a packet, which are those of its tag.
    pub(super) fn tag(packet: &mut [u8]) {
        let end = packet.len() - TAG;
        packet[end..].fill(0);
    }

    /// The length without the tag.
    pub(super) fn untagged(length: usize) -> Result<usize, CryptoError> {
        length.checked_sub(TAG).ok_or(CryptoError)
    }
}

impl HeaderKey for NoKey {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}

impl HmacKey for NoKey {
    /// The data itself, and ones: each connection id has a token of its own, and none is equal to the tag at the end of a
    /// packet, which would then be a reset.
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        signature.fill(0xff);
        signature.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }
}

fn packet_keys() -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(NoKey), remote: Box::new(NoKey) }
}

fn keys() -> Keys {
    Keys { header: KeyPair { local: Box::new(NoKey), remote: Box::new(NoKey) }, packet: packet_keys() }
}

/// One end of a handshake.
pub(super) struct Plain {
    side: Side,
    own: TransportParameters,
    peers: Option<TransportParameters>,
    unread: Vec<u8>,
    /// Messages that were sent, and that have arrived.
    sent: usize,
    arrived: usize,
    /// The peer's parameters were reported.
    has_reported: bool,
}

impl Plain {
    fn new(side: Side, own: &TransportParameters) -> Self {
        Self { side, own: *own, peers: None, unread: Vec::new(), sent: 0, arrived: 0, has_reported: false }
    }

    /// Appends a message of `size` bytes: its size, that of the parameters in it, the parameters, and zeros.
    fn put(&self, out: &mut Vec<u8>, has_parameters: bool, size: usize) {
        let mut parameters = Vec::new();
        if has_parameters {
            self.own.write(&mut parameters);
        }
        let start = out.len();
        out.extend((size as u16).to_be_bytes());
        out.extend((parameters.len() as u16).to_be_bytes());
        out.extend(parameters);
        out.resize(start + size, 0);
    }

    /// Takes the next complete message out of what has arrived.
    fn take(&mut self) -> Option<Vec<u8>> {
        let size = usize::from(u16::from_be_bytes(*self.unread.first_chunk()?));
        (size <= self.unread.len()).then(|| self.unread.drain(..size).collect())
    }
}

impl Session for Plain {
    fn initial_keys(&self, _: Id<'_>, _: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        match self.side {
            Side::Client => self.sent < 3,
            Side::Server => self.arrived < 2,
        }
    }

    fn read_handshake(&mut self, data: &[u8]) -> Result<bool, TransportError> {
        self.unread.extend(data);
        while let Some(message) = self.take() {
            self.arrived += 1;
            let length = usize::from(u16::from_be_bytes([message[2], message[3]]));
            if length > 0 {
                self.peers = Some(TransportParameters::read(self.side, &mut &message[4..4 + length])?);
            }
        }
        Ok(self.peers.is_some() && !std::mem::replace(&mut self.has_reported, self.peers.is_some()))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peers)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let (has_keys, message) = match (self.side, self.sent, self.arrived) {
            (Side::Client, 0, _) => (false, Some((true, CLIENT_HELLO))),
            (Side::Client, 1, 1..) => (true, None),
            (Side::Client, 2, 2..) => (true, Some((false, CLIENT_FINISHED))),
            (Side::Server, 0, 1..) => (true, Some((false, SERVER_HELLO))),
            (Side::Server, 1, _) => (true, Some((true, SERVER_FINISHED))),
            _ => return None,
        };
        self.sent += 1;
        if let Some((has_parameters, size)) = message {
            self.put(out, has_parameters, size);
        }
        has_keys.then(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(packet_keys())
    }

    fn is_valid_retry(&self, _: Id<'_>, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Ok(())
    }
}

/// Starts sessions.
#[derive(Debug)]
pub(super) struct Sessions;

impl ClientConfig for Sessions {
    fn start_session(
        self: Config<'_, Self>,
        _: u32,
        _: &str,
        own: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Plain::new(Side::Client, own)))
    }
}

impl ServerConfig for Sessions {
    fn initial_keys(&self, _: u32, _: Id<'_>) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _: u32, _: Id<'_>, _: &[u8]) -> [u8; TAG] {
        [0; TAG]
    }

    fn start_session(self: Config<'_, Self>, _: u32, own: &TransportParameters) -> Box<dyn Session> {
        Box::new(Plain::new(Side::Server, own))
    }
}
