//! PCP as its paper describes it (Anderson, Collins, Krishnamurthy, Zahorjan, "PCP: Efficient Endpoint Congestion
//! Control", NSDI 2006). It is here for readers and for comparison. `pcp` is the controller to use.
//!
//! ```text
//! mechanism (Table 2)     what happens                                                section   file
//! probes                  k packets at base + test rate                               3.1       probe
//! probabilistic accept    with the p-value of their delays, if the path is flat       3.1       line
//! direct jump             accepted: base += test                                      3.1       mod
//! rate compensation       base -= base * (gap + delay), at most half in a round trip  3.2       compensation
//! periodic probes         one per round trip                                          3.3       mod
//! binary search           accepted: test *= 2, rejected: test /= 2                    3.3       search
//! exponential backoff     rejected at 1% of base: at random in 2, 4, ... 100 RTTs     3.3       search
//! history                 first test = remembered rate / 3 * trust                    3.4       history
//! tit for tat             cuts / 10 while they have no effect                         3.5       tit_for_tat
//! ```
//!
//! *Results of the text* on Figure 4's network (`studies/pcp/offered_load.toml`, seeds 1 and 2). The paper reports flow
//! completion times close to fair queueing's at every load, and no loss.
//!
//! ```text
//! load                                              0.15      0.30      0.60      0.90
//! mean flow              pcp-paper                163 ms    187 ms    302 ms   1006 ms
//! completion time        TCP, as in the paper     328 ms    338 ms    435 ms    830 ms
//!                        fair queueing            100 ms    114 ms    177 ms    455 ms
//! packets lost           pcp-paper                 0.04%     0.03%     0.16%     0.87%
//!                        TCP                       0.01%     0.09%     0.75%      2.8%
//! ```
//!
//! Two rules that the text leaves open decide about these times: how a probe is accepted by chance, and which
//! predictions are accurate. `studies/pcp/NOTES.md` has the readings that were tried. What stays far from the paper: at
//! 0.90 several flows find the same free capacity, jump together, and lose packets; then cuts leave the link idle. On
//! links of 1 and 3 Mb/s transfers take 4.5 and 2.4 times as long as with fair queueing.
//!
//! *Where the paper gives no rule*, the controller does this:
//! - *Probe packets and base packets* are one evenly spaced train at base + test rate. If packets of both left
//!   together, the probe would measure the queue of one behind the other.
//! - *Clocks*: a growth of 100 ns over a probe is flat. The offset between the two hosts' clocks is unknown, so
//!   `min_delay` in a denominator is half of the minimum round-trip time.
//! - *Which gap*: the slope of the line through a round trip's delays is the growth of all its gaps together. Single
//!   gaps vary too much.
//! - *Packet sizes*: only delays of packets of the largest size are compared.
//! - *When a probe is accepted*: if its delays are "consistent with flat or decreasing delay". If the fitted slope is
//!   positive, the probability is the two-sided p-value of a flat path. With the probability that the true slope is not
//!   positive, half of all probes are rejected beside other traffic whatever their rate is, so test rates are random
//!   walks: the mean flow completion time at 0.60 is 1.5 s.
//! - *"Sufficient bandwidth"* for probes of full packets is k packets per round trip. With full packets after the first
//!   accepted probe the time at 0.90 is 1106 ms.
//! - *An accurate prediction* is a first test rate that the base rate reaches. If the result of the first probe decided,
//!   the time at 0.90 would be 1.7 s.
//! - *Which base rate is remembered*: a running mean over flows of the highest one.
//! - *The minimum trust*: none.
//! - *min-delay* expires after 10 s. "Several" round trips without effect are four.
//! - *Losses*: a lost packet rejects its probe, and changes nothing else. If the retransmission timer expires with three
//!   packets unanswered, the base rate is halved.
//! - *Idle flows*: after an idle time a flow starts over with its rate as its history.
//! - *Late packets*: a probe proves only the rate at which it was sent (`probe`).
//! - *Bounds*: the base rate is at least one packet in 5 s, and at most 100 Gb/s.
//!
//! The optimization that the paper had "not yet implemented", to compute the next test rate from the slope of a
//! rejected probe, is not here either.

mod compensation;
mod config;
mod delays;
mod history;
mod probe;
mod search;
mod tit_for_tat;

#[cfg(test)]
mod tests;

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

use self::compensation::Compensation;
pub use self::config::Config;
use self::config::{FIRST_TEST, MIN_TEST};
use self::history::PathHistory;
use self::probe::{Phase, Probe, ProbeResult};
use self::search::Search;
use crate::parts::pacer::Pacer;
use crate::{Ack, Algorithm, Arrival, Controller, Departure, History, Loss, LossKind, Notice, Path, Sent};

