//! Loss recovery of the sending half: what is lost, by position, by time or by the retransmission timer, and when one
//! reaction to it ends (RFC 5681, 6582, 6675, 8985).

use rampmeter_control::LossKind;
use rampmeter_manager::UpdateLoss;
use rampmeter_units::{Duration, Time};

use super::{PacketFeedback, Resumed, Sender};
use crate::config::Recovery;
use crate::scoreboard::{Change, DUP_THRESHOLD};

impl Sender {
    /// Detects losses by time, and sets the timer for the next one.
    fn find_late(&mut self, now: Time, change: &mut Change) {
        self.late_timer = Time::MAX;
        if let Some(deadline) = self.scoreboard.rack.deadline(&self.rtt) {
            self.late_timer = self.scoreboard.detect_late(now, &deadline, self.detect_lost_retransmissions, change);
        }
    }

    pub(super) fn find_losses(
        &mut self,
        arrived_at: Time,
        advanced: bool,
        duplicate: bool,
        feedback: &mut PacketFeedback,
    ) {
        let was_recovering = self.recover.is_some();
        let change = &mut feedback.change;
        if advanced {
            self.duplicates = 0;
        }
        match self.recovery {
            Recovery::Sack => {
                let reordered = self.scoreboard.rack.has_seen_reordering();
                if !reordered {
                    self.scoreboard.detect_losses(self.detect_lost_retransmissions, change);
                }
                if reordered || self.tail_probe.is_enabled() || self.scoreboard.proofs.has_pending() {
                    self.find_late(arrived_at, change);
                }
            }
            Recovery::Reno | Recovery::NewReno => {
                if duplicate && self.expected_duplicates > 0 {
                    self.expected_duplicates -= 1;
                } else if duplicate {
                    self.duplicates += 1;
                    self.scoreboard.credit_one(change);
                    let may_recover = self.una >= self.no_recovery_before || self.recovery == Recovery::Reno;
                    if self.duplicates == DUP_THRESHOLD && !was_recovering && may_recover {
                        self.scoreboard.mark_first_lost(change);
                    }
                }
                let partial = advanced && self.recover.is_some_and(|recover| self.una < recover);
                if partial && self.recovery == Recovery::NewReno {
                    self.scoreboard.mark_first_lost(change); // RFC 6582 section 3.2, step 3
                }
            }
        }
        let is_complete = self.recover.is_some_and(|recover| self.una >= recover);
        if is_complete || (advanced && self.recovery == Recovery::Reno) {
            self.recover = None;
            self.scoreboard.rack.on_recovered();
        }
        self.on_losses(was_recovering, feedback);
    }

    /// Whether losses are detected by time (RFC 8985), and a lost retransmission is a second sign of congestion.
    /// *Deviation*: TCP that only counts later packets (RFC 6675) has one reaction, as in the papers that measured it.
    fn reacts_to_lost_retransmissions(&self) -> bool {
        self.recovery == Recovery::Sack && (self.scoreboard.rack.has_seen_reordering() || self.tail_probe.is_enabled())
    }

    /// Decides whether the last timeouts were spurious: the first packet that arrives after them was sent before the
    /// first of them (the Eifel algorithm, RFC 3522, with receipts in place of timestamps). Then the path became longer, or
    /// was blocked, and nothing is known to be lost. Packets that were not sent again are in flight, the reaction of the
    /// controller is to be undone, and the next round trip sets the timer (RFC 4015 section 3).
    pub(super) fn find_spurious_timeout(&mut self, feedback: &mut PacketFeedback) {
        let change = &mut feedback.change;
        let Some((order, is_timed_out)) = change.first_reported else { return };
        let Some(before) = self.timed_out_before.take() else { return };
        if !is_timed_out || order >= before {
            self.scoreboard.confirm_timeout();
            return;
        }
        self.spurious += self.scoreboard.restore_timed_out(change);
        self.resumed = Some(Resumed { order: self.scoreboard.next_order, rtt: Duration::ZERO });
        self.expected_duplicates = self.scoreboard.next_order - before;
        (self.timeouts, self.no_recovery_before) = (0, self.una);
        // RFC 5682 section 2.1, step 2b, sends two packets: three show by their receipts which of the earlier ones are lost.
        self.extra = DUP_THRESHOLD;
        (feedback.is_undone, feedback.is_urgent) = (true, true);
    }

