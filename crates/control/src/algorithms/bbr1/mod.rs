//! BBRv1 (Cardwell and others, ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00), as in Linux's
//! `tcp_bbr.c`: to compare with, because it ignores losses.
//!
//! ```text
//! bw        the maximum delivery rate of ten round trips           rate    pacing_gain bw
//! min_rtt   the minimum round-trip time of 10 s                    window  cwnd_gain bw min_rtt + extra_acked
//!
//! Startup   both gains 2/ln 2, until bw has grown by less than a quarter in each of three round trips
//! Drain     pacing_gain ln 2/2, until at most bw min_rtt is in flight
//! ProbeBw   pacing_gain 1.25, 0.75, then 1 six times, each for min_rtt; cwnd_gain 2
//! ProbeRtt  four packets in flight for 200 ms, if min_rtt was not measured for 10 s
//! ```
//!
//! In the first round trip of a loss recovery the window is what is in flight, and each acknowledgement releases as much
//! as it reports; after recovery the window is the one before.
//!
//! *Deviations* from Linux: no detection of policers (`lt_bw`); packets leave one by one, so nothing is added to the
//! window for segmentation in the network card, nor two packets at a gain of 1.25. A probe at 1.25 may end if packets of
//! the last round trip were lost, where Linux counts those that the acknowledgement reports. `extra_acked` is the maximum
//! of ten round trips, of the last one only before the path was full, where Linux adds none yet, and without Linux's bound
//! of what 100 ms deliver. The window has at least four packets also while it is conserved. Packets are not ECN-capable.

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

use crate::bbr::Config;
use crate::bbr::estimators::{AckAggregation, FullPipe, Rounds, WindowedMax};
use crate::delivery_rate::{DeliveryRate, RateSample};
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Pacer, Path, Record, Sent};

/// `2/ln 2`: the minimum gain that doubles the rate in each round trip (`bbr_high_gain`).
const HIGH_GAIN: f64 = 2885.0 / 1000.0;

/// The gains of `ProbeBw`, one after the other (`bbr_pacing_gain`).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// The window in `ProbeBw`, in bandwidth-delay products (`bbr_cwnd_gain`).
const WINDOW_GAIN: f64 = 2.0;

/// The time for which a minimum round-trip time counts (`bbr_min_rtt_win_sec`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);

/// How long the path stays drained (`bbr_probe_rtt_mode_ms`).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

/// Linux paces 1% below the rate (`bbr_pacing_margin_percent`).
const MARGIN: f64 = 0.99;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    /// With the index of its gain.
    ProbeBw(usize),
    /// Until this time at least, once few packets are in flight.
    ProbeRtt(Option<Time>),
}

/// BBRv1.
#[derive(Debug, Clone)]
pub struct Bbr1 {
    config: Config,
    random: Random,
    packet: Bytes,
    state: State,
    delivery: DeliveryRate,
    rounds: Rounds,
    full_pipe: FullPipe,
    /// Of ten round trips (`bbr_bw_rtts`).
    bandwidth: WindowedMax<Rate, 10>,
    /// The number of round trips since a sample was added to it.
    rounds_without_sample: usize,
    min_rtt: Duration,
    min_rtt_at: Time,
    aggregation: AckAggregation,
    /// When this gain of the cycle started (`cycle_mstamp`).
    gain_since: Time,
    /// `idle_restart`.
    restarts: bool,
    /// A round trip has passed in `ProbeRtt`.
    round_done: bool,
    /// Losses are being repaired; true in the first round trip of that.
    recovery: Option<bool>,
    window: Bytes,
    prior_window: Bytes,
    pacing_rate: Rate,
    pacer: Pacer,
}

