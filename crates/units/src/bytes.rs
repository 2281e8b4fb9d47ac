//! Amounts of data.

use crate::quantity::{Form, quantity};

/// A number of bytes, never negative. A packet counts in full, with its IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// No limit.
    pub const MAX: Self = Self(u64::MAX);

    /// This many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The number, for formulas.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

quantity!(
    Bytes,
    Form {
        what: "an amount of data",
        units: [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)],
        others: &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("bytes", 1)],
        ambiguous: &[
            ("KB", ["kB", "KiB"]),
            ("k", ["kB", "KiB"]),
            ("K", ["kB", "KiB"]),
            ("m", ["MB", "MiB"]),
            ("M", ["MB", "MiB"]),
            ("g", ["GB", "GiB"]),
            ("G", ["GB", "GiB"]),
        ],
        names: "B, kB, MB, GB (powers of 1000), KiB, MiB, GiB (of 1024)",
        example: "250 kB",
        max: None,
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["250 kB", "1.5 MB", "1250 B", "2 GB"] {
            let amount: Bytes = text.parse().unwrap();
            assert_eq!(amount.to_string().parse::<Bytes>().unwrap(), amount);
        }
        assert_eq!("250 kB".parse::<Bytes>().unwrap(), Bytes::new(250_000));
        assert!("250 bits".parse::<Bytes>().unwrap_err().to_string().contains("powers of 1000"));
    }

    #[test]
    fn binary_units_are_powers_of_1024() {
        for (text, bytes) in [("64KiB", 65_536), ("10 MiB", 10_485_760), ("1 GiB", 1 << 30), ("40 bytes", 40)] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes::new(bytes), "{text}");
        }
        for (text, advice) in [
            ("5M", "`5M` is not an amount of data: write 5 MB or 5 MiB: it may mean either"),
            ("64 KB", "write 64 kB or 64 KiB"),
            ("M", "write a number and one of B, kB"),
        ] {
            let message = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(message.contains(advice), "{text}: {message}");
        }
    }
}
