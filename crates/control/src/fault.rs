//! Values that are errors in a controller, and would stop its flow without any message.
//!
//! Outputs are whole numbers. A calculation whose result is NaN becomes zero on the way to them (`as u64`,
//! [`Rate::from_bps_f64`]), and so does a division that is not checked.

use std::fmt;

use rampmeter_units::{Bytes, Rate};

use crate::Controller;

/// A wrong value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The window is smaller than one packet.
    Window {
        /// What the controller returned.
        window: Bytes,
        /// The size of a packet.
        packet: Bytes,
    },
    /// The rate is zero.
    Rate,
}

impl Fault {
    /// What is wrong with the values of `controller`, where packets have `packet` bytes. Call it after an acknowledgement
    /// that leaves nothing in flight: with a wrong value at most one packet is in flight, so soon one does.
    #[inline]
    pub fn of(controller: &impl Controller, packet: Bytes) -> Option<Self> {
        let window = controller.window();
        if window < packet {
            return Some(Self::Window { window, packet });
        }
        (controller.rate() == Some(Rate::ZERO)).then_some(Self::Rate)
    }

    /// In words, without numbers.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Window { .. } => "an error in the controller: it returned a window smaller than one packet",
            Self::Rate => "an error in the controller: it returned a rate of zero",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window { window, packet } => write!(
                f,
                "returned a window of {window}, and packets have {packet}; a window of NaN becomes 0 B; return at least \
                 one packet"
            ),
            Self::Rate => f.write_str(
                "returned a rate of 0 b/s; a rate of NaN becomes 0 b/s; return at least one packet per minute, or None \
                 where only the window limits sending",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Time;

    use super::*;
    use crate::testing::PACKET;
    use crate::{Ack, Departure, Loss, Path, Sent};

    #[derive(Debug)]
    struct Fixed(f64, Option<f64>);

    impl Controller for Fixed {
        fn on_path(&mut self, _: Time, _: &Path) {}
        fn on_sent(&mut self, _: Time, _: &Sent) {}
        fn on_ack(&mut self, _: Time, _: &Ack<'_>) {}
        fn on_loss(&mut self, _: Time, _: &Loss) {}
        fn window(&self) -> Bytes {
            Bytes::new(self.0 as u64)
        }
        fn departure(&self) -> Departure {
            unreachable!()
        }
        fn rate(&self) -> Option<Rate> {
            self.1.map(Rate::from_bps_f64)
        }
    }

    #[test]
    fn nan_and_windows_below_a_packet_are_faults() {
        let packet = PACKET.as_f64();
        let fault = |window: f64, rate: Option<f64>| Fault::of(&Fixed(window, rate), PACKET);
        assert_eq!(fault(packet, None), None);
        assert_eq!(fault(f64::INFINITY, Some(1.0)), None);
        assert_eq!(fault(packet - 1.0, None), Some(Fault::Window { window: PACKET - Bytes::new(1), packet: PACKET }));
        assert_eq!(fault(f64::NAN, Some(1.0)), Some(Fault::Window { window: Bytes::ZERO, packet: PACKET }));
        assert_eq!(fault(packet, Some(f64::NAN)), Some(Fault::Rate));
        assert!(fault(0.0, None).unwrap().to_string().contains("return at least one packet"));
    }
}
