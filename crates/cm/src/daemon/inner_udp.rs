//! The UDP header inside a data message (RFC 768). So a message is the same in a UDP datagram and in an IP packet,
//! where the CM header stands between the headers of IP and UDP.
//!
//! ```text
//! CM header (12 bytes) | source port 0 | destination port | length | checksum 0 | payload
//! ```
//!
//! The source port is 0, "none" in RFC 768, because nothing can be sent back. The checksum is 0, "none" too: the
//! message's own checksum covers the CM header, and the checksum of the outer UDP datagram, if there is one, covers
//! everything.

/// The size of the header.
pub(super) const INNER_BYTES: usize = 8;

/// The IP protocol number of UDP.
pub(super) const UDP: u8 = 17;

/// Appends a datagram with `payload` for the port `to`. The payload is always small enough for the length field.
pub(super) fn write(to: u16, payload: &[u8], out: &mut Vec<u8>) {
    let length = (INNER_BYTES + payload.len()) as u16;
    out.extend([0, to, length, 0].map(u16::to_be_bytes).as_flattened());
    out.extend(payload);
}

/// Parses a datagram: its port and its payload.
pub(super) fn read(protocol: u8, bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (header, payload) = bytes.split_first_chunk::<INNER_BYTES>()?;
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let is_valid = protocol == UDP && usize::from(field(4)) == bytes.len() && field(2) != 0;
    is_valid.then_some((field(2), payload))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn datagrams_are_read_as_written(to in 1..=u16::MAX, payload: Vec<u8>) {
            let mut bytes = Vec::new();
            write(to, &payload, &mut bytes);
            prop_assert_eq!(bytes.len(), INNER_BYTES + payload.len());
            prop_assert_eq!(read(UDP, &bytes), Some((to, &payload[..])));
            prop_assert_eq!(read(6, &bytes), None, "another protocol");
            prop_assert_eq!(read(UDP, &bytes[..bytes.len() - 1]), None, "cut off");
        }

        #[test]
        fn reading_any_bytes_never_panics(protocol: u8, bytes: Vec<u8>) {
            let _ = read(protocol, &bytes);
        }
    }
}
