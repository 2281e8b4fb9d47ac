//! The region that a router with graded codes writes into a packet: [`vcp_plus`](crate::vcp_plus) has the model.

use rampmeter_units::LoadRegion;

/// The draw of the packet with `label`, in [0, 1).
pub(crate) fn draw(label: u64) -> f64 {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15; // its fraction, times 2^64
    (label.wrapping_mul(GOLDEN_RATIO) >> 11) as f64 / (1_u64 << 53) as f64 // all 53 bits of an f64
}

/// The region to write into a packet at a load factor of `load`. `draw` is that of the packet, in [0, 1): a
/// higher load never gives it a lower region.
pub(crate) fn region(load: f64, transition: f64, draw: f64) -> LoadRegion {
    if load < 1.0 {
        let low = (1.0 / load - 1.0) / (1.0 / transition - 1.0);
        if 1.0 - draw <= low { LoadRegion::Low } else { LoadRegion::High }
    } else if draw < 1.0 - 1.0 / load {
        LoadRegion::Over
    } else {
        LoadRegion::High
    }
}