impl Bbr1 {
    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => HIGH_GAIN,
            State::Drain => 1.0 / HIGH_GAIN,
            State::ProbeBw(at) => CYCLE[at],
            State::ProbeRtt(_) => 1.0,
        }
    }

    fn min_window(&self) -> Bytes {
        self.packet * 4
    }

    /// A multiple of the bandwidth-delay product (`bbr_inflight`).
    fn in_flight_for(&self, gain: f64) -> Bytes {
        self.bandwidth.get().bytes_in(self.min_rtt).scale(gain)
    }

    fn update_bandwidth(&mut self, sample: &RateSample) {
        self.rounds.update(sample, self.delivery.delivered());
        if self.rounds.is_start {
            self.rounds_without_sample += 1;
            self.aggregation.end_round(self.full_pipe.reached);
        }
        if let Some(rate) = sample.rate
            && (!sample.is_app_limited || rate >= self.bandwidth.get())
        {
            // As in Linux a maximum lasts until a later sample replaces it, so rounds without samples keep it.
            (0..self.rounds_without_sample.min(10)).for_each(|_| self.bandwidth.advance());
            self.rounds_without_sample = 0;
            self.bandwidth.add(rate);
        }
    }

    /// The next gain of the cycle, if it is time (`bbr_is_next_cycle_phase`).
    fn update_cycle(&mut self, now: Time, has_losses: bool) {
        let State::ProbeBw(at) = self.state else { return };
        let in_flight = self.delivery.in_flight();
        let is_full_length = now.since(self.gain_since) > self.min_rtt;
        let is_over = match CYCLE[at] {
            gain if gain > 1.0 => is_full_length && (has_losses || in_flight >= self.in_flight_for(gain)),
            gain if gain < 1.0 => is_full_length || in_flight <= self.in_flight_for(1.0),
            _ => is_full_length,
        };
        if is_over {
            (self.state, self.gain_since) = (State::ProbeBw((at + 1) % CYCLE.len()), now);
        }
    }

    fn check_full_pipe(&mut self, now: Time, sample: &RateSample) {
        if self.rounds.is_start && !self.full_pipe.reached {
            self.full_pipe.update(self.bandwidth.get(), sample.is_app_limited);
        }
        if self.state == State::Startup && self.full_pipe.reached {
            self.state = State::Drain;
        }
        if self.state == State::Drain && self.delivery.in_flight() <= self.in_flight_for(1.0) {
            self.start_cycle(now);
        }
    }

    /// Starts with any gain but 0.75 (`bbr_reset_probe_bw_mode`).
    fn start_cycle(&mut self, now: Time) {
        let at = (CYCLE.len() - self.random.below(CYCLE.len() as u64 - 1) as usize) % CYCLE.len();
        (self.state, self.gain_since) = (State::ProbeBw(at), now);
    }

    /// `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, now: Time, rtt: Option<Duration>) {
        let is_expired = now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(rtt) = rtt
            && (rtt < self.min_rtt || is_expired)
        {
            (self.min_rtt, self.min_rtt_at) = (rtt, now);
        }
        if is_expired && !self.restarts && !matches!(self.state, State::ProbeRtt(_)) {
            self.save_window();
            self.state = State::ProbeRtt(None);
        }
        if let State::ProbeRtt(until) = self.state {
            self.delivery.on_app_limited(); // low samples of the rate do not count
            match until {
                None if self.delivery.in_flight() <= self.min_window() => {
                    self.state = State::ProbeRtt(Some(now + PROBE_RTT_TIME));
                    self.round_done = false;
                    self.rounds.restart(self.delivery.delivered());
                }
                None => {}
                Some(_) => {
                    self.round_done |= self.rounds.is_start;
                    self.check_probe_rtt_done(now);
                }
            }
        }
        self.restarts = false;
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
        if matches!(self.state, State::ProbeRtt(Some(until)) if self.round_done && now > until) {
            self.min_rtt_at = now;
            self.window = self.window.max(self.prior_window);
            if self.full_pipe.reached {
                self.start_cycle(now);
            } else {
                self.state = State::Startup;
            }
        }
    }

    /// The last window that neither recovery nor `ProbeRtt` reduced (`bbr_save_cwnd`).
    fn save_window(&mut self) {
        let is_reduced = self.recovery.is_some() || matches!(self.state, State::ProbeRtt(_));
        self.prior_window = if is_reduced { self.prior_window.max(self.window) } else { self.window };
    }

    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = self.bandwidth.get().scale(gain * MARGIN);
        if self.full_pipe.reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// `bbr_set_cwnd`.
    fn set_window(&mut self, delivered: Bytes) {
        let gain = match self.state {
            State::Startup | State::Drain => HIGH_GAIN,
            State::ProbeBw(_) => WINDOW_GAIN,
            State::ProbeRtt(_) => 1.0,
        };
        let is_conserving = self.recovery == Some(true);
        if is_conserving {
            self.window = self.window.max(self.delivery.in_flight() + delivered);
        } else {
            let first = self.packet * self.config.initial_window;
            let target = self.in_flight_for(gain) + self.aggregation.extra();
            if self.full_pipe.reached {
                self.window = (self.window + delivered).min(target);
            } else if self.window < target || self.delivery.delivered() < first {
                self.window += delivered;
            }
        }
        self.window = self.window.max(self.min_window());
        if matches!(self.state, State::ProbeRtt(_)) {
            self.window = self.window.min(self.min_window());
        }
    }
}

