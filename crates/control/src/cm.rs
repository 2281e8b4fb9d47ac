//! The Congestion Manager's own congestion control (`congestion-manager.md`, section 4.1): TCP's window, shaped by a rate.
//!
//! ```text
//! window    slow start, additive increase and halving as TCP NewReno's            (`newreno`)
//! rate      window / srtt: packets leave so far apart, never in bursts
//! ```
//!
//! A loss or a mark halves the window once for all that was sent before, whichever flow of the macroflow tells. A flow that
//! finds that nothing comes back (`PERSISTENT`) brings it down to one packet. All flows together grow as one TCP does.
//!
//! Where the paper is silent: *state kept for later flows* is the rate that a macroflow had last. The next one begins with
//! the window that this is over its round trip, in congestion avoidance: spaced, it is no burst. Its first round trip may
//! have met a queue or a host that slept, so one longer than the least that is remembered counts as that.
//!
//! *Packets nobody asked for*, those of flows that send by their own clock, delay others by a window's time at most, and by
//! two packets' once their flow is gone.
//!
//! While feedback is absent the macroflow ages the rate, whichever controller it has (section 4.4).

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};
use serde::{Deserialize, Serialize};

use crate::check::check_first_window;
use crate::newreno::{self, NewReno};
use crate::pacer::Pacer;
use crate::{Ack, Algorithm, Controller, Departure, History, Loss, LossKind, Path, Sent, Settings};

/// Tunables of the Congestion Manager's controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets, where nothing is remembered; the paper says "slow start".
    pub initial_window: u64,
    /// Space packets at the rate `window / srtt` (section 4.1); false leaves the window alone to decide, as in TCP.
    pub shape: bool,
    /// Begin with the rate that the last macroflow to the destination had.
    pub share_state: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { initial_window: 2, shape: true, share_state: true }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        Ok(())
    }
}

/// How many packets' time is left of the wait for what was sent, once that is nobody's any more.
const WAITED_FOR: u64 = 2;

/// The Congestion Manager's controller.
#[derive(Debug, Clone)]
pub struct Cm {
    config: Config,
    tcp: NewReno,
    smoothed_rtt: Duration,
    min_rtt: Duration,
    pacer: Pacer,
}

impl Algorithm for Cm {
    type Config = Config;

    fn new(config: &Config, random: Stream) -> Self {
        let tcp = newreno::Config { initial_window: config.initial_window, ..newreno::Config::default() };
        Self {
            config: config.clone(),
            tcp: NewReno::new(&tcp, random),
            smoothed_rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            pacer: Pacer::default(),
        }
    }
}

impl Cm {
    /// What the window comes to over a round trip.
    fn shaped(&self) -> Rate {
        Rate::of(self.tcp.window(), self.smoothed_rtt)
    }
}

impl Controller for Cm {
    fn on_path(&mut self, now: Time, path: &Path) {
        (self.smoothed_rtt, self.min_rtt) = (path.rtt, path.rtt);
        self.tcp.on_path(now, path);
        if let Some(past) = path.history.filter(|_| self.config.share_state) {
            // A first round trip may have met a queue, or a host that slept: the path holds no more for it.
            self.tcp.resume(past.base_rate.bytes_in(path.rtt.min(past.min_rtt)));
        }
        self.pacer.reset(now);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        if self.config.shape {
            let rate = self.shaped();
            self.pacer.sent(now, sent.bytes, rate);
            // Of what flows send unasked others wait for a window at most.
            self.pacer.bound(now + rate.time_to_send(self.tcp.window()));
        }
    }

    fn on_unsent(&mut self, _now: Time, bytes: Bytes) {
        self.pacer.give_back(bytes, self.shaped());
    }

    fn on_discarded(&mut self, now: Time) {
        self.pacer.bound(now + self.shaped().time_to_send(self.tcp.departure().bytes) * WAITED_FOR);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        (self.smoothed_rtt, self.min_rtt) = (ack.smoothed_rtt, ack.min_rtt);
        // One flow's bytes in flight, and its repairs, say nothing of the others.
        self.tcp.on_marks(now, &Ack { flight_size: Bytes::MAX, recovering: false, ..*ack });
        self.tcp.grow(now, ack);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let flight_size = if loss.kind == LossKind::Persistent { loss.flight_size } else { Bytes::MAX };
        self.tcp.on_loss(now, &Loss { flight_size, recovering: false, ..*loss });
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.tcp.on_spurious_loss(now);
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        self.tcp.on_idle(now, idle, timeout);
        self.pacer.reset(now);
    }