    /// Starts or continues a recovery if packets are lost.
    fn on_losses(&mut self, was_recovering: bool, feedback: &mut PacketFeedback) {
        let change = &feedback.change;
        if let Some(number) = change.lost_number {
            // The loss of a retransmission that was sent after the reaction is a second sign of congestion (RFC 5681
            // section 4.3). Slow start may have doubled the window when its first loss is detected: 0.7 of it still
            // overflows the queue, and a window that stays so large loses as many packets in every round trip.
            let is_second = self.reacts_to_lost_retransmissions()
                && change.lost_retransmission.is_some_and(|order| order >= self.reacted);
            feedback.loss = Some(UpdateLoss {
                kind: LossKind::Transient,
                number,
                recovering: was_recovering && self.recover.is_some() && !is_second,
                repeated_timeout: false,
            });
            let losses = change.lost_packets;
            self.lost += u64::from(losses);
            self.undoable = match self.recover {
                None => Some(losses),
                Some(_) if is_second => None,
                Some(_) => self.undoable.map(|n| n + losses),
            };
            if self.recover.is_none() || is_second {
                self.reacted = self.scoreboard.next_order;
                self.scoreboard.episode = change.first_loss.unwrap_or(self.scoreboard.episode);
            }
            if self.recover.is_none() {
                self.recover = Some(self.next);
                self.no_recovery_before = self.next;
                feedback.is_urgent = true;
            } else if self.recovery == Recovery::NewReno {
                feedback.is_urgent = true;
            }
        }
        feedback.recovering = self.recover.is_some();
    }

    /// The time at which [`Sender::on_timer`] must be called.
    pub(crate) fn deadline(&self) -> Time {
        self.timer.min(self.late_timer).min(self.tail_probe.at)
    }

    /// The timers other than that of retransmissions.
    pub(crate) fn on_late_timers(&mut self, now: Time) -> Option<PacketFeedback> {
        if self.tail_probe.at <= now {
            self.tail_probe.on_timer();
            self.timer = now + self.timeout();
        }
        if self.late_timer > now {
            return None;
        }
        let mut feedback = PacketFeedback {
            flight_size: self.scoreboard.flight_size(self.una, self.next),
            ..PacketFeedback::default()
        };
        self.find_late(now, &mut feedback.change);
        self.on_losses(self.recover.is_some(), &mut feedback);
        Some(feedback)
    }

    /// The retransmission timer has expired. Returns true if packets are lost, false if only the peer's window has to be
    /// probed.
    pub(crate) fn on_timer(&mut self, now: Time) -> (PacketFeedback, bool) {
        let mut feedback = PacketFeedback {
            flight_size: self.scoreboard.flight_size(self.una, self.next),
            ..PacketFeedback::default()
        };
        let repeated_timeout = self.timeouts > 0;
        self.timeouts += 1;
        self.backoff += 1;
        self.timer = now + self.timeout();
        if !self.has_in_flight() {
            if !self.is_blocked() {
                self.timer = Time::MAX;
            }
            return (feedback, false);
        }
        self.timed_out_before = self.timed_out_before.filter(|_| repeated_timeout);
        self.scoreboard.mark_all_lost(self.timed_out_before.is_none(), &mut feedback.change);
        self.timed_out_before.get_or_insert(self.scoreboard.next_order);
        self.lost += u64::from(feedback.change.lost_packets);
        self.tail_probe.cancel();
        (self.late_timer, self.undoable) = (Time::MAX, None);
        self.recover = None;
        self.no_recovery_before = self.next;
        (self.duplicates, self.expected_duplicates, self.extra) = (0, 0, 0);
        feedback.loss = feedback.change.lost_number.map(|number| UpdateLoss {
            kind: LossKind::Persistent,
            number,
            recovering: false,
            repeated_timeout,
        });
        (feedback, true)
    }
}
