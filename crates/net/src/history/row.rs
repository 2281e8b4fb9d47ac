//! A row of the history file: a destination's history in the types of the database. Decoding checks every value, because
//! another program may have written the file: an invalid row gives `None`.
//!
//! The database has only signed integers. Rates beyond their range are stored as the largest one.

use rampmeter_control::History;
use rampmeter_manager::Destination;
use rampmeter_units::{Duration, Rate};

/// The columns of a row, except for the time when it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Row<'a> {
    /// Sixteen bytes.
    pub(crate) destination: &'a [u8],
    /// The base rate, the capacity and the deviation, in b/s.
    pub(crate) rates: [i64; 3],
    pub(crate) trust: f64,
    pub(crate) competing_traffic: f64,
    /// In nanoseconds.
    pub(crate) host_jitter: i64,
    /// In nanoseconds, more than zero.
    pub(crate) min_rtt: i64,
}

impl<'a> Row<'a> {
    /// The row of `history`; the caller has the bytes of the destination.
    pub(crate) fn encode(destination: &'a [u8; 16], history: &History) -> Self {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            destination,
            rates: [history.base_rate, history.capacity, history.deviation].map(|rate| signed(rate.as_bps())),
            trust: history.trust,
            competing_traffic: history.competing_traffic,
            host_jitter: signed(history.host_jitter.as_nanos()),
            min_rtt: signed(history.min_rtt.as_nanos()),
        }
    }

    pub(crate) fn decode(&self) -> Option<(Destination, History)> {
        let destination = <[u8; 16]>::try_from(self.destination).ok()?;
        let rate = |bps| u64::try_from(bps).ok().map(Rate::from_bps);
        let span = |nanos| u64::try_from(nanos).ok().map(Duration::from_nanos);
        let share = |number| Some(number).filter(|number| (0.0..=1.0).contains(number));
        let [base_rate, capacity, deviation] = self.rates;
        let history = History {
            base_rate: rate(base_rate)?,
            capacity: rate(capacity)?,
            deviation: rate(deviation)?,
            trust: share(self.trust)?,
            competing_traffic: share(self.competing_traffic)?,
            competitive_rate: Rate::ZERO, // valid for seconds only
            host_jitter: span(self.host_jitter)?,
            min_rtt: span(self.min_rtt).filter(|rtt| *rtt > Duration::ZERO)?,
        };
        Some((Destination(u128::from_be_bytes(destination)), history))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: Row<'static> = Row {
        destination: &[7; 16],
        rates: [10, i64::MAX, 0],
        trust: 0.5,
        competing_traffic: 1.0,
        host_jitter: 0,
        min_rtt: 1,
    };

    #[test]
    fn a_valid_row_is_encoded_as_it_was() {
        let (destination, history) = VALID.decode().unwrap();
        assert_eq!(Row::encode(&destination.0.to_be_bytes(), &history), VALID);
    }

    #[test]
    fn a_row_with_any_invalid_value_is_not_decoded() {
        for row in [
            Row { destination: &[7; 15], ..VALID },
            Row { rates: [-1, 0, 0], ..VALID },
            Row { rates: [0, -1, 0], ..VALID },
            Row { rates: [0, 0, i64::MIN], ..VALID },
            Row { trust: 1.5, ..VALID },
            Row { trust: f64::NAN, ..VALID },
            Row { competing_traffic: -0.1, ..VALID },
            Row { host_jitter: -1, ..VALID },
            Row { min_rtt: 0, ..VALID },
            Row { min_rtt: -1, ..VALID },
        ] {
            assert_eq!(row.decode(), None, "{row:?}");
        }
    }
}
