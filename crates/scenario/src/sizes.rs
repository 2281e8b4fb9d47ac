//! Published distributions of the sizes of messages and flows, for remote procedure calls and data centres.
//!
//! Each is a list of sizes with the share of messages that are not larger, as a figure with a logarithmic axis has it:
//! between two points the logarithm of the size is uniform. Homa's are quantiles of the authors' tables
//! (PlatformLab/HomaModule, `util/dist.cc`); their means are within a tenth of the tables'.

use rampmeter_units::{Bytes, Random};

/// A distribution of sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Distribution {
    /// Sizes in bytes, and the share of messages that are not larger.
    points: &'static [(f64, f64)],
}

/// The names of the distributions.
pub(crate) const NAMES: &[&str] = &["google-rpc", "hadoop", "web-search", "data-mining"];

/// The distributions by name.
pub(crate) const ALL: [(&str, Distribution); 4] = [
    (NAMES[0], Distribution { points: GOOGLE_RPC }),
    (NAMES[1], Distribution { points: HADOOP }),
    (NAMES[2], Distribution { points: WEB_SEARCH }),
    (NAMES[3], Distribution { points: DATA_MINING }),
];

/// All applications of a Google data centre: W3 of Montazeri and others, "Homa", SIGCOMM 2018, Figure 1.
const GOOGLE_RPC: &[(f64, f64)] = &[
    (8.0, 0.0),
    (36.0, 0.1),
    (77.0, 0.2),
    (110.0, 0.3),
    (158.0, 0.4),
    (268.0, 0.5),
    (313.0, 0.6),
    (402.0, 0.7),
    (573.0, 0.8),
    (1_755.0, 0.9),
    (5_521.0, 0.95),
    (13_435.0, 0.98),
    (31_013.0, 0.99),
    (84_867.0, 0.995),
    (195_778.0, 0.998),
    (356_516.0, 0.999),
    (526_844.0, 0.9995),
    (2_342_777.0, 0.9999),
    (10_668_901.0, 0.99999),
    (15_158_197.0, 1.0),
];

/// A Hadoop cluster at Facebook: W4 of the same.
const HADOOP: &[(f64, f64)] = &[
    (53.0, 0.0),
    (315.0, 0.1),
    (376.0, 0.2),
    (502.0, 0.3),
    (561.0, 0.4),
    (662.0, 0.5),
    (960.0, 0.6),
    (6_387.0, 0.7),
    (49_408.0, 0.8),
    (120_373.0, 0.9),
    (273_075.0, 0.95),
    (406_302.0, 0.96),
    (832_442.0, 0.97),
    (1_660_940.0, 0.98),
    (3_430_822.0, 0.99),
    (6_322_443.0, 0.995),
    (10_000_000.0, 1.0),
];

/// Web search: Alizadeh and others, "Data Center TCP", SIGCOMM 2010, Figure 4; W5 of the same.
const WEB_SEARCH: &[(f64, f64)] = &[
    (1_430.0, 0.0),
    (5_720.0, 0.1),
    (19_110.0, 0.2),
    (27_930.0, 0.3),
    (48_510.0, 0.4),
    (72_030.0, 0.5),
    (195_510.0, 0.6),
    (980_490.0, 0.7),
    (1_959_510.0, 0.8),
    (4_899_510.0, 0.9),
    (15_680_490.0, 0.93),
    (19_600_980.0, 0.95),
    (25_480_980.0, 0.98),
    (29_400_000.0, 1.0),
];

/// Data mining: Alizadeh and others, "pFabric", SIGCOMM 2013, Figure 4, as read by TritonNetworking/opera-sim.
const DATA_MINING: &[(f64, f64)] = &[
    (100.0, 0.0),
    (180.0, 0.085),
    (250.0, 0.14),
    (560.0, 0.33),
    (900.0, 0.47),
    (1_100.0, 0.55),
    (1_870.0, 0.65),
    (3_160.0, 0.7),
    (10_000.0, 0.8),
    (100_001.0, 0.874),
    (400_000.0, 0.9),
    (1_850_000.0, 0.95),
    (10_000_000.0, 0.97),
    (30_000_000.0, 0.98),
    (100_000_000.0, 0.99),
    (250_000_000.0, 0.995),
    (1_000_000_000.0, 1.0),
];

impl Distribution {
    pub(crate) fn draw(self, random: &mut Random) -> Bytes {
        self.quantile(random.uniform())
    }

    /// The size that this share of the messages does not exceed.
    fn quantile(self, share: f64) -> Bytes {
        let next = self.points.partition_point(|(_, upto)| *upto <= share).clamp(1, self.points.len() - 1);
        let ((low, from), (high, to)) = (self.points[next - 1], self.points[next]);
        let size = low * libm::pow(high / low, (share - from) / (to - from));
        Bytes::new(size.round() as u64)
    }

    /// The mean of a function of the size.
    pub(crate) fn mean(self, of: impl Fn(Bytes) -> f64) -> f64 {
        const STEPS: u32 = 100_000;
        let quantiles = (0..STEPS).map(|n| self.quantile((f64::from(n) + 0.5) / f64::from(STEPS)));
        quantiles.map(of).sum::<f64>() / f64::from(STEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Distribution {
        ALL.iter().find(|(known, _)| *known == name).unwrap().1
    }

    #[test]
    fn quantiles_are_those_of_the_figures() {
        // Medians, and the share of messages within a packet: Homa, Figure 1; pFabric, section 2 (80% below 10 kB).
        for (name, share, size) in [
            ("google-rpc", 0.5, 268),
            ("hadoop", 0.5, 662),
            ("web-search", 0.5, 72_030),
            ("data-mining", 0.8, 10_000),
            ("data-mining", 0.0, 100),
            ("hadoop", 1.0, 10_000_000),
        ] {
            assert_eq!(named(name).quantile(share), Bytes::new(size), "{name}");
        }
        // Half of the way from 72030 B to 195510 B on a logarithmic axis.
        let between = named("web-search").quantile(0.55).as_f64();
        assert!((between / (72_030.0_f64 * 195_510.0).sqrt() - 1.0).abs() < 1e-3, "{between}");
    }

    /// The means of Homa's tables: 2928 B, 127797 B, 2564690 B.
    #[test]
    fn means_are_within_a_tenth_of_the_tables() {
        for (name, mean) in [("google-rpc", 2_928.0), ("hadoop", 127_797.0), ("web-search", 2_564_690.0)] {
            let ours = named(name).mean(Bytes::as_f64);
            assert!((ours / mean - 1.0).abs() < 0.1, "{name}: {ours}");
        }
    }

    #[test]
    fn draws_have_the_mean() {
        let (distribution, mut random) = (named("hadoop"), Random::from_seed(1));
        let drawn = (0..200_000).map(|_| distribution.draw(&mut random).as_f64()).sum::<f64>() / 200_000.0;
        let mean = distribution.mean(Bytes::as_f64);
        assert!((drawn / mean - 1.0).abs() < 0.02, "{drawn} {mean}");
    }
}