/// The minimum size of the packets into which a full one is divided: headers and some data.
const MIN_CHUNK: Bytes = Bytes::new(100);

/// The maximum time between two base packets, which sets the minimum base rate.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The maximum rate of base packets and of probes.
const MAX_RATE: Rate = Rate::from_bps(100_000_000_000);

/// The maximum round-trip time and the maximum wait for a probe. So a flow acts within minutes, whatever is measured.
const MAX_RTT: Duration = Duration::from_secs(60);

/// Unanswered packets from which an expiry of the retransmission timer means that no feedback arrives. With fewer each
/// loss is a single loss.
const MAX_UNANSWERED: u64 = 3;

/// PCP as its paper describes it.
#[derive(Debug, Clone)]
pub struct PcpPaper {
    config: Config,
    random: Random,
    packet: Bytes,
    rtt: Duration,
    min_rtt: Duration,
    /// The rate that probes have gained. `None` before the first accepted probe.
    base: Option<Rate>,
    phase: Phase,
    probe: Probe,
    /// The probe divides one full packet.
    in_chunks: bool,
    search: Search,
    compensation: Compensation,
    path_history: PathHistory,
    pacer: Pacer,
    /// Consecutive probes without any acknowledgement.
    unanswered_probes: u32,
    /// Packets sent since the last feedback.
    unanswered: u64,
    /// The base rate before the retransmission timer expired without feedback since.
    base_before_timeout: Option<Rate>,
}

impl Algorithm for PcpPaper {
    type Config = Config;

    const NEEDS: Option<&'static str> =
        Some("needs the arrival time of each packet, and sends almost nothing without it");
    const NEEDS_RECEIPTS: Option<&'static str> = Some("rejects each train of which an arrival time is missing");

    fn new(config: &Config, random: Random) -> Self {
        Self {
            config: config.clone(),
            random,
            packet: Bytes::ZERO,
            rtt: MAX_RTT,
            min_rtt: MAX_RTT,
            base: None,
            phase: Phase::Waiting(Time::MAX),
            probe: Probe::new(config.k),
            in_chunks: true,
            search: Search::new(Rate::ZERO),
            compensation: Compensation::new(),
            path_history: PathHistory::default(),
            pacer: Pacer::with_max_gap(MAX_WAIT),
            unanswered_probes: 0,
            unanswered: 0,
            base_before_timeout: None,
        }
    }
}

impl PcpPaper {
    /// The minimum base rate.
    fn min_rate(&self) -> Rate {
        Rate::of(self.packet, MAX_WAIT).max(Rate::from_bps(1)).min(MAX_RATE)
    }

    /// The minimum test rate: 1% of the base rate (section 3.3).
    fn min_test(&self) -> Rate {
        self.base().scale(MIN_TEST).max(self.min_rate())
    }

    fn base(&self) -> Rate {
        self.base.unwrap_or_default()
    }

    fn set_base(&mut self, rate: Rate) {
        self.base = Some(rate.clamp(self.min_rate(), MAX_RATE));
    }

    /// The size of the next packet: in a probe of chunks, a full one divided by `k` (section 3.1).
    fn size(&self) -> Bytes {
        let is_chunk = self.base.is_none() || (self.phase == Phase::Sending && self.in_chunks);
        if is_chunk { (self.packet / self.config.k as u64).max(MIN_CHUNK.min(self.packet)) } else { self.packet }
    }

    /// Whether the bandwidth is "sufficient" for probes of `k` full packets: as many leave in a round trip.
    fn is_sufficient(&self) -> bool {
        self.base() >= Rate::of(self.packet * self.config.k as u64, self.rtt)
    }

    /// The current sending rate. `None` if no packet may be sent.
    fn pace(&self) -> Option<Rate> {
        if self.phase == Phase::Sending { Some(self.probe.rate()) } else { self.base }
    }

    /// Starts the search again; the first probe asks for `test`.
    fn restart(&mut self, now: Time, test: Rate) {
        self.base = None;
        self.search = Search::new(test);
        self.pacer.reset(now);
        self.unanswered_probes = 0;
        self.phase = Phase::Waiting(now);
        self.poll(now);
    }

    /// Starts a probe whose time has come, and ends a probe whose timeout has expired.
    fn poll(&mut self, now: Time) {
        match self.phase {
            Phase::Waiting(until) if now >= until => {
                let test = self.search.test(self.min_test(), MAX_RATE.saturating_sub(self.base()));
                self.probe.start(now, self.base(), test);
                self.in_chunks = !self.is_sufficient();
                self.pacer.resume(now, self.probe.rate());
                self.phase = Phase::Sending;
            }
            Phase::Listening(until) if now >= until => self.conclude(now),
            _ => {}
        }
    }

