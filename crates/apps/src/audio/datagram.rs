//! The packets of the audio server and of a plain receiver, which needs no congestion control.
//!
//! ```text
//! datagram          "RMau", number, encoding in b/s; the rest is audio data
//! acknowledgement   "RMak", number, 64 bits for the datagrams before it that have arrived: bit 0 is the previous one
//! ```

/// The minimum size of a datagram.
pub(super) const MIN_BYTES: usize = 16;

pub(super) const ACKNOWLEDGEMENT: usize = 16;

/// Writes the header of datagram `number` into `bytes`.
pub(super) fn write(bytes: &mut [u8], number: u32, encoding_bps: u64) {
    bytes[..4].copy_from_slice(b"RMau");
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..16].copy_from_slice(&encoding_bps.to_be_bytes());
}

/// The number of a datagram, if it is valid.
pub(super) fn read(bytes: &[u8]) -> Option<u32> {
    let number = bytes.get(4..8).filter(|_| bytes.len() >= MIN_BYTES && bytes.starts_with(b"RMau"))?;
    Some(u32::from_be_bytes(number.try_into().ok()?))
}

/// Acknowledges a datagram, and up to 64 before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acknowledgement {
    pub(super) number: u32,
    pub(super) before: u64,
}

impl Acknowledgement {
    pub(super) fn write(self) -> [u8; ACKNOWLEDGEMENT] {
        let mut bytes = [0; ACKNOWLEDGEMENT];
        bytes[..4].copy_from_slice(b"RMak");
        bytes[4..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&self.before.to_be_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ACKNOWLEDGEMENT] =
            bytes.try_into().ok().filter(|bytes: &&[u8; 16]| bytes.starts_with(b"RMak"))?;
        let (number, before) = (bytes[4..8].try_into().ok()?, bytes[8..].try_into().ok()?);
        Some(Self { number: u32::from_be_bytes(number), before: u64::from_be_bytes(before) })
    }

    pub(super) fn numbers(self) -> impl Iterator<Item = u32> {
        let before = (0..64).filter(move |bit| self.before >> bit & 1 == 1);
        std::iter::once(self.number).chain(before.map(move |bit| self.number.wrapping_sub(bit + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_and_acknowledgements_are_read_as_written() {
        let mut bytes = [7; 1000];
        write(&mut bytes, 41, 80_000);
        assert_eq!(read(&bytes), Some(41));
        assert_eq!((read(&bytes[..15]), read(&[0; 20])), (None, None));
        let acknowledgement = Acknowledgement { number: 1, before: 0b101 };
        assert_eq!(Acknowledgement::read(&acknowledgement.write()), Some(acknowledgement));
        assert_eq!(acknowledgement.numbers().collect::<Vec<_>>(), [1, 0, u32::MAX - 1]);
        assert_eq!(Acknowledgement::read(&bytes[..16]), None);
    }
}
