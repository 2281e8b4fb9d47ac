//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// Ones' complement sum of `bytes` as big-endian 16-bit words; an odd last byte counts as a word's first.
fn sum(bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks_exact(2);
    let whole: u32 = words.by_ref().map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    whole + words.remainder().first().map_or(0, |&last| u32::from(last) << 8)
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of `bytes`; zero if they contain a correct checksum.
pub fn of(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// The checksum after `old`, at an even offset in the covered bytes, was replaced by `new`.
pub fn updated(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    debug_assert_eq!(old.len(), new.len());
    let removed = u32::from(!fold(sum(old)));
    !fold(u32::from(!checksum) + removed + sum(new)) // RFC 1624 eq. (3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_checksum_matches_the_example_of_rfc_1071() {
        // The example of RFC 1071 section 3.
        assert_eq!(of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    proptest! {
        #[test]
        fn an_update_equals_a_new_checksum(
            mut bytes in prop::collection::vec(any::<u8>(), 44..200),
            new in prop::collection::vec(any::<u8>(), 1..40),
            at: prop::sample::Index,
        ) {
            // Bytes 0 and 1 hold the checksum.
            (bytes[0], bytes[1], bytes[2]) = (0, 0, 1);
            let before = of(&bytes);
            let at = (4 + at.index(bytes.len() - new.len() - 4)) & !1;
            let old = bytes[at..at + new.len()].to_vec();
            let updated = updated(before, &old, &new);
            bytes[at..at + new.len()].copy_from_slice(&new);
            bytes[..2].copy_from_slice(&updated.to_be_bytes());
            prop_assert_eq!(of(&bytes), 0);
        }
    }
}
