//! VCP end to end (beyond the paper; section VIII of "One More Bit Is Enough" proposes the question): no router reports
//! the load, so the sender estimates it, with each acknowledged packet.
//!
//! A packet that finds the link idle has no queueing delay. The share of packets that find it busy is the share of time
//! in which it works: the load factor below 1. A busy link sends `C t_rho` in a load interval, so its load factor by
//! equation (1), `(lambda + kappa_q q~) / (gamma C t_rho)`, needs only the queueing delay `q~ / C`, and no capacity:
//!
//! ```text
//! q      one-way delay - its minimum
//! rho    0.8                                q <= noise    the link was idle: low load
//!        (1 + kappa_q q / t_rho) / gamma    otherwise     eq. (1), kappa_q / t_rho = 1 / (10 ms)
//!
//! per packet    W += min(rtt / t_rho, sigma_mi) (kappa (1/rho - 1) + 1 / (x / alpha + 2 / kappa))     eq. (9), (10)
//! ```
//!
//! `x` is the flow's number of packets in a load interval; AI is bounded as in VCP+ (`vcp_plus`). The change depends on
//! the rate alone, so flows of all round trips settle at equal rates. Packets are paced. A loss halves the window, as
//! in VCP; after a timeout it is one packet and grows by MI.
//!
//! The minimum delay rises by 200 ppm of the time, so that a receiver's clock that drifts does not look like a queue.
//! Flows that start later measure the right minimum, because the link is idle several percent of the time.
//!
//! *Deviations* from VCP's numbers: `kappa_q` is 20 instead of 0.5, because overload is visible only as a queue, and
//! `alpha` 1/2 instead of 1, which shortens the queue of flows with a few packets a load interval. With the paper's two
//! numbers thirty flows on 2 Mb/s lose 13% of packets, and none with these; `docs/vcp-end-to-end.md` has more.
//! *Assumptions*: many flows share the link, because a paced flow's own packets never meet, so it measures the load of
//! the others; hosts add less than `noise` to delays; the link's rate is constant.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::parts::check::check_first_window;
use crate::parts::episode::Episode;
use crate::vcp::graded::{KAPPA, packets_per_increment};
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Pacer, Path, Sent, Settings};

/// `t_rho`: the load interval, in seconds.
const LOAD_INTERVAL: f64 = 0.2;

/// The load factor that an idle link counts as: the transition from low to high load.
const LOW_LOAD: f64 = 0.8;

/// `gamma`: the target utilization.
const TARGET: f64 = 0.95;

/// `t_rho / kappa_q`: the queueing delay that counts as much as the capacity, in seconds.
const FULL_QUEUE: f64 = 0.01;

/// `alpha`: AI, in packets a load interval.
const ALPHA: f64 = 0.5;

/// `sigma_mi`: the maximum number of load intervals in a round trip.
const MAX_INTERVALS: f64 = 2.5;

/// The minimum window, in packets: one packet every twenty round trips.
const MIN_WINDOW: f64 = 0.05;

/// The minimum delay rises by a nanosecond in this many: 200 ppm, the maximum drift of clocks.
const NANOSECONDS_PER_DRIFT: u64 = 5000;

/// Settings of VCP end to end.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// The delay variation that hosts cause: a queueing delay of at most this counts as none.
    #[default(Duration::from_micros(100))]
    pub noise: Duration,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        if self.noise.as_secs_f64() > LOAD_INTERVAL {
            return Err("noise: write \"200 ms\" or less: a longer queueing delay is not noise".into());
        }
        Ok(())
    }
}

/// The sender of VCP end to end.
#[derive(Debug, Clone)]
pub struct VcpEndToEnd {
    config: Config,
    /// The largest packet.
    packet: Bytes,
    /// `W`: the window, in packets.
    window: f64,
    /// The minimum round-trip time.
    rtt: Duration,
    /// The minimum delay, in nanoseconds and with the offset of the receiver's clock; it rises with time.
    min_delay: i64,
    /// When `min_delay` was computed.
    measured_at: Time,
    /// Whether acknowledgements list the packets that arrived.
    lists_packets: bool,
    episode: Episode,
    /// The window and the episode before the last reaction to a loss.
    before: Option<(f64, Episode)>,
    pacer: Pacer,
}

