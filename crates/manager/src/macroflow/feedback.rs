//! How a macroflow handles feedback: it updates its bytes in flight and calls its controller.

use rampmeter_control::{Ack, Controller, Loss, LossKind, MarkCount, Notice};
use rampmeter_units::{Bytes, Ecn, Time};
use rampmeter_wire::RouterFeedback;

use super::Macroflow;
use crate::feedback::{LossMode, Report, Update};

impl<C: Controller> Macroflow<C> {
    /// Handles the feedback of a transport, packet by packet.
    pub(crate) fn update(&mut self, now: Time, update: &Update<'_>) {
        if let Some(rtt) = update.rtt {
            self.rtt.sample(rtt);
            self.probes = 0; // not without a round trip: it may be longer than the timeout (RFC 6298 section 5)
        }
        self.in_flight = self.in_flight.saturating_sub(update.arrived_in_flight + update.lost);
        self.totals.delivered += update.delivered;
        self.totals.lost += update.lost;
        self.totals.marked += update.arrivals.iter().filter(|arrival| arrival.ecn == Ecn::Ce).count() as u64;
        if update.delivered > Bytes::ZERO {
            self.on_feedback(now);
            if self.rate_cap.has_reports() {
                self.rate_cap.add(now, update.delivered, self.smoothed_rtt());
            }
        }
        if !self.started {
            return; // the controller has not started
        }
        if let Some(loss) = &update.loss {
            let is_timeout = loss.kind == LossKind::Persistent;
            let loss = Loss {
                kind: self.kind_of(loss.kind, loss.number),
                bytes: update.lost,
                flight_size: update.flight_size,
                number: loss.number,
                last_sent: self.last_sent(),
                recovering: loss.recovering,
                repeated_timeout: loss.repeated_timeout,
            };
            self.first_windows.on_loss();
            self.controller.on_loss(now, &loss);
            if is_timeout {
                self.resume_update(now, update);
                return;
            }
        }
        let &Update { delivered, rtt, arrivals, feedback, recovering, .. } = update;
        let ack = Ack { delivered, rtt, arrivals, feedback, recovering, ..self.ack(now, update.flight_size) };
        // What routers wrote into the packets is one sum or one answer.
        if update.is_combined && feedback == RouterFeedback::None {
            self.on_combined_ack(now, &ack, update.arrived_in_flight);
        } else {
            self.controller.on_ack(now, &ack);
        }
        self.resume_update(now, update);
    }

    /// Each flow has a timer of its own, but the timeouts of many flows in one outage are one persistent congestion. The
    /// first of them is reported as that; others only if their packets were sent since, and else as single losses.
    fn kind_of(&mut self, kind: LossKind, number: u64) -> LossKind {
        if kind != LossKind::Persistent {
            return kind;
        }
        if self.timed_out_up_to.is_some_and(|last| number <= last) {
            return LossKind::Transient;
        }
        self.timed_out_up_to = Some(self.last_sent());
        self.probes += 1;
        kind
    }

    /// The controller receives an acknowledgement for each packet, as if no others had been combined with it. So many
    /// bytes of them were in flight.
    fn on_combined_ack(&mut self, now: Time, combined: &Ack<'_>, in_flight: Bytes) {
        let arrived_at = combined.arrived_at(now);
        let mut rest = *combined;
        while let [arrival, _, ..] = rest.arrivals {
            let delivered = arrival.bytes.min(rest.delivered);
            let left = rest.delivered - delivered;
            self.controller.on_ack(
                now,
                &Ack {
                    delivered,
                    in_flight: combined.in_flight + left.min(in_flight),
                    rtt: combined.rtt.map(|_| arrived_at.since(arrival.sent_at)),
                    arrivals: &rest.arrivals[..1],
                    ..rest
                },
            );
            let flight_size = rest.flight_size.saturating_sub(delivered);
            rest = Ack { delivered: left, arrivals: &rest.arrivals[1..], flight_size, ..rest };
        }
        self.controller.on_ack(now, &rest);
    }

    /// An acknowledgement of nothing, with the state of the macroflow.
    fn ack<'a>(&self, now: Time, flight_size: Bytes) -> Ack<'a> {
        let smoothed_rtt = self.smoothed_rtt();
        Ack {
            delivered: Bytes::ZERO,
            in_flight: self.in_flight,
            rtt: None,
            smoothed_rtt,
            min_rtt: self.rtt.min().min(smoothed_rtt),
            arrivals: &[],
            mark_count: None,
            feedback: RouterFeedback::None,
            flight_size,
            last_sent: self.last_sent(),
            recovering: false,
            app_limited: self.is_app_limited(now),
            nothing_to_send: self.app_limited,
        }
    }

