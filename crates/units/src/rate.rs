//! Rates, in bits per second.

use crate::quantity::{Form, quantity};
use crate::{Bytes, Duration};

/// A rate in whole bits per second, counting every byte of the IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// No transmission.
    pub const ZERO: Self = Self(0);
    /// Unlimited: sending takes no time.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// A rate of `bps` bits per second, rounded; negative and NaN become zero.
    pub fn from_bps_f64(bps: f64) -> Self {
        Self(bps.round() as u64)
    }

    /// The rate that sends `bytes` in `span`; unlimited if `span` is zero.
    pub fn of(bytes: Bytes, span: Duration) -> Self {
        if span == Duration::ZERO {
            return Self::MAX;
        }
        Self::from_bps_f64(bytes.as_u64() as f64 * 8e9 / span.as_nanos() as f64)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Bits per second.
    pub fn as_bps_f64(self) -> f64 {
        self.0 as f64
    }

    /// The transmission time of `bytes`, rounded up to a nanosecond; [`Duration::MAX`] if the rate is zero.
    pub const fn time_to_send(self, bytes: Bytes) -> Duration {
        match (self.0, bytes.as_u64().checked_mul(8_000_000_000)) {
            (u64::MAX, _) => Duration::ZERO,
            (0, _) => Duration::MAX,
            (bps, Some(bit_nanos)) => Duration::from_nanos(bit_nanos.div_ceil(bps)),
            (bps, None) => {
                let nanos = (bytes.as_u64() as u128 * 8_000_000_000).div_ceil(bps as u128);
                Duration::from_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
            }
        }
    }

    /// The number of whole bytes sent in `span`.
    pub const fn bytes_in(self, span: Duration) -> Bytes {
        let bytes = self.0 as u128 * span.as_nanos() as u128 / 8_000_000_000;
        Bytes::new(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }
}

quantity!(
    Rate,
    Form {
        what: "a rate",
        units: [("Gb/s", 1_000_000_000), ("Mb/s", 1_000_000), ("kb/s", 1_000), ("b/s", 1)],
        others: &[
            ("bit/s", 1),
            ("kbit/s", 1_000),
            ("Kbit/s", 1_000),
            ("Mbit/s", 1_000_000),
            ("Gbit/s", 1_000_000_000),
            // As in `tc` and `iperf3`.
            ("bit", 1),
            ("kbit", 1_000),
            ("Kbit", 1_000),
            ("mbit", 1_000_000),
            ("Mbit", 1_000_000),
            ("gbit", 1_000_000_000),
            ("Gbit", 1_000_000_000),
            ("Kb/s", 1_000),
            ("bps", 1),
            ("kbps", 1_000),
            ("Kbps", 1_000),
            ("Mbps", 1_000_000),
            ("Gbps", 1_000_000_000),
            ("B/s", 8),
            ("kB/s", 8_000),
            ("MB/s", 8_000_000),
            ("GB/s", 8_000_000_000),
        ],
        ambiguous: &[
            // Megabytes to `tc`, megabits to others.
            ("mbps", ["Mb/s", "MB/s"]),
            ("gbps", ["Gb/s", "GB/s"]),
            ("mb/s", ["Mb/s", "MB/s"]),
            ("gb/s", ["Gb/s", "GB/s"]),
            ("k", ["kb/s", "kB/s"]),
            ("K", ["kb/s", "kB/s"]),
            ("m", ["Mb/s", "MB/s"]),
            ("M", ["Mb/s", "MB/s"]),
            ("g", ["Gb/s", "GB/s"]),
            ("G", ["Gb/s", "GB/s"]),
        ],
        names: "b/s, kb/s, Mb/s, Gb/s",
        example: "40 Mb/s",
        max: Some("unlimited"),
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_1250_byte_packet_takes_250_us_at_40_megabits() {
        let rate: Rate = "40 Mb/s".parse().unwrap();
        assert_eq!(rate.time_to_send(Bytes::new(1250)), Duration::from_micros(250));
        assert_eq!(rate.bytes_in(Duration::from_micros(250)), Bytes::new(1250));
        assert_eq!(Rate::of(Bytes::new(1250), Duration::from_micros(250)), rate);
    }

    #[test]
    fn sending_is_instant_if_unlimited_and_endless_if_zero() {
        assert_eq!(Rate::MAX.time_to_send(Bytes::new(1)), Duration::ZERO);
        assert_eq!(Rate::ZERO.time_to_send(Bytes::new(1)), Duration::MAX);
        assert_eq!("unlimited".parse::<Rate>().unwrap(), Rate::MAX);
    }

    #[test]
    fn huge_amounts_saturate() {
        assert_eq!(Rate::from_bps(1).time_to_send(Bytes::MAX), Duration::MAX);
        assert_eq!(Rate::from_bps(8_000_000_000).time_to_send(Bytes::new(3_000_000_000)), Duration::from_secs(3));
    }

    #[test]
    fn text_round_trips() {
        for text in ["40 Mb/s", "1.5 Gb/s", "500 kb/s", "17 b/s", "unlimited"] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.to_string(), text);
        }
    }

    #[test]
    fn rates_may_have_the_spellings_of_other_tools() {
        for (text, rate) in [
            ("20Mbit/s", "20 Mb/s"),
            ("10mbit", "10 Mb/s"),
            ("5Mbps", "5 Mb/s"),
            ("1Gbps", "1 Gb/s"),
            ("512 kbit", "512 kb/s"),
            ("1.5Gbit", "1500 Mb/s"),
            ("5 MB/s", "40 Mb/s"),
        ] {
            assert_eq!(text.parse::<Rate>(), rate.parse(), "{text}");
        }
        for (text, advice) in [
            ("5M", "`5M` is not a rate: write 5 Mb/s or 5 MB/s: it may mean either"),
            ("10mbps", "write 10 Mb/s or 10 MB/s"),
            ("10 mb/s", "write 10 Mb/s or 10 MB/s"),
            ("Mb", "write a number and one of b/s, kb/s"),
            ("20 MiB/s", "write a number and one of b/s, kb/s"),
        ] {
            let message = text.parse::<Rate>().unwrap_err().to_string();
            assert!(message.contains(advice), "{text}: {message}");
        }
    }
}
