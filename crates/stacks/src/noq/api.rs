//! The calls and traits of noq-proto whose form differs from quinn-proto's.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use noq_proto::crypto::{CryptoError, HandshakeTokenKey, PacketKey};
use noq_proto::{
    Connection, ConnectionId, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple,
    PathId, ServerConfig, Transmit,
};

use super::flow::Progress;
use super::session::{NoKey, TAG};

/// How a session gets a connection id.
pub(super) type Id<'a> = ConnectionId;

/// How a configuration starts a session.
pub(super) type Config<'a, T> = &'a T;

pub(super) fn progress(connection: &mut Connection) -> Progress {
    let path = connection.path_stats(PathId::ZERO).unwrap_or_default();
    Progress {
        window: path.cwnd,
        rtt: path.rtt,
        lost: path.lost_packets,
        stream_frames: connection.stats().frame_tx.stream,
    }
}

pub(super) fn set_ids<F>(config: &mut EndpointConfig, factory: F)
where
    F: Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
{
    config.cid_generator(Arc::new(factory));
}

pub(super) fn endpoint(config: EndpointConfig, server: ServerConfig) -> Endpoint {
    Endpoint::new(Arc::new(config), Some(Arc::new(server)), true)
}

pub(super) fn handle(
    endpoint: &mut Endpoint,
    at: Instant,
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    data: BytesMut,
    answer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(at, FourTuple::new(from, None), ecn, data, answer)
}

pub(super) fn poll_transmit(connection: &mut Connection, at: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
    connection.poll_transmit(at, NonZeroUsize::MIN, buffer)
}

impl PacketKey for NoKey {
    fn encrypt(&self, _: PathId, _: u64, packet: &mut [u8], _: usize) {
        Self::tag(packet);
    }

    fn decrypt(&self, _: PathId, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
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
    fn seal(&self, _: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        data.extend([0; TAG]);
        Ok(())
    }

    fn open<'a>(&self, _: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let length = Self::untagged(data.len())?;
        Ok(&data[..length])
    }
}
