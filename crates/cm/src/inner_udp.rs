//! The UDP header inside a data message (RFC 768). So a message is the same in a UDP datagram and in an IP packet,
//! where the CM header stands between the headers of IP and UDP.
//!
//! ```text
//! CM header (12 bytes) | source port 0 | destination port | length | checksum 0 | payload
//! ```
//!
//! The source port is 0, "none" in RFC 768, because nothing can be sent back. The checksum is 0, "none" too: the
//! message's own checksum covers the CM header, and the checksum of the outer UDP datagram, if there is one, covers
//! everything. In the packet of a program that sends from a socket of its own, these two fields are the tag of its flow.

/// The size of the header.
pub(crate) const INNER_BYTES: usize = 8;

/// The IP protocol number of UDP.
pub(crate) const UDP: u8 = 17;

/// A datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    /// The destination port.
    pub(crate) to: u16,
    /// The tag of a program's flow; 0 from a daemon.
    pub(crate) tag: u32,
    pub(crate) payload: &'a [u8],
}

/// Appends the header of a datagram with `payload` bytes, which are always few enough for the length field.
pub(crate) fn write_header(to: u16, payload: usize, tag: u32, out: &mut Vec<u8>) {
    let length = (INNER_BYTES + payload) as u16;
    out.extend([(tag >> 16) as u16, to, length, tag as u16].map(u16::to_be_bytes).as_flattened());
}

/// Parses a datagram.
pub(crate) fn read(protocol: u8, bytes: &[u8]) -> Option<Datagram<'_>> {
    let (header, payload) = bytes.split_first_chunk::<INNER_BYTES>()?;
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let is_valid = protocol == UDP && usize::from(field(4)) == bytes.len() && field(2) != 0;
    let tag = u32::from(field(0)) << 16 | u32::from(field(6));
    is_valid.then_some(Datagram { to: field(2), tag, payload })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn datagrams_are_read_as_written(to in 1..=u16::MAX, tag: u32, payload: Vec<u8>) {
            let mut bytes = Vec::new();
            write_header(to, payload.len(), tag, &mut bytes);
            bytes.extend(&payload);
            prop_assert_eq!(bytes.len(), INNER_BYTES + payload.len());
            prop_assert_eq!(read(UDP, &bytes), Some(Datagram { to, tag, payload: &payload }));
            prop_assert_eq!(read(6, &bytes), None, "another protocol");
            prop_assert_eq!(read(UDP, &bytes[..bytes.len() - 1]), None, "cut off");
        }

        #[test]
        fn reading_any_bytes_never_panics(protocol: u8, bytes: Vec<u8>) {
            let _ = read(protocol, &bytes);
        }
    }
}
