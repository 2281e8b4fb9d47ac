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
        names: "B, kB, MB, GB (powers of 1000)",
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
        assert!("250 KiB".parse::<Bytes>().unwrap_err().to_string().contains("powers of 1000"));
    }
}