    /// Handles feedback without packet numbers. The controller receives one acknowledgement per full packet; the
    /// remainder is added to the next report. So the window grows as with acknowledgements of packets, and no faster
    /// where packets are small. Returns whether the rate begins to age.
    pub(crate) fn report(&mut self, now: Time, report: &Report) -> bool {
        if let Some(rtt) = report.rtt {
            self.rtt.sample(rtt);
        }
        self.stop_resume();
        let used = self.in_flight;
        self.in_flight = self.in_flight.saturating_sub(report.received + report.lost);
        self.totals.delivered += report.received;
        self.totals.lost += report.lost;
        self.totals.marked += u64::from(report.mode == Some(LossMode::Ecn));
        if report.received > Bytes::ZERO {
            let due = self.smoothed_rtt() + self.smoothed_rtt() / 2;
            let late = report.sent_by.is_some_and(|sent_by| now.since(sent_by) >= due);
            self.was_late = late && self.aging.is_some() || self.was_late && self.last_feedback_at == now;
            self.on_feedback(now);
            self.probes = 0;
        }
        let smoothed_rtt = self.smoothed_rtt();
        let last_sent = self.last_sent();
        let ack = Ack { mark_count: Some(MarkCount { marks: 0, number: last_sent }), ..self.ack(now, used) };
        if let Some(mode) = report.mode {
            let sent_by =
                report.sent_by.unwrap_or(Time::from_nanos(now.as_nanos().saturating_sub(smoothed_rtt.as_nanos())));
            // Without send times the report may refer to any packet sent.
            let number = self
                .send_times
                .as_ref()
                .map_or(Some(last_sent), |send_times| send_times.at(sent_by))
                .unwrap_or_default();
            if let Some(kind) = mode.loss() {
                let (bytes, flight_size, repeated_timeout) = (report.lost, used, report.repeated_timeout);
                let loss = Loss { kind, bytes, flight_size, number, last_sent, recovering: false, repeated_timeout };
                self.first_windows.on_loss();
                self.controller.on_loss(now, &loss);
            } else {
                self.controller.on_ack(now, &Ack { mark_count: Some(MarkCount { marks: 1, number }), ..ack });
            }
        }
        self.send_times.get_or_insert_default();
        self.rate_cap.add(now, report.received, smoothed_rtt);
        // RFC 7661's rule for application-limited flows: a window may grow if half of it is used.
        let window = self.controller.window();
        let app_limited = used * 2 < window || self.rate_cap.cap().bytes_in(smoothed_rtt) < window;
        let full = self.packet.max(Bytes::new(1));
        let received = if report.mode == Some(LossMode::Persistent) { Bytes::ZERO } else { report.received };
        self.received_part += received;
        let mut rtt = report.rtt;
        // At least one acknowledgement, even of zero bytes: it reports the round trip.
        let mut more = received > Bytes::ZERO;
        while more {
            let delivered = if self.received_part < full { Bytes::ZERO } else { full };
            self.received_part -= delivered;
            more = self.received_part >= full;
            let recovering = report.lost > Bytes::ZERO;
            self.controller.on_ack(
                now,
                &Ack { delivered, rtt: rtt.take(), recovering, app_limited, nothing_to_send: app_limited, ..ack },
            );
        }
        report.mode == Some(LossMode::Persistent) && report.received == Bytes::ZERO && self.on_feedback_timeout(now)
    }

    /// Removes `bytes` from the bytes in flight because their outcome is unknown.
    pub(crate) fn discard(&mut self, now: Time, bytes: Bytes) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if bytes > Bytes::ZERO {
            self.controller.on_notice(now, Notice::Discarded);
        }
    }

    /// Adds `bytes` to the bytes in flight: they were removed, or their flow comes from another macroflow.
    pub(crate) fn restore(&mut self, bytes: Bytes) {
        self.in_flight += bytes;
    }

    /// Returns the charge for `bytes` that `flow` did not send, in the window, in pacing and in the schedule.
    pub(crate) fn return_unsent(&mut self, now: Time, flow: u32, bytes: Bytes) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.controller.on_notice(now, Notice::Unsent(bytes));
        self.scheduler.sent(flow, bytes, Bytes::ZERO);
    }
}