    /// Evaluates the probe, applies its result, and schedules the next one.
    fn conclude(&mut self, now: Time) {
        self.unanswered_probes = if self.probe.has_receipts() { 0 } else { self.unanswered_probes + 1 };
        match self.probe.judge(&mut self.random) {
            ProbeResult::Accepted(more) => {
                self.set_base(self.base() + more); // section 3.1: direct jump
                self.search.accepted(more);
                self.path_history.on_accepted(self.base());
            }
            ProbeResult::Rejected => {
                self.search.rejected(self.probe.test, self.min_test());
            }
            ProbeResult::Inconclusive => {}
        }
        let next = self.search.next(now, self.probe.started, self.rtt, &mut self.random);
        self.phase = Phase::Waiting(next);
        self.poll(now);
    }
}

impl Controller for PcpPaper {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.packet = path.packet.max(Bytes::new(1));
        self.rtt = path.rtt.clamp(Duration::from_nanos(1), MAX_RTT);
        self.min_rtt = self.rtt;
        self.compensation = Compensation::new();
        let (path_history, test) = PathHistory::new(&self.config, path);
        self.path_history = path_history;
        self.restart(now, test);
    }

    /// Delays of larger packets are longer: the queue is measured anew, and a probe of both sizes proves nothing.
    fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        (self.packet, self.compensation) = (packet, Compensation::new());
        if self.phase.is_probing() {
            self.phase = Phase::Waiting(now);
        }
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.unanswered += 1;
        self.pacer.sent_at(now, sent.bytes, self.pace().unwrap_or(self.probe.rate()));
        if self.phase != Phase::Sending {
            return;
        }
        self.probe.on_sent(now, sent.number, sent.bytes);
        if self.probe.is_sent() {
            self.phase = Phase::listening(now, self.rtt, self.unanswered_probes);
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        (self.unanswered, self.base_before_timeout) = (0, None);
        self.rtt = ack.smoothed_rtt.clamp(Duration::from_nanos(1), MAX_RTT);
        self.min_rtt = ack.min_rtt.clamp(Duration::from_nanos(1), MAX_RTT);
        for arrival in ack.arrivals {
            let round_trip = Arrival { received_at: now, ..*arrival };
            let arrival = if self.config.round_trip { &round_trip } else { arrival }; // section 3.5
            if self.phase.is_probing() {
                self.probe.on_arrival(arrival);
            }
            let is_base = !self.probe.contains(arrival.number);
            let cut = self.compensation.on_arrival(now, arrival, is_base, self.rtt, self.min_rtt);
            if let Some(base) = self.base {
                self.set_base(base.scale(1.0 - cut)); // section 3.2
            }
        }
        if self.phase.is_probing() && self.probe.is_complete() {
            self.conclude(now);
        }
        self.poll(now);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let no_feedback = loss.kind == LossKind::Persistent && self.unanswered >= MAX_UNANSWERED;
        if let Some(base) = self.base.filter(|_| no_feedback) {
            self.base_before_timeout.get_or_insert(base);
            self.set_base(base.scale(0.5));
        }
        if self.phase.is_probing() && (no_feedback || self.probe.contains(loss.number)) {
            self.probe.on_loss();
            self.conclude(now);
        }
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        if notice == Notice::SpuriousLoss {
            // The path was only blocked: as after idle time.
            if let Some(base) = self.base_before_timeout.take() {
                self.restart(now, base.scale(FIRST_TEST));
            }
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if let Some(base) = self.base.filter(|_| idle > timeout) {
            self.restart(now, base.scale(FIRST_TEST));
        }
    }

    fn on_deadline(&mut self, now: Time) {
        self.poll(now);
    }

    fn deadline(&self) -> Time {
        self.phase.deadline()
    }

    fn window(&self) -> Bytes {
        Bytes::MAX
    }

    fn departure(&self) -> Departure {
        let at = self.pace().map_or(Time::MAX, |pace| self.pacer.next_at(pace));
        Departure { at, bytes: self.size(), feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.pace().unwrap_or(self.probe.rate()))
    }

    fn state(&self) -> &'static str {
        self.phase.name()
    }

    fn keeps_history(&self) -> bool {
        true
    }

    fn remember(&self, _now: Time, history: &mut Option<History>) {
        self.path_history.remember(self.min_rtt, history);
    }
}