impl VcpEndToEnd {
    /// `q`: the queueing delay in a packet's `delay`, in seconds.
    fn queueing_delay(&mut self, now: Time, delay: i64) -> f64 {
        let drift = now.since(self.measured_at).as_nanos() / NANOSECONDS_PER_DRIFT;
        self.min_delay = delay.min(self.min_delay.saturating_add(drift as i64));
        self.measured_at += Duration::from_nanos(drift * NANOSECONDS_PER_DRIFT); // the rest counts later
        delay.wrapping_sub(self.min_delay) as f64 / 1e9
    }

    /// `rho`, as a packet with the queueing delay `queueing` finds it.
    fn load(&self, queueing: f64) -> f64 {
        if queueing <= self.config.noise.as_secs_f64() { LOW_LOAD } else { (1.0 + queueing / FULL_QUEUE) / TARGET }
    }

    /// Follows the load that `packets` with the same `delay` found. A window that is not used does not grow.
    fn on_delay(&mut self, now: Time, delay: i64, packets: f64, may_grow: bool) {
        let queueing = self.queueing_delay(now, delay);
        let rounds = self.rtt.as_secs_f64() / LOAD_INTERVAL; // rtt / t_rho
        let in_interval = self.window / rounds; // x
        let additive = 1.0 / packets_per_increment(in_interval, ALPHA);
        let change = KAPPA * (1.0 / self.load(queueing) - 1.0) + additive; // eq. (9), (10)
        let change = if may_grow { change } else { change.min(0.0) };
        self.window = (self.window + packets * rounds.min(MAX_INTERVALS) * change).max(MIN_WINDOW);
    }
}

impl Algorithm for VcpEndToEnd {
    type Config = Config;

    const NEEDS_RECEIPTS: Option<&'static str> =
        Some("estimates the load of the path by the delays of all packets, and reduces its rate without them");

    fn new(config: &Config, _random: Random) -> Self {
        Self {
            config: config.clone(),
            packet: Bytes::ZERO,
            window: config.initial_window as f64,
            rtt: Duration::ZERO,
            min_delay: i64::MAX,
            measured_at: Time::ZERO,
            lists_packets: false,
            episode: Episode::default(),
            before: None,
            pacer: Pacer::default(),
        }
    }
}

impl Controller for VcpEndToEnd {
    fn on_path(&mut self, _now: Time, path: &Path) {
        (self.packet, self.rtt) = (path.packet, path.rtt);
    }

