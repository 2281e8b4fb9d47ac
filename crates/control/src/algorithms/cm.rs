//! The Congestion Manager's congestion control (`congestion-manager.md`, section 4.1): TCP's window, paced at a rate.
//!
//! ```text
//! window    slow start, additive increase and halving of TCP NewReno             (`newreno`)
//! rate      window / srtt: packets are spaced at this rate, never sent in bursts
//! ```
//!
//! A loss or a mark halves the window once for all packets sent before, whichever flow of the macroflow reports it. A
//! flow that gets no feedback at all (`PERSISTENT`) reduces it to one packet. All flows together grow as one TCP does.
//! While feedback is missing, the macroflow reduces the rate by aging, with any controller (section 4.4).
//!
//! Two points are open in the paper. *State kept for later flows* is a rate. The next macroflow starts with that rate
//! times the minimum round-trip time as its window, in congestion avoidance; because packets are spaced, it is not a
//! burst. With `W` the last window, or what the window was before the last idle time, or half of what it was before the
//! last timeout:
//!
//! ```text
//! base rate = the rate of delivery, but between W / srtt and W / min_rtt
//! ```
//!
//! `W / srtt` alone is too low after a loss: the window is halved, and the smoothed round trip is still that of the
//! full queue. The window alone is too low after a timeout: it is a packet, often for the last few packets of a
//! transfer. At 4 Mb/s a second transfer of 250 kB took 1.2 times as long as the first one, whose end was such a
//! timeout.
//!
//! *Packets without a request*, from flows that send by their own clock, delay other flows by at most one window, and
//! by at most two packets once their flow has ended.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::newreno::{self, NewReno};
use crate::parts::check::check_first_window;
use crate::parts::pacer::Pacer;
use crate::parts::slow_start::SlowStart;
use crate::{Ack, Algorithm, Controller, Departure, History, Loss, LossKind, Notice, Path, Sent, Settings};

/// Settings of the Congestion Manager's controller.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window without a history, in packets; the paper says "slow start".
    #[default(2)]
    pub initial_window: u64,
    /// How the first slow start ends.
    pub slow_start: SlowStart,
    /// Space packets at the rate `window / srtt` (section 4.1); with false only the window limits sending, as in TCP.
    #[default(true)]
    pub shape: bool,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)
    }
}

/// After packets are discarded, the next packet waits for at most this many packet times.
const MAX_DELAY_AFTER_DISCARD: u64 = 2;

/// The Congestion Manager's controller.
#[derive(Debug, Clone)]
pub struct Cm {
    config: Config,
    tcp: NewReno,
    smoothed_rtt: Duration,
    min_rtt: Duration,
    delivery: Delivery,
    /// The window for the history, where it is more than the present one.
    earlier_window: Bytes,
    pacer: Pacer,
}

/// The rate at which packets are delivered, counted over round trips. It follows a faster round trip at once and a
/// slower one by an eighth: a round trip in which a loss is repaired, or nothing is sent, is not the path's rate.
#[derive(Debug, Clone, Copy, Default)]
struct Delivery {
    /// The start of the present count.
    since: Option<Time>,
    bytes: Bytes,
    rate: Rate,
}

impl Delivery {
    fn add(&mut self, now: Time, bytes: Bytes, rtt: Duration) {
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        self.bytes += bytes;
        let span = now.since(since);
        if span >= rtt && span > Duration::ZERO {
            let sample = Rate::of(self.bytes, span);
            self.rate = sample.max(self.rate.scale(0.875) + sample.scale(0.125));
            (self.since, self.bytes) = (Some(now), Bytes::ZERO);
        }
    }
}

impl Algorithm for Cm {
    type Config = Config;

    fn new(config: &Config, random: Random) -> Self {
        let &Config { initial_window, slow_start, .. } = config;
        let tcp = newreno::Config { initial_window, slow_start, ..newreno::Config::default() };
        Self {
            config: config.clone(),
            tcp: NewReno::new(&tcp, random),
            smoothed_rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            delivery: Delivery::default(),
            earlier_window: Bytes::ZERO,
            pacer: Pacer::default(),
        }
    }
}

impl Cm {
    /// The window over a round trip.
    fn paced_rate(&self) -> Rate {
        Rate::of(self.tcp.window(), self.smoothed_rtt)
    }

