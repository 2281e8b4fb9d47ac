//! Ranges of a file's bytes (RFC 9110, section 14).
//!
//! ```text
//! bytes=500-999       from 500 to 999, both included
//! bytes=500-          from 500 to the end
//! bytes=-500          the last 500
//! ```
//!
//! Section 14.2 permits to ignore the header. So a request for several ranges, in another unit, or with invalid numbers
//! gets the whole file.

/// The range that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    /// From the first of these bytes to the second one, or to the end.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Last(u64),
}

impl Range {
    /// The range in the value of a `Range` header.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let value = std::str::from_utf8(value).ok()?;
        let (unit, range) = value.split_once('=')?;
        let (first, last) = range.trim().split_once('-')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        match (first.trim(), last.trim()) {
            ("", last) => Some(Self::Last(number(last)?)),
            (first, "") => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// The first byte and the number of bytes of this range in a file of `length` bytes; none if the file has no byte of
    /// it.
    pub(crate) fn of(self, length: u64) -> Option<(u64, u64)> {
        let (first, end) = match self {
            Self::From(first, last) => (first, last.map_or(length, |last| last.saturating_add(1).min(length))),
            Self::Last(count) => (length.saturating_sub(count), length),
        };
        end.checked_sub(first).filter(|count| *count > 0).map(|count| (first, count))
    }
}

/// A number of any size; one that is too large is larger than any file.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_those_of_the_standard() {
        // Section 14.1.2, for a file of 10 000 bytes.
        let of = |value: &str| Range::parse(value.as_bytes()).map(|range| range.of(10_000));
        assert_eq!(of("bytes=0-499"), Some(Some((0, 500))));
        assert_eq!(of("bytes=500-999"), Some(Some((500, 500))));
        assert_eq!(of("bytes=-500"), Some(Some((9500, 500))));
        assert_eq!(of("bytes=9500-"), Some(Some((9500, 500))));
        assert_eq!(of("Bytes= 9500 - 99999999999999999999999"), Some(Some((9500, 500))));
        assert_eq!(of("bytes=-20000"), Some(Some((0, 10_000))));
        assert_eq!(
            (of("bytes=10000-"), of("bytes=-0"), of("bytes=99999999999999999999-")),
            (Some(None), Some(None), Some(None))
        );
    }

    #[test]
    fn what_is_no_single_range_is_ignored() {
        for value in
            ["bytes=0-0,-1", "lines=0-4", "bytes=5-2", "bytes=-", "bytes=a-b", "bytes=1", "bytes=+1-2", "", "\u{7f}"]
        {
            assert_eq!(Range::parse(value.as_bytes()), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_range_lies_within_the_file(value in "bytes=[0-9]{0,22}-[0-9]{0,22}", length in any::<u64>()) {
            if let Some((first, count)) = Range::parse(value.as_bytes()).and_then(|range| range.of(length)) {
                prop_assert!(count > 0 && first.checked_add(count).is_some_and(|end| end <= length));
            }
        }
    }
}
