//! The header of a datagram inside a message of data (RFC 768). So a message is the same in a UDP datagram and in an IP
//! packet, where it stands just like that: the CM header between IP's and UDP's.
//!
//! ```text
//! CM header (12 bytes) | source port 0 | destination port | length | checksum 0 | payload
//! ```
//!
//! The source port is 0, "none" in RFC 768: nothing can be sent back. The checksum is 0, "none" too: the message's own
//! covers the ports' neighbours, and that of the UDP datagram around it, where there is one, all of it.

/// Bytes of the header.
pub(super) const INNER_BYTES: usize = 8;

/// IP's number for UDP.
pub(super) const UDP: u8 = 17;

/// Appends a datagram of `payload` for the port `to`. None of ours is larger than the length's field can say.
pub(super) fn write(to: u16, payload: &[u8], out: &mut Vec<u8>) {
    let length = (INNER_BYTES + payload.len()) as u16;
    out.extend([0, to, length, 0].map(u16::to_be_bytes).as_flattened());
    out.extend(payload);
}

/// Reads a datagram: the port that it is for, and its payload.
pub(super) fn read(protocol: u8, bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (header, payload) = bytes.split_first_chunk::<INNER_BYTES>()?;
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let is_whole = protocol == UDP && usize::from(field(4)) == bytes.len() && field(2) != 0;
    is_whole.then_some((field(2), payload))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(to in 1..=u16::MAX, payload: Vec<u8>) {
            let mut bytes = Vec::new();
            write(to, &payload, &mut bytes);
            prop_assert_eq!(bytes.len(), INNER_BYTES + payload.len());
            prop_assert_eq!(read(UDP, &bytes), Some((to, &payload[..])));
            prop_assert_eq!(read(6, &bytes), None, "another protocol");
            prop_assert_eq!(read(UDP, &bytes[..bytes.len() - 1]), None, "cut off");
        }

        #[test]
        fn any_bytes_are_a_datagram_or_none(protocol: u8, bytes: Vec<u8>) {
            let _ = read(protocol, &bytes);
        }
    }
}
