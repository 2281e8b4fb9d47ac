//! 32-bit sequence numbers that wrap, and the 64-bit numbers that they represent.

/// The low 32 bits, which packets carry.
pub const fn wrap(full: u64) -> u32 {
    full as u32
}

/// The 64-bit number nearest to `near` whose low 32 bits are `wrapped`; close to zero, the one that is not negative.
pub const fn unwrap(near: u64, wrapped: u32) -> u64 {
    let distance = wrapped.wrapping_sub(near as u32) as i32 as i64;
    match near.checked_add_signed(distance) {
        Some(full) => full,
        None => wrapped as u64,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_within_2_to_31_of_a_reference_is_recovered(
            near in 1u64 << 31..u64::MAX >> 1,
            offset in -(1i64 << 31)..1i64 << 31,
        ) {
            let full = near.checked_add_signed(offset).unwrap();
            prop_assert_eq!(unwrap(near, wrap(full)), full);
        }
    }

    #[test]
    fn no_number_is_negative() {
        assert_eq!(unwrap(5, 3), 3);
        assert_eq!(unwrap(5, u32::MAX), u64::from(u32::MAX));
    }
}
