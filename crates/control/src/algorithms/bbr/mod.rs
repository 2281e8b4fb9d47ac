//! BBRv3 (draft-ietf-ccwg-bbr-06, July 2026): a model of the path, from which the rate and the window follow.
//!
//! ```text
//! max_bw     the maximum delivery rate of the last two probes                  (../delivery_rate.rs)
//! min_rtt    the minimum round-trip time of the last 10 s                      (estimators.rs)
//! bdp        bw min_rtt, where bw = min(max_bw, bw_shortterm)
//! rate       0.99 pacing_gain bw                                               (output.rs)
//! window     cwnd_gain bdp + extra_acked, at most inflight_longterm and inflight_shortterm
//!
//!            Startup --> Drain --> Down --> Cruise --> Refill --> Up           (cycle.rs)
//!                                   ^                             |
//!                                   +-----------------------------+
//! pacing_gain 2.77       0.5       0.9      1          1          1.25
//! cwnd_gain   2          2         2        2          2          2.25
//!
//! ProbeRtt: if no lower round-trip time was measured for 5 s, half a bdp in flight for 200 ms   (probe_rtt.rs)
//!
//! losses, while it probes (Refill, Up), above 2% of a round trip:
//!        inflight_longterm = max(the bytes in flight that caused them, 0.7 min(bdp, window))    (losses.rs)
//! losses, otherwise, at the end of each round trip with a loss:
//!        bw_shortterm      = max(the delivery rate of the round trip, 0.7 bw_shortterm)
//!        inflight_shortterm = max(the bytes delivered in it, 0.7 inflight_shortterm)
//! ```
//!
//! Refill discards the short-term limits, so the effect of losses that others cause ends with the cycle: after two to
//! three seconds, or after as many round trips as a bandwidth-delay product has packets, 63 at most, if that is shorter.
//! The names of the draft stand beside those here that differ.
//!
//! *Deviations* where the draft is wrong, measured in `docs/controllers.md`. With the draft's rules a flow that falls from
//! 20 to 1 Mb/s, at 40 ms and with a buffer of 400 packets, loses 88% of its packets from 40 to 160 s after the fall; with
//! these three none, and 4 packets wait in the queue:
//!
//! - A cycle that lasts longer than the time from one ProbeRTT to the next ends with the next: `max_bw` advances. The
//!   draft's advances only where a cycle ends by itself, and ProbeRTT interrupts each cycle of more than 5 s (`cycle.rs`).
//! - The window of ProbeRTT is computed from `min_rtt` before it expires and, where the path delivers less than `bw`, from
//!   what it delivers. The draft's window keeps a queue, so `min_rtt` grows, and with it the window.
//! - ProbeRTT does not mark packets as limited by the application. The draft's mark also covers the first window after it,
//!   which then waits in the queue, and keeps its samples of the lower rate out. Samples of ProbeRTT cannot lower `max_bw`,
//!   and they end no cycle.
//!
//! And an idle time ends an interval of `extra_acked` with its bytes, as in Linux. With the draft's rule each pause adds the
//! bytes of one more interval: after 20 s of frames, 2 Mb/s over 20 Mb/s, the window is 3400 packets. Two
//! bandwidth-delay products are 133.
//!
//! *Other deviations*: bytes are those of whole IP packets, with headers; each packet leaves at its own time, so a send
//! quantum (`C.send_quantum`) only enters the window; losses that are detected together count as one packet in
//! `InflightAtLoss`, and as one range of the six that end Startup, as in Linux. The draft leaves ECN open: packets are
//! not ECN-capable. Selective acknowledgements are assumed, whatever the flow's transport uses. `SaveStateUponLoss` saves
//! the window at the start of a recovery only, and ProbeRTT saves it before its state starts. A round trip without a
//! sample of the rate does not count for `full_bw_count`, and an acknowledgement of no bytes changes nothing.

mod cycle;
pub(crate) mod estimators;
mod losses;
mod output;
mod probe_rtt;
#[cfg(test)]
mod tests;

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use self::estimators::{AckAggregation, FullPipe, MinRtt, Rounds, WindowedMax};
use self::losses::{LongTerm, ShortTerm, Undo};
use crate::delivery_rate::{DeliveryRate, RateSample};
use crate::parts::check::check_first_window;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Pacer, Path, Record, Sent, Settings};

/// Settings of BBR.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)
    }
}

/// `BBR.state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    /// `ProbeBW_DOWN`: sends slower than the path delivers.
    Down,
    /// `ProbeBW_CRUISE`: sends as fast.
    Cruise,
    /// `ProbeBW_REFILL`: the same for a round trip, without short-term limits.
    Refill,
    /// `ProbeBW_UP`: sends faster.
    Up,
    ProbeRtt,
}

