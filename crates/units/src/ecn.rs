//! The two ECN bits of the IP header (RFC 3168 section 5).

/// An ECN code. Its meaning depends on the scheme: VCP reads load regions where TCP reads capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// 00: the sender does not use ECN.
    #[default]
    NotEct = 0b00,
    /// 01: ECN-capable, code point 1 (L4S; VCP's "low load").
    Ect1 = 0b01,
    /// 10: ECN-capable, code point 0 (classic TCP).
    Ect0 = 0b10,
    /// 11: congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// The code in the low two bits of `bits`; the others are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Its name in RFC 3168.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotEct => "Not-ECT",
            Self::Ect1 => "ECT(1)",
            Self::Ect0 => "ECT(0)",
            Self::Ce => "CE",
        }
    }

    /// Whether a router may mark this packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}
