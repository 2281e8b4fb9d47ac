//! What a capture shows of a simulated packet.

use rampmeter_router::Parcel;
use rampmeter_trace::Capture;

use crate::packet::InTransit;

impl Capture for InTransit {
    /// An IPv4 and a UDP header, and ours in clear where it is one of a connection. A node is the host 10.N, a flow has a
    /// port of its own at both ends.
    fn write(&self, out: &mut Vec<u8>) -> usize {
        let length = self.bytes().as_u64() as usize;
        let hosts = self.hosts();
        let mut header = rampmeter_wire::Packet::default();
        let is_ours = self.write_header(&mut header);
        let address = |node: u64| [10, (node >> 16) as u8, (node >> 8) as u8, node as u8];
        let start = out.len();
        out.extend([0x45, self.ecn().bits()]);
        out.extend((length as u16).to_be_bytes());
        out.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        out.extend(address(hosts.source));
        out.extend(address(hosts.destination));
        let sum = rampmeter_wire::checksum::of(&out[start..]);
        out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
        let port = PORT + (self.flow % 1000) as u16;
        out.extend(port.to_be_bytes());
        out.extend(port.to_be_bytes());
        out.extend((length.saturating_sub(20) as u16).to_be_bytes());
        out.extend([0, 0]);
        if is_ours {
            rampmeter_wire::encode(&header, out);
        }
        length
    }
}

/// The port of the first flow; the next thousand flows have those above it.
const PORT: u16 = 46000;
