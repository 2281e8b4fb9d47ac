//! Headers for data that the program sends from a socket of its own to the receiver's daemon (section 4.3).

use std::net::SocketAddr;

use rampmeter_wire::{CM_HEADER_BYTES, CmHeader, CmKind, CmMessage, cm_encode};

use super::{Client, Id};
use crate::error::Error;
use crate::inner_udp::{self, INNER_BYTES};
use crate::message::{Command, OwnSocket};

/// The size of a header that [`Client::header`] returns.
pub const HEADER_BYTES: usize = CM_HEADER_BYTES + INNER_BYTES;

/// The destination of a packet, and the header before its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The receiver's daemon, or the flow's destination if there is no header.
    pub to: SocketAddr,
    /// [`HEADER_BYTES`] bytes; none if the receiver is not known to have a daemon.
    pub bytes: Vec<u8>,
}

/// A flow that sends from a socket of its own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnFlow {
    /// The receiver's daemon, if it accepts such packets, with the header of the next packet.
    socket: Option<OwnSocket>,
    /// The tag of the last header, for [`Client::notify`].
    pub(super) written: Option<u32>,
}

impl OwnFlow {
    /// Sets the contents of the next headers. If the daemon repeats them, as for two threads that call
    /// [`Client::header`] for the first time, the numbers continue.
    pub(super) fn set(&mut self, socket: Option<OwnSocket>) {
        let name = |socket: OwnSocket| (socket.peer, socket.header.flow, socket.header.tag);
        if self.socket.map(name) != socket.map(name) {
            self.socket = socket;
        }
    }

    /// The packet of the last header was sent, or not. Returns the tag of its header.
    pub(super) fn on_notify(&mut self, was_sent: bool) -> Option<u32> {
        let tag = self.written.take().filter(|_| was_sent)?;
        if let Some(next) = self.socket.as_mut().filter(|next| next.header.tag == tag) {
            next.header.first = next.header.first.wrapping_add(1);
        }
        Some(tag)
    }

    fn write(&mut self, to: SocketAddr, length: usize) -> Header {
        self.written = self.socket.map(|next| next.header.tag);
        let Some(OwnSocket { peer, header }) = self.socket else { return Header { to, bytes: Vec::new() } };
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        let (kind, protocol) = (CmKind::Data, inner_udp::UDP);
        cm_encode(
            &CmMessage::Header(CmHeader { kind, protocol, sequence: header.first, flow: header.flow }),
            &mut bytes,
        );
        inner_udp::write_header(to.port(), length, header.tag, &mut bytes);
        Header { to: peer, bytes }
    }
}

impl Client {
    /// The destination and the header of the flow's next packet, with `length` bytes of data, if the program sends it
    /// from a socket of its own (`cm_header`). The receiver's daemon counts it and reports its outcome, as for
    /// [`Client::send`], so the program need not call [`Client::update`]. The next call of [`Client::notify`] is about
    /// this packet; its bytes are the data without the header.
    pub fn header(&self, flow: Id, length: usize) -> Result<Header, Error> {
        // A notify of 0 bytes says that nothing was sent, so such a packet could not be counted.
        if length == 0 {
            return Err(Error::Invalid);
        }
        if self.lock()?.flows.open(flow.0)?.own_socket.is_none() {
            self.execute(Some(flow), |token| Command::Header { token })?;
        }
        let mut state = self.lock_and_read_notices()?;
        let f = state.flows.open(flow.0)?;
        if length > f.mtu as usize {
            return Err(Error::TooLarge);
        }
        Ok(f.own_socket.get_or_insert_default().write(f.to, length))
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_manager::OwnHeader;
    use rampmeter_wire::cm_decode;

    use super::*;

    #[test]
    fn a_number_is_used_only_when_its_packet_is_sent() {
        let peer = "192.0.2.1:2961".parse().unwrap();
        let to = "192.0.2.1:5000".parse().unwrap();
        let mut flow = OwnFlow::default();
        assert_eq!(flow.write(to, 100), Header { to, bytes: vec![] });
        assert_eq!(flow.on_notify(true), None);
        let socket = OwnSocket { peer, header: OwnHeader { flow: 7, first: u32::MAX, tag: 9 } };
        flow.set(Some(socket));
        let number = |flow: &mut OwnFlow| {
            let header = flow.write(to, 100);
            assert_eq!((header.to, header.bytes.len()), (peer, HEADER_BYTES));
            let bytes = [&header.bytes[..], &[1; 100]].concat();
            let Ok((CmMessage::Header(header), payload)) = cm_decode(&bytes) else { panic!() };
            let datagram = inner_udp::Datagram { to: 5000, tag: 9, payload: &[1; 100] };
            assert_eq!((header.flow, inner_udp::read(header.protocol, payload)), (7, Some(datagram)));
            header.sequence
        };
        assert_eq!(number(&mut flow), u32::MAX);
        assert_eq!(flow.on_notify(false), None, "not sent");
        assert_eq!(number(&mut flow), u32::MAX);
        assert_eq!((flow.on_notify(true), flow.on_notify(true)), (Some(9), None));
        assert_eq!(number(&mut flow), 0);
        flow.set(Some(socket));
        assert_eq!(number(&mut flow), 0, "the daemon repeats what is known");
        flow.set(None);
        assert_eq!(flow.on_notify(true), Some(9), "the daemon finds out that it is an old one");
    }
}
