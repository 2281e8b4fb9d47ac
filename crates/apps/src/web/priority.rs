//! Hints of a client about the relative fractions of the bandwidth that its objects should get (CM section 3.2.1, the
//! vector `[o1 : r1, ...]`), in the header `Priority` of RFC 9218: `Priority: u=1`.
//!
//! ```text
//! urgency `u`, 0 to 7, 3 if absent:   weight = 2^(3 - urgency)        8 for u=0, 1 for u=3, 1/16 for u=7
//! ```
//!
//! Each level halves the fraction. RFC 9218 (section 10) recommends to send the more urgent response first, which a
//! server can do that has all responses in one connection; the paper divides the bandwidth among connections. Fractions
//! also let no object starve. *Deviation*: `i` (incremental) changes nothing, as each connection carries one response at
//! a time.

/// The urgency without a hint (RFC 9218, section 4.1).
pub(crate) const DEFAULT: u8 = 3;

/// The urgency in the values of the header `Priority`, a dictionary of structured fields (RFC 9651, section 3.2): of
/// several urgencies (members `u`) the last one counts. One that is no integer from 0 to 7 is ignored.
pub(crate) fn urgency(values: &[&[u8]]) -> u8 {
    let members = values.iter().flat_map(|value| value.split(|byte| *byte == b','));
    let mut urgencies = members.filter_map(|member| match member.split(|byte| *byte == b';').next()?.trim_ascii() {
        [b'u', b'=', digit @ b'0'..=b'7'] => Some(digit - b'0'),
        [b'u', ..] => Some(DEFAULT).filter(|_| member.trim_ascii().starts_with(b"u=")),
        _ => None,
    });
    urgencies.next_back().unwrap_or(DEFAULT)
}

/// The weight of the flow of a response.
pub(crate) fn weight(urgency: u8) -> f64 {
    2_f64.powi(i32::from(DEFAULT) - i32::from(urgency))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_valid_urgency_counts() {
        for (value, expected) in [
            ("u=0", 0),
            ("u=7, i", 7),
            ("i, u=1", 1),
            ("u=1;x=2", 1),
            ("u=1, u=5", 5),
            ("u=8", DEFAULT),
            ("u=-1", DEFAULT),
            ("u=10", DEFAULT),
            ("u=1.0", DEFAULT),
            ("U=1", DEFAULT),
            ("urgent=1", DEFAULT),
            ("i", DEFAULT),
            ("", DEFAULT),
        ] {
            assert_eq!(urgency(&[value.as_bytes()]), expected, "{value}");
        }
        assert_eq!((urgency(&[]), urgency(&[b"u=1", b"i"]), urgency(&[b"u=1", b"u=6"])), (DEFAULT, 1, 6));
    }

    #[test]
    fn each_level_halves_the_weight() {
        assert_eq!((0..8).map(weight).collect::<Vec<_>>(), [8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625]);
    }
}
