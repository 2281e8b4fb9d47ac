//! The load of a link in the two ECN bits: VCP's three regions (VCP section III-B, Fig. 2) and their codes.
//!
//! The paper writes the region's number: `01`, `10`, `11`. But TCP with ECN sends ECT(0), which is `10`; ECT(1), `01`,
//! means "L4S" (RFC 9331); and a tunnel's end takes ECT(1) for the more severe of the two (RFC 6040 section 4.2).
//! [`LoadCodes::Ect0Low`] swaps the two for networks where that matters.

use serde::{Deserialize, Serialize};

use crate::Ecn;

/// A link's load, from the lightest to the heaviest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadRegion {
    /// Load factor below the transition point, 80%: senders increase multiplicatively.
    Low,
    /// From there to 100%: senders increase additively.
    High,
    /// 100% or more: senders decrease multiplicatively.
    Over,
}

/// The assignment of codes to regions. `11`, congestion experienced, is always overload; `00` is no region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum LoadCodes {
    /// The paper's: low is `01`, ECT(1); high is `10`, ECT(0).
    #[default]
    #[serde(rename = "ect1-low")]
    Ect1Low,
    /// Low is `10`, ECT(0), which classic ECN senders send; high is `01`, ECT(1). Tunnels preserve it.
    #[serde(rename = "ect0-low")]
    Ect0Low,
}

impl LoadCodes {
    /// The code of `region`.
    pub const fn encode(self, region: LoadRegion) -> Ecn {
        match (self, region) {
            (_, LoadRegion::Over) => Ecn::Ce,
            (Self::Ect1Low, LoadRegion::Low) | (Self::Ect0Low, LoadRegion::High) => Ecn::Ect1,
            (Self::Ect1Low, LoadRegion::High) | (Self::Ect0Low, LoadRegion::Low) => Ecn::Ect0,
        }
    }

    /// The region of `code`; `None` for a packet that carries none.
    pub fn decode(self, code: Ecn) -> Option<LoadRegion> {
        [LoadRegion::Low, LoadRegion::High, LoadRegion::Over].into_iter().find(|region| self.encode(*region) == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGIONS: [LoadRegion; 3] = [LoadRegion::Low, LoadRegion::High, LoadRegion::Over];

    #[test]
    fn codes_round_trip() {
        for codes in [LoadCodes::Ect1Low, LoadCodes::Ect0Low] {
            for region in REGIONS {
                assert_eq!(codes.decode(codes.encode(region)), Some(region));
            }
            assert_eq!(codes.decode(Ecn::NotEct), None);
        }
    }

    // Fig. 2: 80% is (01), 100% is (10), more is (11).
    #[test]
    fn the_papers_codes_are_one_two_three() {
        assert_eq!(REGIONS.map(|region| LoadCodes::Ect1Low.encode(region).bits()), [0b01, 0b10, 0b11]);
    }

    #[test]
    fn classic_ecn_is_low_load_with_swapped_codes() {
        assert_eq!(LoadCodes::Ect0Low.decode(Ecn::Ect0), Some(LoadRegion::Low));
        assert_eq!(LoadCodes::Ect0Low.encode(LoadRegion::Over), Ecn::Ce);
    }
}