impl Algorithm for Bbr1 {
    type Config = Config;

    fn new(config: &Config, random: Random) -> Self {
        Self {
            config: config.clone(),
            random,
            packet: Bytes::ZERO,
            state: State::Startup,
            delivery: DeliveryRate::default(),
            rounds: Rounds::default(),
            full_pipe: FullPipe::default(),
            bandwidth: WindowedMax::default(),
            rounds_without_sample: 0,
            min_rtt: Duration::ZERO,
            min_rtt_at: Time::ZERO,
            aggregation: AckAggregation::default(),
            gain_since: Time::ZERO,
            restarts: false,
            round_done: false,
            recovery: None,
            window: Bytes::ZERO,
            prior_window: Bytes::ZERO,
            pacing_rate: Rate::ZERO,
            pacer: Pacer::default(),
        }
    }
}

impl Controller for Bbr1 {
    fn on_path(&mut self, now: Time, path: &Path) {
        *self = Self::new(&self.config, self.random.clone());
        self.packet = path.packet;
        self.window = path.packet * self.config.initial_window;
        (self.min_rtt, self.min_rtt_at) = (path.rtt, now);
        self.aggregation.restart(now);
        let span = if path.rtt > Duration::ZERO { path.rtt } else { Duration::from_millis(1) };
        self.pacing_rate = Rate::of(self.window, span).scale(HIGH_GAIN);
        self.pacer.reset(now);
    }

    fn on_packet_size(&mut self, _now: Time, packet: Bytes) {
        self.packet = packet;
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.delivery.on_sent(now, sent);
        self.pacer.sent(now, sent.bytes, self.pacing_rate);
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Unsent(bytes) => self.pacer.give_back(bytes, self.pacing_rate),
            Notice::Unpaced => self.pacer.bound(now),
            Notice::AppLimited => self.delivery.on_app_limited(),
            Notice::SpuriousLoss => {
                self.full_pipe.restart(Rate::ZERO);
                self.window = self.window.max(self.prior_window);
            }
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        let sample = self.delivery.on_ack(now, ack);
        if ack.delivered == Bytes::ZERO {
            return;
        }
        let has_losses = sample.lost > Bytes::ZERO;
        self.update_bandwidth(&sample);
        if self.rounds.is_start && self.recovery == Some(true) {
            self.recovery = Some(false);
        }
        if self.recovery.is_some() && !ack.recovering {
            self.recovery = None;
            self.window = self.window.max(self.prior_window);
        }
        self.aggregation.update(now, ack.delivered, self.bandwidth.get(), self.window);
        self.update_cycle(now, has_losses);
        self.check_full_pipe(now, &sample);
        self.update_min_rtt(now, ack.rtt);
        self.set_pacing_rate(self.pacing_gain());
        self.set_window(ack.delivered);
    }

    fn on_loss(&mut self, _now: Time, loss: &Loss) {
        self.delivery.on_loss(loss);
        let in_flight = self.delivery.in_flight();
        if self.recovery.is_none() {
            self.save_window();
            self.rounds.restart(self.delivery.delivered());
            self.window = in_flight.max(self.packet);
            self.recovery = Some(true);
        } else {
            self.window = self.window.saturating_sub(loss.bytes).max(self.packet);
        }
        if loss.kind == LossKind::Persistent {
            self.save_window();
            (self.window, self.recovery) = (in_flight + self.packet, Some(false));
            self.full_pipe.restart(Rate::ZERO);
        }
    }

    fn on_idle(&mut self, now: Time, _idle: Duration, _timeout: Duration) {
        if !self.delivery.is_app_limited() {
            return;
        }
        self.restarts = true;
        self.aggregation.restart(now);
        match self.state {
            State::ProbeBw(_) => self.set_pacing_rate(1.0),
            State::ProbeRtt(_) => self.check_probe_rtt_done(now),
            State::Startup | State::Drain => {}
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
        out.add("max_bandwidth_bps", self.bandwidth.get().as_bps_f64());
        out.add("model_min_rtt_s", self.min_rtt.as_secs_f64());
    }

    fn state(&self) -> &'static str {
        match self.state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::ProbeBw(_) => "probe_bw",
            State::ProbeRtt(_) => "probe_rtt",
        }
    }
}

#[cfg(test)]
mod tests;