    /// A larger packet takes more time on every link, so the minimum delay is measured anew.
    fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        self.window *= self.packet.as_f64() / packet.as_f64();
        (self.packet, self.min_delay, self.measured_at) = (packet, i64::MAX, now);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        if let Some(rate) = self.rate() {
            self.pacer.sent(now, sent.bytes, rate);
        }
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Unpaced => self.pacer.bound(now),
            Notice::SpuriousLoss => {
                let Some((window, episode)) = self.before.take() else { return };
                self.episode = episode; // losses of the packets in flight get their own reaction
                self.window = self.window.max(window);
            }
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.rtt = ack.min_rtt;
        let may_grow = !ack.recovering && !ack.app_limited;
        self.lists_packets |= !ack.arrivals.is_empty();
        let min_bytes = self.packet * 3 / 4; // a small packet takes less time on a link than a large one
        for arrival in ack.arrivals.iter().filter(|arrival| arrival.bytes >= min_bytes) {
            self.on_delay(now, arrival.one_way_delay(), 1.0, may_grow);
        }
        if let (false, Some(rtt)) = (self.lists_packets, ack.rtt) {
            let packets = ack.delivered.as_f64() / self.packet.as_f64().max(1.0);
            self.on_delay(now, rtt.as_nanos() as i64, packets, may_grow);
        }
    }

    fn on_loss(&mut self, _now: Time, loss: &Loss) {
        let before = (self.window, self.episode.clone());
        if self.episode.starts(loss) {
            if !loss.repeated_timeout {
                self.before = Some(before); // of repeated timeouts the first one counts
            }
            self.window = match loss.kind {
                LossKind::Persistent => self.window.min(1.0),
                LossKind::Transient => (self.window / 2.0).max(MIN_WINDOW),
            };
        }
    }

    /// RFC 5681 section 4.1: after an idle time longer than the timer, at most the first window.
    fn on_idle(&mut self, _now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.window = self.window.min(self.config.initial_window as f64);
        }
    }

    fn window(&self) -> Bytes {
        self.packet * (self.window.ceil() as u64 + 1) // the pacer limits the rate
    }

    fn departure(&self) -> Departure {
        Departure { at: self.pacer.next(), bytes: self.packet, feedback: RouterFeedback::None }
    }

    /// The window over a round trip.
    fn rate(&self) -> Option<Rate> {
        let bytes = Bytes::new((self.window * self.packet.as_f64()) as u64);
        (self.rtt > Duration::ZERO).then(|| Rate::of(bytes, self.rtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PACKET, ms};
    use crate::{Arrival, testing};

    const MS: i64 = 1_000_000;

    fn flow(window: u64, rtt: u64) -> VcpEndToEnd {
        let config = Config { initial_window: window, ..Config::default() };
        let mut flow = VcpEndToEnd::new(&config, Random::from_seed(1));
        flow.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(rtt), None));
        flow
    }

    fn arrival(bytes: Bytes, sent_at: Time, delay: i64) -> Arrival {
        let received_at = Time::from_nanos(sent_at.as_nanos().wrapping_add_signed(delay));
        Arrival { bytes, sent_at, received_at, ..Arrival::default() }
    }

    /// Acknowledges a packet with a one-way delay of `delay` nanoseconds.
    fn acknowledge(flow: &mut VcpEndToEnd, now: Time, delay: i64) {
        let arrivals = [arrival(PACKET, now, delay)];
        let rtt = flow.rtt;
        flow.on_ack(now, &testing::arrived(&arrivals, rtt));
    }

    /// The relative change in a load interval by packets that find a queue of `delay` nanoseconds.
    fn in_an_interval(window: u64, rtt: u64, delay: i64) -> f64 {
        let mut flow = flow(window, rtt);
        flow.min_delay = 0;
        acknowledge(&mut flow, Time::ZERO, delay);
        let rounds = rtt as f64 / 200.0;
        (flow.window - window as f64) / rounds
    }

    #[test]
    fn an_idle_link_grows_the_window_by_mi_and_ai() {
        for (window, rtt) in [(40, 80), (100, 200), (150, 300)] {
            let in_interval = window as f64 * 200.0 / rtt as f64;
            let expected = 0.0625 + 1.0 / (2.0 * in_interval + 8.0);
            assert!((in_an_interval(window, rtt, 0) - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn a_queue_of_10_ms_is_twice_the_load_at_any_round_trip() {
        for rtt in [20, 80, 200, 330] {
            let additive = 1.0 / (2.0 * 100.0 + 8.0);
            let expected = 0.25 * (0.95 / 2.0 - 1.0) + additive;
            assert!((in_an_interval(rtt / 2, rtt, 10 * MS) - expected).abs() < 1e-9);
        }
    }

    // 30 flows on 10 Mb/s, 8.3 packets in an interval each: AI is 1 / (16.7 + 8), and rho = 1 / (1 - 4 AI).
    #[test]
    fn windows_rest_at_the_queue_where_ai_balances_md() {
        let mut flow = flow(1000, 200);
        flow.window = 25.0 / 3.0;
        flow.min_delay = 0;
        let load = 1.0 / (1.0 - 4.0 / (2.0 * flow.window + 8.0));
        let queue = (load * 0.95 - 1.0) * 10.0 * MS as f64;
        acknowledge(&mut flow, Time::ZERO, queue as i64);
        assert!((flow.window - 25.0 / 3.0).abs() < 1e-6, "{}", flow.window);
    }

    #[test]
    fn a_drift_of_the_receivers_clock_is_not_a_queue() {
        // 200 ppm, with acknowledgements every 20 ms, and every 4 us, in which the clock drifts by 0.8 ns.
        for (spacing, count) in [(20_000_000, 1000), (4000, 1_000_000)] {
            let (mut flow, mut grown) = (flow(100, 80), 0);
            for n in 0..count {
                let before = flow.window;
                let sent_at = Time::from_nanos(spacing * n);
                acknowledge(&mut flow, sent_at, 40 * MS + (spacing * n / 5000) as i64);
                grown += u64::from(flow.window > before);
            }
            assert_eq!(grown, count);
        }
    }

    #[test]
    fn small_packets_do_not_set_the_minimum_delay() {
        let mut flow = flow(10, 80);
        acknowledge(&mut flow, ms(0), 20 * MS);
        let rtt = flow.rtt;
        flow.on_ack(ms(1), &testing::arrived(&[arrival(Bytes::new(100), ms(1), 5 * MS)], rtt));
        let before = flow.window;
        acknowledge(&mut flow, ms(2), 20 * MS);
        assert!(flow.window > before);
    }
}
