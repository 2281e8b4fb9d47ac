//! XCP's sender: every packet carries the sender's window and round-trip time, and routers write the change of the
//! window into it (Katabi, Handley, Rohrs, "Congestion Control for High Bandwidth-Delay Product Networks", SIGCOMM
//! 2002, sections 3.2 and 3.3). It needs an `xcp` router at every possible bottleneck.
//!
//! With `W` the window and `s` the packet size, in bytes of whole IP packets:
//!
//! ```text
//! a packet is sent:            H_cwnd = W, H_rtt = smoothed round trip, H_feedback = requested increase
//! an acknowledgement arrives:  W = max(W + H_feedback, s)                       section 3.3
//! packets are lost:            as in TCP: W halves once a window of data, and is s after a timeout
//! ```
//!
//! *Deviations*, where the paper leaves the behavior open:
//! - The "desired rate" (section 3.3) is unlimited, because a transfer uses all it gets. The paper's first packet has
//!   no round-trip time; here it has that of the handshake.
//! - On a path without an XCP router, requests return unchanged. Then the window grows as TCP's, in slow start and
//!   congestion avoidance (RFC 5681), until a router answers again. After eight such acknowledgements in a row the flow
//!   reports that it is degraded. Where routers answer but the bottleneck is elsewhere, only losses limit the flow.
//! - An unused window neither grows nor requests an increase, while the flow is application-limited and during loss
//!   recovery. Decreases are always applied.
//! - A large increase of the window is spread over the next round trip. Routers allocate spare capacity within a few
//!   round trips, and a lone flow would use it in bursts at the rate of its own link, which on 150 Mb/s and 80 ms
//!   behind links of 1 Gb/s overflow a buffer of one bandwidth-delay product. `pacing = "never"` is the paper's.
//! - The first window is two packets, that of TCP when the paper was written (RFC 2581 section 3.1). After an idle time
//!   longer than the timer the window is at most that again (RFC 5681 section 4.1), because the feedback is out of
//!   date.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::newreno::{self, NewReno};
use crate::parts::check::check_first_window;
use crate::{Ack, Algorithm, Controller, Departure, Loss, Notice, Pacer, Path, Sent, Settings};

/// The increase that a packet requests: more than any path permits. Feedback on several packets adds up. If the sum is
/// above [`MAX_CHANGE`], no router has answered one of them.
const UNLIMITED: i64 = i64::MAX / 2;
const MAX_CHANGE: i64 = i64::MAX / 4;

/// After so many acknowledgements in a row without an answer of a router, the path counts as one without XCP routers.
const MAX_UNANSWERED: u32 = 8;

/// Settings of XCP's sender.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets: that of TCP when the paper was written (RFC 2581).
    #[default(2)]
    pub initial_window: u64,
    /// When packets are spread over the round trip.
    #[default(Pacing::Increases)]
    pub pacing: Pacing,
}

/// When packets are spread over the round trip, instead of being sent on acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// For a round trip after the window has increased by more than half of the bytes delivered.
    #[default]
    Increases,
    /// Never, as in the paper.
    Never,
    /// Always.
    Always,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)
    }
}

/// An XCP sender: it changes its window as routers request.
#[derive(Debug, Clone)]
pub struct Xcp {
    /// The window, which grows as TCP's while no router answers.
    tcp: NewReno,
    packet: Bytes,
    /// The fraction of a byte that is not yet applied to the window, in thousandths of a byte.
    fraction: i64,
    smoothed_rtt: Duration,
    /// The flow is application-limited.
    app_limited: bool,
    pacing: Pacing,
    pacer: Pacer,
    /// Packets are spread until this time.
    paced_until: Time,
    /// The number of acknowledgements in a row without an answer of a router. Those with a change of 0 do not count.
    unanswered: u32,
}

impl Xcp {
    /// Section 3.3: `W = max(W + H_feedback, s)`, with the feedback in thousandths of a byte.
    fn change(&mut self, feedback: i64) {
        let thousandths = self.fraction.saturating_add(feedback);
        self.fraction = thousandths % 1000;
        let bytes = Bytes::new((thousandths / 1000).unsigned_abs());
        let window = self.tcp.window();
        let changed = if thousandths > 0 { window + bytes } else { window.saturating_sub(bytes) };
        self.tcp.window.set(changed.max(self.packet));
    }

    /// The window over a round trip.
    fn paced_rate(&self) -> Rate {
        Rate::of(self.tcp.window(), self.smoothed_rtt)
    }
}