    fn history_window(&self) -> Bytes {
        self.tcp.window().max(self.earlier_window)
    }

    /// The rate that a later macroflow starts with.
    fn base_rate(&self) -> Rate {
        // If nothing has arrived since a timeout, the path may carry nothing.
        let is_used = self.tcp.window() > self.tcp.departure().bytes;
        let window = if is_used { self.history_window() } else { self.tcp.window() };
        self.delivery.rate.max(Rate::of(window, self.smoothed_rtt)).min(Rate::of(window, self.min_rtt))
    }
}

impl Controller for Cm {
    fn on_path(&mut self, now: Time, path: &Path) {
        (self.smoothed_rtt, self.min_rtt) = (path.rtt, path.rtt);
        self.tcp.on_path(now, path);
        if let Some(past) = path.history {
            // A queue or a sleeping host may have delayed the first round trip, which does not increase the path's
            // capacity.
            self.tcp.window.resume(past.base_rate.bytes_in(path.rtt.min(past.min_rtt)));
        }
        self.pacer.reset(now);
    }

    fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        self.tcp.on_packet_size(now, packet);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.tcp.on_sent(now, sent);
        if self.config.shape {
            let rate = self.paced_rate();
            self.pacer.sent(now, sent.bytes, rate);
            // Packets that a flow sends without a request delay others by at most a window.
            self.pacer.bound(now + rate.time_to_send(self.tcp.window()));
        }
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Unsent(bytes) => {
                self.tcp.on_notice(now, Notice::Unsent(bytes));
                self.pacer.give_back(bytes, self.paced_rate());
            }
            Notice::Discarded => self
                .pacer
                .bound(now + self.paced_rate().time_to_send(self.tcp.departure().bytes) * MAX_DELAY_AFTER_DISCARD),
            Notice::SpuriousLoss => self.tcp.on_notice(now, Notice::SpuriousLoss),
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        (self.smoothed_rtt, self.min_rtt) = (ack.smoothed_rtt, ack.min_rtt);
        self.delivery.add(now, ack.delivered, ack.smoothed_rtt);
        // The FlightSize and the recovery state of one flow do not describe the others.
        let before = self.tcp.window();
        self.tcp.on_marks(now, &Ack { flight_size: Bytes::MAX, recovering: false, ..*ack });
        if self.tcp.window() < before {
            self.earlier_window = Bytes::ZERO;
        }
        self.tcp.grow(now, ack);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let flight_size = if loss.kind == LossKind::Persistent { loss.flight_size } else { Bytes::MAX };
        let (before, to_keep) = (self.tcp.window(), self.history_window() / 2);
        self.tcp.on_loss(now, &Loss { flight_size, recovering: false, ..*loss });
        if loss.kind == LossKind::Persistent {
            self.earlier_window = to_keep;
        } else if self.tcp.window() < before {
            self.earlier_window = Bytes::ZERO;
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        self.earlier_window = self.history_window();
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
        self.config.shape.then(|| self.paced_rate())
    }