impl State {
    /// `IsInAProbeBWState`.
    fn is_in_cycle(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`.
    fn probes_bandwidth(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::Down => "probe_bw_down",
            Self::Cruise => "probe_bw_cruise",
            Self::Refill => "probe_bw_refill",
            Self::Up => "probe_bw_up",
            Self::ProbeRtt => "probe_rtt",
        }
    }
}

/// BBRv3.
#[derive(Debug, Clone)]
pub struct Bbr {
    config: Config,
    random: Random,
    /// `C.SMSS`: the largest packet.
    packet: Bytes,
    state: State,
    delivery: DeliveryRate,
    /// `RS`: the sample of the last acknowledgement.
    sample: RateSample,
    rounds: Rounds,
    full_pipe: FullPipe,
    /// Of two cycles (`MaxBwFilterLen`).
    max_bw: WindowedMax<Rate, 2>,
    min_rtt: MinRtt,
    aggregation: AckAggregation,
    short_term: ShortTerm,
    long_term: LongTerm,
    undo: Undo,
    cycle: cycle::Cycle,
    probe_rtt: probe_rtt::ProbeRtt,
    /// `drain_start_round`.
    drain_started: u64,
    /// `idle_restart`: the flow was idle, and nothing has been delivered since.
    restarts: bool,
    /// Losses are being repaired.
    is_recovering: bool,
    /// `C.cwnd`.
    window: Bytes,
    /// `prior_cwnd`: the window before recovery or ProbeRTT.
    prior_window: Bytes,
    /// The window was full in this round trip, and in the last one.
    was_full: [bool; 2],
    /// `C.pacing_rate`.
    pacing_rate: Rate,
    pacer: Pacer,
}

/// A limit, if there is one.
fn below_max(bytes: Bytes) -> Option<f64> {
    Some(bytes.as_f64()).filter(|_| bytes < Bytes::MAX)
}

impl Bbr {
    /// `BBR.bw`.
    fn bandwidth(&self) -> Rate {
        self.max_bw.get().min(self.short_term.bandwidth)
    }

    /// `BBR.bdp`, scaled.
    fn bdp(&self, gain: f64) -> Bytes {
        self.bandwidth().bytes_in(self.min_rtt.value).scale(gain)
    }

    /// `TargetInflight`.
    fn target_in_flight(&self) -> Bytes {
        self.bdp(1.0).min(self.window)
    }

    /// `BBR.MinPipeCwnd`.
    fn min_window(&self) -> Bytes {
        self.packet * 4
    }

    /// `C.is_cwnd_limited`.
    fn is_window_limited(&self) -> bool {
        self.was_full != [false; 2]
    }

    /// Whether the application or ProbeRTT limited the rate that the last sample measured.
    fn is_limited(&self) -> bool {
        self.sample.is_app_limited || self.probe_rtt.limits(self.sample.prior_delivered)
    }

    /// `StartRound`.
    fn start_round(&mut self) {
        self.rounds.restart(self.delivery.delivered());
    }

    /// `UpdateModelAndState`.
    fn update_model_and_state(&mut self, now: Time, ack: &Ack<'_>) {
        self.update_latest_delivery();
        self.update_max_bandwidth();
        self.adapt_short_term();
        let (bandwidth, window) = (self.bandwidth(), self.window);
        self.aggregation.update(now, ack.delivered, bandwidth, window);
        if let (true, Some(rate)) = (self.rounds.is_start, self.sample.rate) {
            self.full_pipe.update(rate, self.is_limited());
        }
        self.check_startup_done();
        self.update_cycle(now, ack.delivered);
        let min_rtt = self.min_rtt.value;
        self.min_rtt.update(now, ack.rtt, probe_rtt::INTERVAL);
        self.check_probe_rtt(now, min_rtt);
        self.advance_latest_delivery();
    }

    /// `UpdateMaxBw`, with `UpdateRound`.
    fn update_max_bandwidth(&mut self) {
        self.rounds.update(&self.sample, self.delivery.delivered());
        if self.rounds.is_start {
            self.cycle.rounds_since_up += 1;
            self.was_full = [false, self.was_full[0]];
            self.aggregation.end_round(self.full_pipe.reached);
        }
        if let Some(rate) = self.sample.rate
            && (rate >= self.max_bw.get() || !self.sample.is_app_limited)
        {
            self.max_bw.add(rate);
        }
    }

    /// `CheckStartupDone`.
    fn check_startup_done(&mut self) {
        self.check_startup_losses();
        if self.state == State::Startup && self.full_pipe.reached {
            (self.state, self.drain_started) = (State::Drain, self.rounds.count);
        }
    }

    /// The first packets leave as if the first window were a round trip's delivery (`InitPacingRate`).
    fn init(&mut self, now: Time, path: &Path) {
        self.packet = path.packet;
        self.window = path.packet * self.config.initial_window;
        self.min_rtt = MinRtt::new(now, path.rtt);
        self.aggregation.restart(now);
        let span = if path.rtt > Duration::ZERO { path.rtt } else { Duration::from_millis(1) };
        self.pacing_rate = Rate::of(self.window, span).scale(output::STARTUP_GAIN);
        self.pacer.reset(now);
    }
}

impl Algorithm for Bbr {
    type Config = Config;

    fn new(config: &Config, random: Random) -> Self {
        Self {
            config: config.clone(),
            random,
            packet: Bytes::ZERO,
            state: State::Startup,
            delivery: DeliveryRate::default(),
            sample: RateSample::default(),
            rounds: Rounds::default(),
            full_pipe: FullPipe::default(),
            max_bw: WindowedMax::default(),
            min_rtt: MinRtt::default(),
            aggregation: AckAggregation::default(),
            short_term: ShortTerm::default(),
            long_term: LongTerm::default(),
            undo: Undo::default(),
            cycle: cycle::Cycle::default(),
            probe_rtt: probe_rtt::ProbeRtt::default(),
            drain_started: 0,
            restarts: false,
            is_recovering: false,
            window: Bytes::ZERO,
            prior_window: Bytes::ZERO,
            was_full: [false; 2],
            pacing_rate: Rate::ZERO,
            pacer: Pacer::default(),
        }
    }
}

impl Controller for Bbr {
    fn on_path(&mut self, now: Time, path: &Path) {
        *self = Self::new(&self.config, self.random.clone());
        self.init(now, path);
    }

    fn on_packet_size(&mut self, _now: Time, packet: Bytes) {
        self.packet = packet;
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.delivery.on_sent(now, sent);
        self.was_full[0] |= sent.in_flight + self.packet > self.window;
        self.pacer.sent(now, sent.bytes, self.pacing_rate);
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Unsent(bytes) => self.pacer.give_back(bytes, self.pacing_rate),
            Notice::Unpaced => self.pacer.bound(now),
            Notice::AppLimited => self.delivery.on_app_limited(),
            // `HandleSpuriousLossDetection`.
            Notice::SpuriousLoss => self.undo_losses(),
            _ => {}
        }
    }

    /// `UpdateOnACK`.
    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.sample = self.delivery.on_ack(now, ack);
        if ack.delivered == Bytes::ZERO {
            return;
        }
        if self.is_recovering && !ack.recovering {
            self.is_recovering = false;
            self.restore_window();
        }
        self.update_model_and_state(now, ack);
        self.set_pacing_rate(output::pacing_gain(self.state));
        self.set_window(ack.delivered);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let lost = self.delivery.on_loss(loss);
        if !self.is_recovering || loss.kind == LossKind::Persistent {
            self.save_window();
            self.save_undo();
            self.is_recovering = true;
        }
        self.note_loss();
        if let Some(lost) = lost {
            self.on_lost_packet(now, loss.bytes, &lost); // with the window that lost them
        }
        if loss.kind == LossKind::Persistent {
            self.window = self.delivery.in_flight() + self.packet; // OnEnterRTO
        }
    }

    /// `HandleRestartFromIdle`.
    fn on_idle(&mut self, now: Time, _idle: Duration, _timeout: Duration) {
        if !self.delivery.is_app_limited() {
            return;
        }
        self.restarts = true;
        self.aggregation.restart(now);
        if self.state.is_in_cycle() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    fn window(&self) -> Bytes {
        self.window
    }

    fn departure(&self) -> Departure {
        Departure { at: self.pacer.next(), bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.pacing_rate)
    }

    fn ecn(&self) -> Option<Ecn> {
        Some(Ecn::NotEct)
    }

    fn record(&self, out: &mut Record) {
        out.add("max_bandwidth_bps", self.max_bw.get().as_bps_f64());
        out.add("bandwidth_bps", self.bandwidth().as_bps_f64());
        out.add_known("inflight_longterm_bytes", below_max(self.long_term.in_flight));
        out.add_known("inflight_shortterm_bytes", below_max(self.short_term.in_flight));
        out.add("model_min_rtt_s", self.min_rtt.value.as_secs_f64());
    }

    fn state(&self) -> &'static str {
        self.state.name()
    }
}