    fn window(&self) -> Bytes {
        self.tcp.window()
    }

    fn departure(&self) -> Departure {
        Departure { at: self.pacer.next(), ..self.tcp.departure() }
    }

    fn rate(&self) -> Option<Rate> {
        self.config.shape.then(|| self.shaped())
    }

    fn remember(&self, _now: Time, history: &mut Option<History>) {
        let base_rate = self.shaped();
        if base_rate == Rate::ZERO {
            return;
        }
        let past = history.get_or_insert(History::new(base_rate, self.min_rtt));
        (past.base_rate, past.min_rtt) = (base_rate, past.min_rtt.min(self.min_rtt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, PACKET, RTT, ack, mark};

    fn started(history: Option<History>) -> Cm {
        let mut cm = Cm::new(&Config { initial_window: 4, ..Config::default() }, Stream::from_seed(1));
        cm.on_path(Time::ZERO, &Path::new(PACKET, RTT, history));
        cm
    }

    fn loss(number: u64, last_sent: u64) -> Loss {
        testing::loss(LossKind::Transient, number, last_sent)
    }

    #[test]
    fn packets_leave_a_round_trip_over_the_window_apart() {
        let mut cm = started(None);
        cm.on_sent(Time::ZERO, &Sent { number: 0, bytes: PACKET, in_flight: PACKET });
        assert_eq!(cm.departure().at, Time::ZERO + RTT / 4);
        cm.on_ack(Time::ZERO, &ack(1));
        assert_eq!((cm.window(), cm.rate()), (PACKET * 5, Some(Rate::of(PACKET * 5, RTT))));
    }

    #[test]
    fn what_was_sent_unasked_delays_others_by_a_window_at_most() {
        let mut cm = started(None);
        cm.on_sent(Time::ZERO, &Sent { number: 0, bytes: PACKET * 1_000_000, in_flight: PACKET * 1_000_000 });
        assert_eq!(cm.departure().at, Time::ZERO + RTT);
        cm.on_discarded(Time::ZERO);
        assert_eq!(cm.departure().at, Time::ZERO + RTT / 2, "two packets of four");
    }

    #[test]
    fn all_losses_of_what_was_sent_before_halve_the_window_once() {
        let mut cm = started(None);
        (0..12).for_each(|_| cm.on_ack(Time::ZERO, &ack(1)));
        cm.on_loss(Time::ZERO, &loss(3, 20));
        cm.on_loss(Time::ZERO, &loss(20, 24));
        assert_eq!(cm.window(), PACKET * 8);
        cm.on_loss(Time::ZERO, &loss(21, 30));
        assert_eq!(cm.window(), PACKET * 4);
    }

    #[test]
    fn a_loss_that_did_not_happen_is_undone() {
        let mut cm = started(None);
        (0..12).for_each(|_| cm.on_ack(Time::ZERO, &ack(1)));
        cm.on_loss(Time::ZERO, &loss(3, 20));
        cm.on_spurious_loss(Time::ZERO);
        assert_eq!(cm.window(), PACKET * 16);
        cm.on_spurious_loss(Time::ZERO);
        assert_eq!(cm.window(), PACKET * 16, "once");
        cm.on_ack(Time::ZERO, &mark(100, 120));
        cm.on_spurious_loss(Time::ZERO);
        assert_eq!(cm.window(), PACKET * 8, "a mark is never a mistake");
    }

    #[test]
    fn the_next_macroflow_begins_with_the_rate_of_the_last() {
        let mut history = None;
        let mut cm = started(None);
        (0..12).for_each(|_| cm.on_ack(Time::ZERO, &ack(1)));
        cm.remember(Time::ZERO, &mut history);
        let mut next = started(history);
        assert_eq!(next.window(), PACKET * 16);
        next.on_ack(Time::ZERO, &ack(1));
        assert!(next.window() < PACKET * 17, "it knows where it is: no slow start");
        let mut slow = Cm::new(&Config::default(), Stream::from_seed(1));
        slow.on_path(Time::ZERO, &Path::new(PACKET, RTT * 10, history));
        assert_eq!(slow.window(), PACKET * 16, "a first round trip that was long makes it no larger");
    }
}