    fn state(&self) -> &'static str {
        self.tcp.state()
    }

    fn keeps_history(&self) -> bool {
        true
    }

    fn remember(&self, _now: Time, history: &mut Option<History>) {
        let base_rate = self.base_rate();
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
        let mut cm = Cm::new(&Config { initial_window: 4, ..Config::default() }, Random::from_seed(1));
        cm.on_path(Time::ZERO, &Path::new(PACKET, RTT, history));
        cm
    }

    /// A macroflow with a window of 16 packets, in slow start.
    fn grown() -> Cm {
        let mut cm = started(None);
        (0..12).for_each(|_| cm.on_ack(Time::ZERO, &ack(1)));
        cm
    }

    fn loss(number: u64, last_sent: u64) -> Loss {
        testing::loss(LossKind::Transient, number, last_sent)
    }

    #[test]
    fn packets_are_spaced_by_a_round_trip_over_the_window() {
        let mut cm = started(None);
        cm.on_sent(Time::ZERO, &Sent { number: 0, bytes: PACKET, in_flight: PACKET });
        assert_eq!(cm.departure().at, Time::ZERO + RTT / 4);
        cm.on_ack(Time::ZERO, &ack(1));
        assert_eq!((cm.window(), cm.rate()), (PACKET * 5, Some(Rate::of(PACKET * 5, RTT))));
    }

    #[test]
    fn packets_without_a_request_delay_others_by_up_to_a_window() {
        let mut cm = started(None);
        cm.on_sent(Time::ZERO, &Sent { number: 0, bytes: PACKET * 1_000_000, in_flight: PACKET * 1_000_000 });
        assert_eq!(cm.departure().at, Time::ZERO + RTT);
        cm.on_notice(Time::ZERO, Notice::Discarded);
        assert_eq!(cm.departure().at, Time::ZERO + RTT / 2, "two packets of four");
    }

    // A flow with one packet in flight, which it retransmits, reports for a macroflow with sixteen.
    #[test]
    fn the_state_of_one_flow_does_not_change_a_halving() {
        let (mut lost, mut marked) = (grown(), grown());
        lost.on_loss(Time::ZERO, &Loss { flight_size: PACKET, recovering: true, ..loss(3, 20) });
        marked.on_ack(Time::ZERO, &Ack { flight_size: PACKET, recovering: true, ..mark(3, 20) });
        assert_eq!([lost.window(), marked.window()], [PACKET * 8; 2]);
    }

    // Section 4.1: persistent congestion forces slow start; RFC 5681 ends it at half of the bytes in flight.
    #[test]
    fn a_timeout_forces_slow_start_to_half_the_bytes_in_flight() {
        let mut cm = grown();
        let loss = Loss { flight_size: PACKET * 6, ..testing::loss(LossKind::Persistent, 3, 20) };
        cm.on_loss(Time::ZERO, &loss);
        assert_eq!(cm.window(), PACKET);
        (0..2).for_each(|_| cm.on_ack(Time::ZERO, &ack(1)));
        assert_eq!(cm.window(), PACKET * 3);
        cm.on_ack(Time::ZERO, &ack(1));
        assert_eq!(cm.window(), PACKET * 3 + PACKET / 3, "congestion avoidance");
    }

    #[test]
    fn the_next_macroflow_starts_with_the_rate_of_the_last() {
        let mut history = None;
        grown().remember(Time::ZERO, &mut history);
        let mut next = started(history);
        assert_eq!(next.window(), PACKET * 16);
        next.on_ack(Time::ZERO, &ack(1));
        assert!(next.window() < PACKET * 17, "it starts in congestion avoidance");
        let mut slow = Cm::new(&Config::default(), Random::from_seed(1));
        slow.on_path(Time::ZERO, &Path::new(PACKET, RTT * 10, history));
        assert_eq!(slow.window(), PACKET * 16, "a long first round trip does not increase the window");
    }

    /// The queue doubles the round trip when a loss halves a window of 16 packets: the path delivers 8 of them in the
    /// minimum round trip, as before.
    #[test]
    fn a_loss_over_a_full_queue_does_not_halve_the_history() {
        let mut cm = grown();
        let full = Ack { smoothed_rtt: RTT * 2, min_rtt: RTT, ..ack(1) };
        (0..=64).for_each(|n| cm.on_ack(Time::ZERO + RTT / 8 * n, &Ack { app_limited: true, ..full }));
        cm.on_loss(Time::ZERO, &loss(3, 20));
        let mut history = None;
        cm.remember(Time::ZERO, &mut history);
        assert_eq!((started(history).window(), cm.rate()), (PACKET * 8, Some(Rate::of(PACKET * 4, RTT))));
    }

    // The flow has one packet in flight: the last one of its transfer.
    #[test]
    fn a_timeout_halves_the_history_once_data_arrives_again() {
        let mut cm = grown();
        let timeout = Loss { flight_size: PACKET, ..testing::loss(LossKind::Persistent, 3, 20) };
        let base = |cm: &Cm| cm.base_rate().as_bps() / Rate::of(PACKET, RTT).as_bps();
        for packets in [8, 4] {
            cm.on_loss(Time::ZERO, &timeout);
            assert_eq!(base(&cm), 1, "nothing arrives");
            cm.on_ack(Time::ZERO, &ack(1));
            assert_eq!(base(&cm), packets);
        }
        (0..2).for_each(|_| cm.on_ack(Time::ZERO, &ack(1)));
        cm.on_loss(Time::ZERO, &loss(21, 30));
        assert_eq!((base(&cm), cm.window()), (2, PACKET * 2), "a later loss is news of the path");
    }
}
