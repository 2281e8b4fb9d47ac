//! What a macroflow makes of the news of its packets: its books, and what its controller is told.

use rampmeter_control::{Ack, Controller, Counted, Loss, LossKind};
use rampmeter_units::{Bytes, Time};
use rampmeter_wire::RouterFeedback;

use super::Macroflow;
use crate::feedback::{LossMode, Report, Update};

impl<C: Controller> Macroflow<C> {
    /// Feedback of a transport, packet by packet.
    pub(crate) fn update(&mut self, now: Time, update: &Update<'_>) {
        if let Some(rtt) = update.rtt {
            self.rtt.sample(rtt);
        }
        self.in_flight = self.in_flight.saturating_sub(update.acked + update.lost);
        if update.delivered > Bytes::ZERO {
            self.hear(now);
            if self.delivered.is_told() {
                self.delivered.add(now, update.delivered, self.smoothed_rtt());
            }
        }
        if !self.started {
            return; // a controller without a path has nothing to change
        }
        if let Some(loss) = &update.loss {
            let loss = Loss {
                kind: loss.kind,
                bytes: update.lost,
                flight_size: update.flight_size,
                number: loss.number,
                last_sent: self.last_sent(),
                recovering: loss.recovering,
                repeated: loss.repeated,
            };
            self.controller.on_loss(now, &loss);
            if loss.kind == LossKind::Persistent {
                return;
            }
        }
        let ack = Ack {
            delivered: update.delivered,
            in_flight: self.in_flight,
            rtt: update.rtt,
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            arrivals: update.arrivals,
            counted: None,
            feedback: update.feedback,
            flight_size: update.flight_size,
            last_sent: self.last_sent(),
            recovering: update.recovering,
            app_limited: self.app_limited,
        };
        self.controller.on_ack(now, &ack);
    }

    /// Feedback of one who knows no packet numbers. It stands for as many acknowledgements as there are full packets in
    /// it and in what is left of earlier ones, so that a window grows as it would by them, and no faster where packets
    /// are small. True if the rate ages from now on.
    pub(crate) fn report(&mut self, now: Time, report: &Report) -> bool {
        if let Some(rtt) = report.rtt {
            self.rtt.sample(rtt);
        }
        let used = self.in_flight;
        self.in_flight = self.in_flight.saturating_sub(report.received + report.lost);
        if report.received > Bytes::ZERO {
            let due = self.smoothed_rtt() + self.smoothed_rtt() / 2;
            let late = report.sent_by.is_some_and(|sent_by| now.since(sent_by) >= due);
            self.resumed = late && self.aging.is_some() || self.resumed && self.heard == now;
            self.hear(now);
        }
        let smoothed_rtt = self.smoothed_rtt();
        let last_sent = self.last_sent();
        let counted = Counted { marks: 0, number: last_sent };
        let ack = Ack {
            delivered: Bytes::ZERO,
            in_flight: self.in_flight,
            rtt: None,
            smoothed_rtt,
            min_rtt: self.rtt.min().min(smoothed_rtt),
            arrivals: &[],
            counted: Some(counted),
            feedback: RouterFeedback::None,
            flight_size: used,
            last_sent,
            recovering: false,
            app_limited: self.app_limited,
        };
        if let Some(mode) = report.mode {
            let sent_by =
                report.sent_by.unwrap_or(Time::from_nanos(now.as_nanos().saturating_sub(smoothed_rtt.as_nanos())));
            // Without a trail all that has left may be meant.
            let number = self.trail.as_ref().map_or(Some(last_sent), |trail| trail.at(sent_by)).unwrap_or_default();
            if let Some(kind) = mode.loss() {
                let (bytes, flight_size, repeated) = (report.lost, used, report.repeated);
                let loss = Loss { kind, bytes, flight_size, number, last_sent, recovering: false, repeated };
                self.controller.on_loss(now, &loss);
            } else {
                self.controller.on_ack(now, &Ack { counted: Some(Counted { marks: 1, number }), ..ack });
            }
        }
        self.trail.get_or_insert_default();
        self.delivered.add(now, report.received, smoothed_rtt);
        // RFC 7661's rule for those who send at times of their own: a window of which half is used may grow.
        let window = self.controller.window();
        let app_limited = used * 2 < window || self.delivered.most().bytes_in(smoothed_rtt) < window;
        let full = self.packet.max(Bytes::new(1));
        let received = if report.mode == Some(LossMode::Persistent) { Bytes::ZERO } else { report.received };
        self.fragment += received;
        let mut rtt = report.rtt;
        // One at least, if of nothing: the round trip is told.
        let mut more = received > Bytes::ZERO;
        while more {
            let delivered = if self.fragment < full { Bytes::ZERO } else { full };
            self.fragment -= delivered;
            more = self.fragment >= full;
            let recovering = report.lost > Bytes::ZERO;
            self.controller.on_ack(now, &Ack { delivered, rtt: rtt.take(), recovering, app_limited, ..ack });
        }
        report.mode == Some(LossMode::Persistent) && report.received == Bytes::ZERO && self.give_up(now)
    }

    /// `bytes` that counted as sent are not on their way any more, and nobody knows what became of them.
    pub(crate) fn forget(&mut self, now: Time, bytes: Bytes) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if bytes > Bytes::ZERO {
            self.controller.on_discarded(now);
        }
    }

    /// What was forgotten is remembered.
    pub(crate) fn recall(&mut self, bytes: Bytes) {
        self.in_flight += bytes;
    }

    /// `flow` was charged for `bytes` that it did not send: neither room nor time of the macroflow's.
    pub(crate) fn credit(&mut self, now: Time, flow: u32, bytes: Bytes) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.controller.on_unsent(now, bytes);
        self.scheduler.sent(flow, bytes, Bytes::ZERO);
    }

    /// The last reduction was for nothing: what had seemed lost had only been overtaken.
    pub(crate) fn undo(&mut self, now: Time) {
        self.controller.on_spurious_loss(now);
    }
}
