//! Exponential marking: routers encode a price as the marking probability `1 - phi^-price`.
//!
//! A packet that passes several routers stays unmarked with probability `phi^-price_1 phi^-price_2 ... = phi^-(sum of
//! prices)`, so a sender can read the price of its whole path from the fraction of marked packets (Athuraliya, Li, Low,
//! Yin, "REM: active queue management", IEEE Network 15(3), 2001, "Sum prices").

use crate::check_range;

/// Converts prices into marking probabilities.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExponentialMarking {
    ln_phi: f64,
}

impl ExponentialMarking {
    /// Marking with base `phi`, above 1.
    pub(crate) fn new(phi: f64) -> Self {
        Self { ln_phi: libm::log(phi) }
    }

    /// The probability that a packet is marked at this price, 0 or more.
    pub(crate) fn probability(self, price: f64) -> f64 {
        -libm::expm1(-price * self.ln_phi) // 1 - phi^-price
    }

    /// Refuses an invalid base.
    pub(crate) fn check(phi: f64, recommended: &str) -> Result<(), String> {
        check_range("phi", phi, 1.000_000_1..=1e9, &format!("as a base; {recommended} is usual"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_of_a_path_add_up() {
        let marking = ExponentialMarking::new(1.1);
        assert_eq!(marking.probability(0.0), 0.0);
        assert!((marking.probability(1.0) - (1.0 - 1.0 / 1.1)).abs() < 1e-12);
        let unmarked = |price| 1.0 - marking.probability(price);
        assert!((unmarked(3.0) * unmarked(4.5) - unmarked(7.5)).abs() < 1e-12);
        assert_eq!(marking.probability(1e9), 1.0);
    }
}
