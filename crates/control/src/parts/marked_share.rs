//! The share of marked bytes as DCTCP and Prague estimate it: a moving average over windows of data (RFC 8257, section
//! 3.3).
//!
//! ```text
//! M      =  marked bytes / delivered bytes               in one window of data                       steps 2 to 5
//! alpha  =  alpha (1 - g) + g M                          when a packet sent after it is reported     steps 6 to 8
//! ```

use rampmeter_units::{Bytes, Duration, Ecn, Time};

use crate::Ack;

/// The moving average, and the counts of the current window.
#[derive(Debug, Clone)]
pub(crate) struct MarkedShare {
    gain: f64,
    /// The average, 0 to 1.
    alpha: f64,
    delivered: Bytes,
    marked: Bytes,
    /// The last packet of the current window (`WindowEnd`); `None` before the first report.
    end: Option<u64>,
    began: Time,
}

/// What an acknowledgement says about marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reported {
    /// Bytes that arrived.
    pub(crate) delivered: Bytes,
    /// Bytes of these that arrived with a mark.
    pub(crate) marked: Bytes,
}

impl Reported {
    /// From the code of each packet, or, where feedback counts marks, from their number and the size of packets.
    pub(crate) fn of(ack: &Ack<'_>, packet: Bytes) -> Self {
        if let Some(count) = ack.mark_count {
            let marked = Bytes::new(packet.as_u64().saturating_mul(count.marks));
            return Self { delivered: ack.delivered, marked: marked.min(ack.delivered) };
        }
        let sum = |is_meant: fn(Ecn) -> bool| {
            ack.arrivals.iter().filter(|arrival| is_meant(arrival.ecn)).map(|arrival| arrival.bytes).sum()
        };
        Self { delivered: sum(|_| true), marked: sum(|ecn| ecn == Ecn::Ce) }
    }

    /// The share of bytes that arrived without a mark, 1 if it reports none.
    pub(crate) fn unmarked_share(self) -> f64 {
        1.0 - self.marked.as_f64() / self.delivered.max(Bytes::new(1)).as_f64()
    }
}

impl MarkedShare {
    /// An average that starts at `alpha`.
    pub(crate) fn new(alpha: f64, gain: f64) -> Self {
        Self { gain, alpha, delivered: Bytes::ZERO, marked: Bytes::ZERO, end: None, began: Time::ZERO }
    }

    pub(crate) fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Counts an acknowledgement. A window of data takes at least `min_span`.
    pub(crate) fn on_ack(&mut self, now: Time, ack: &Ack<'_>, reported: Reported, min_span: Duration) {
        self.delivered += reported.delivered;
        self.marked += reported.marked;
        let newest = match ack.mark_count {
            None => ack.arrivals.iter().map(|arrival| arrival.number).max(),
            Some(count) => Some(count.number),
        };
        let Some(newest) = newest else { return };
        if self.end.is_some_and(|end| newest <= end || now.since(self.began) < min_span) {
            return;
        }
        if self.delivered > Bytes::ZERO && self.end.is_some() {
            let share = self.marked.as_f64() / self.delivered.as_f64();
            self.alpha += self.gain * (share - self.alpha);
        }
        (self.delivered, self.marked) = (Bytes::ZERO, Bytes::ZERO);
        (self.end, self.began) = (Some(ack.last_sent), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PACKET, RTT, ack, arrived};
    use crate::{Arrival, MarkCount};

    /// Reports the packets of one window of ten packets, `marks` of which are marked, and those after it are in flight.
    fn window(share: &mut MarkedShare, now: Time, first: u64, marks: u64, min_span: Duration) {
        for number in first..first + 10 {
            let ecn = if number < first + marks { Ecn::Ce } else { Ecn::Ect1 };
            let arrivals = [Arrival { number, bytes: PACKET, ecn, ..Arrival::default() }];
            let ack = Ack { last_sent: number + 9, ..arrived(&arrivals, RTT) };
            share.on_ack(now, &ack, Reported::of(&ack, PACKET), min_span);
        }
    }

    #[test]
    fn alpha_moves_by_the_gain_once_a_window() {
        let mut share = MarkedShare::new(1.0, 1.0 / 16.0);
        let mut expected = 1.0;
        window(&mut share, Time::ZERO, 0, 0, Duration::ZERO);
        for n in 1..100 {
            window(&mut share, Time::ZERO, 10 * n, 3, Duration::ZERO);
            // The first packet of a window ends the one before: it had three marks, or none and this one.
            expected += (if n == 1 { 0.1 } else { 0.3 } - expected) / 16.0;
            assert!((share.alpha() - expected).abs() < 1e-9, "{n}: {} {expected}", share.alpha());
        }
    }

    #[test]
    fn a_window_lasts_at_least_the_given_span() {
        let span = Duration::from_millis(25);
        let mut share = MarkedShare::new(1.0, 0.5);
        let at = |n: u64| Time::ZERO + Duration::from_millis(10 * n);
        let alphas: Vec<_> = (0..7)
            .map(|n| {
                window(&mut share, at(n), 10 * n, 0, span);
                share.alpha()
            })
            .collect();
        assert_eq!(alphas, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25]);
    }

    #[test]
    fn counted_marks_are_full_packets_and_at_most_all() {
        for (marks, marked) in [(0, 0), (2, 2), (9, 4)] {
            let ack = Ack { mark_count: Some(MarkCount { marks, number: 7 }), ..ack(4) };
            assert_eq!(Reported::of(&ack, PACKET), Reported { delivered: PACKET * 4, marked: PACKET * marked });
        }
    }
}