impl Algorithm for Xcp {
    type Config = Config;

    const NEEDS: Option<&'static str> = Some("needs XCP routers; without them it behaves as NewReno");

    fn new(config: &Config, random: Random) -> Self {
        let tcp = newreno::Config { initial_window: config.initial_window, ..newreno::Config::default() };
        Self {
            tcp: NewReno::new(&tcp, random),
            packet: Bytes::ZERO,
            fraction: 0,
            smoothed_rtt: Duration::ZERO,
            app_limited: false,
            pacing: config.pacing,
            pacer: Pacer::default(),
            paced_until: if config.pacing == Pacing::Always { Time::MAX } else { Time::ZERO },
            unanswered: 0,
        }
    }
}

impl Controller for Xcp {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.tcp.on_path(now, path);
        self.packet = path.packet;
        self.fraction = 0;
        self.smoothed_rtt = path.rtt;
        self.app_limited = false;
        self.unanswered = 0;
    }

    fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        self.tcp.on_packet_size(now, packet);
        self.packet = packet;
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        if now >= self.paced_until {
            self.paced_until = Time::ZERO;
        } else {
            self.pacer.sent(now, sent.bytes, self.paced_rate());
        }
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Unpaced => self.pacer.bound(now),
            Notice::SpuriousLoss => self.tcp.on_notice(now, Notice::SpuriousLoss),
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.tcp.on_marks(now, ack);
        self.smoothed_rtt = ack.smoothed_rtt;
        self.app_limited = ack.app_limited;
        match ack.feedback {
            RouterFeedback::Xcp { change, .. } if change < MAX_CHANGE => {
                let unused = ack.app_limited || ack.recovering;
                let before = self.tcp.window();
                self.change(if unused { change.min(0) } else { change });
                let increased = self.tcp.window().saturating_sub(before) > ack.delivered / 2;
                if increased && self.pacing == Pacing::Increases {
                    self.paced_until = now + self.smoothed_rtt;
                }
                // A packet sent while the flow was application-limited requested 0, which may return unchanged.
                if change != 0 {
                    self.unanswered = 0;
                }
            }
            _ => {
                self.tcp.grow(now, ack);
                self.unanswered = self.unanswered.saturating_add(1);
            }
        }
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        self.tcp.on_loss(now, loss);
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        self.tcp.on_idle(now, idle, timeout);
    }

    fn window(&self) -> Bytes {
        self.tcp.window()
    }

    fn departure(&self) -> Departure {
        let change = if self.app_limited { 0 } else { UNLIMITED };
        let feedback = RouterFeedback::Xcp { window: self.tcp.window(), rtt: self.smoothed_rtt, change };
        let at = if self.paced_until > Time::ZERO { self.pacer.next() } else { Time::ZERO };
        Departure { at, feedback, ..self.tcp.departure() }
    }

    /// The window over a round trip, if packets are always spread. Pacing for one round trip does not make a rate.
    fn rate(&self) -> Option<Rate> {
        (self.pacing == Pacing::Always).then(|| self.paced_rate())
    }

    fn degraded_reason(&self) -> Option<&'static str> {
        (self.unanswered >= MAX_UNANSWERED).then_some("no XCP router answers; the window grows as TCP's until one does")
    }

    fn state(&self) -> &'static str {
        if self.unanswered >= MAX_UNANSWERED { self.tcp.state() } else { "router_feedback" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::testing::{PACKET, RTT, ack};

    fn sender(initial_window: u64) -> Xcp {
        let mut sender = Xcp::new(&Config { initial_window, ..Config::default() }, Random::from_seed(1));
        sender.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
        sender
    }

    /// An acknowledgement with a change of `change` thousandths of a byte.
    fn feedback_ack(change: i64) -> Ack<'static> {
        Ack { feedback: RouterFeedback::Xcp { window: PACKET * 10, rtt: RTT, change }, ..ack(1) }
    }

    #[test]
    fn a_packet_carries_window_and_rtt_and_an_unlimited_request() {
        let mut sender = sender(2);
        let header = |window, rtt| RouterFeedback::Xcp { window, rtt, change: UNLIMITED };
        assert_eq!(sender.departure().feedback, header(PACKET * 2, RTT));
        let smoothed_rtt = Duration::from_millis(33);
        sender.on_ack(Time::ZERO, &Ack { smoothed_rtt, ..feedback_ack(5_000_000) });
        assert_eq!(sender.departure().feedback, header(PACKET * 7, smoothed_rtt));
    }

    #[test]
    fn the_window_follows_feedback_and_thousandths_add_up() {
        let mut sender = sender(10);
        sender.on_ack(Time::ZERO, &feedback_ack(250_000));
        assert_eq!(sender.window(), Bytes::new(10_250));
        sender.on_ack(Time::ZERO, &feedback_ack(-1_250_000));
        assert_eq!(sender.window(), Bytes::new(9_000));
        for _ in 0..10 {
            sender.on_ack(Time::ZERO, &feedback_ack(-300));
        }
        assert_eq!(sender.window(), Bytes::new(8_997));
        for _ in 0..10 {
            sender.on_ack(Time::ZERO, &feedback_ack(300));
        }
        assert_eq!(sender.window(), Bytes::new(9_000));
    }

    #[test]
    fn the_minimum_window_is_one_packet() {
        for decrease in [-9_500_000, i64::MIN] {
            let mut sender = sender(10);
            sender.on_ack(Time::ZERO, &feedback_ack(decrease));
            assert_eq!(sender.window(), PACKET);
        }
    }

    #[test]
    fn a_request_that_returns_unchanged_causes_tcp_growth() {
        // One acknowledgement of two packets, of which a router has changed only one: the receiver adds their feedback.
        for change in [UNLIMITED, i64::MAX, UNLIMITED - 4_000_000] {
            let mut sender = sender(10);
            sender.on_ack(Time::ZERO, &feedback_ack(change));
            assert_eq!(sender.window(), PACKET * 11);
        }
        let mut sender = sender(10);
        sender.on_ack(Time::ZERO, &ack(1));
        assert_eq!(sender.window(), PACKET * 11);
    }

    #[test]
    fn an_application_limited_flow_requests_no_increase() {
        let mut sender = sender(10);
        let requested = |sender: &Xcp| match sender.departure().feedback {
            RouterFeedback::Xcp { change, .. } => change,
            other => panic!("{other:?}"),
        };
        sender.on_ack(Time::ZERO, &Ack { app_limited: true, ..feedback_ack(0) });
        assert_eq!(requested(&sender), 0);
        sender.on_ack(Time::ZERO, &feedback_ack(0));
        assert_eq!(requested(&sender), UNLIMITED);
    }

    #[test]
    fn an_increase_is_spread_over_the_next_round_trip() {
        let mut sender = sender(10);
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        let sent = Sent { number: 0, bytes: PACKET, in_flight: PACKET };
        let after_two = |sender: &mut Xcp, now| {
            sender.on_sent(now, &sent);
            sender.on_sent(now, &sent);
            sender.departure().at
        };
        sender.on_ack(ms(0), &feedback_ack(500_000)); // half of the bytes delivered
        assert_eq!(after_two(&mut sender, ms(17)), Time::ZERO);
        sender.on_ack(ms(0), &feedback_ack(501_000));
        assert!(after_two(&mut sender, ms(10)) > ms(10));
        sender.on_ack(ms(0), &feedback_ack(8_999_000));
        assert_eq!(after_two(&mut sender, ms(18)), ms(19)); // twenty packets in 20 ms
        assert_eq!(after_two(&mut sender, ms(20)), Time::ZERO);

        let config = Config { pacing: Pacing::Never, ..Config::default() };
        let mut unpaced = Xcp::new(&config, Random::from_seed(1));
        unpaced.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
        unpaced.on_ack(Time::ZERO, &feedback_ack(9_500_000));
        assert_eq!(after_two(&mut unpaced, ms(18)), Time::ZERO);
    }

    #[test]
    fn eight_unanswered_acknowledgements_are_reported_as_degraded() {
        let mut sender = sender(10);
        for _ in 0..7 {
            sender.on_ack(Time::ZERO, &ack(1));
            assert_eq!(sender.degraded_reason(), None);
        }
        sender.on_ack(Time::ZERO, &feedback_ack(UNLIMITED));
        assert!(sender.degraded_reason().is_some());
        for app_limited in [true, false] {
            sender.on_ack(Time::ZERO, &Ack { app_limited, ..feedback_ack(0) });
            assert!(sender.degraded_reason().is_some(), "no increase was requested");
        }
        sender.on_ack(Time::ZERO, &feedback_ack(1));
        assert_eq!(sender.degraded_reason(), None);
    }
}
