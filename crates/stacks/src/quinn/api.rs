//! The calls and traits of quinn-proto whose form differs from noq-proto's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::crypto::{AeadKey, CryptoError, HandshakeTokenKey, PacketKey};
use quinn_proto::{
    Connection, ConnectionId, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
    ServerConfig, Transmit,
};

use super::flow::Progress;
use super::session::{NoKey, TAG};

/// How a session gets a connection id.
pub(super) type Id<'a> = &'a ConnectionId;

/// How a configuration starts a session.
pub(super) type Config<'a, T> = Arc<T>;

pub(super) fn progress(connection: &mut Connection) -> Progress {
    let stats = connection.stats();
    Progress {
        window: stats.path.cwnd,
        rtt: stats.path.rtt,
        lost: stats.path.lost_packets,
        stream_frames: stats.frame_tx.stream,
    }
}

pub(super) fn set_ids<F>(config: &mut EndpointConfig, factory: F)
where
    F: Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
{
    config.cid_generator(factory);
}

pub(super) fn endpoint(config: EndpointConfig, server: ServerConfig) -> Endpoint {
    Endpoint::new(Arc::new(config), Some(Arc::new(server)), true, None)
}

pub(super) fn handle(
    endpoint: &mut Endpoint,
    at: Instant,
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    data: BytesMut,
    answer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(at, from, None, ecn, data, answer)
}

pub(super) fn poll_transmit(connection: &mut Connection, at: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
    connection.poll_transmit(at, 1, buffer)
}

impl PacketKey for NoKey {
    fn encrypt(&self, _: u64, packet: &mut [u8], _: usize) {
        Self::tag(packet);
    }

    fn decrypt(&self, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        payload.truncate(Self::untagged(payload.len())?);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HandshakeTokenKey for NoKey {
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self)
    }
}

impl AeadKey for NoKey {
    fn seal(&self, data: &mut Vec<u8>, _: &[u8]) -> Result<(), CryptoError> {
        data.extend([0; TAG]);
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let length = Self::untagged(data.len())?;
        Ok(&mut data[..length])
    }
}
