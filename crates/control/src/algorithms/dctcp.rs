//! DCTCP (RFC 8257; Alizadeh and others, "Data Center TCP (DCTCP)", SIGCOMM 2010): TCP that reduces its window by the
//! extent of congestion, for networks whose routers mark early (the router `step-marking`).
//!
//! ```text
//! alpha  =  alpha (1 - g) + g M          once a window of data; M: its marked share          section 3.3, steps 6 to 8
//! marks:      W = S = W (1 - alpha / 2)  once a window of data                               section 3.3, step 9
//! a loss:     W = S = W / 2              as NewReno, with its growth and slow start          sections 3.4, 3.5
//! increase:   not by marked packets      ECN-Echo increases no window                     section 3.2; RFC 3168, 6.1.2
//! ```
//!
//! `alpha` is near 0 with few marks, near 1 with all packets marked, so DCTCP halves its window only in full congestion.
//! With step marking at a queue of `K`, and `N` flows on a path of `C T` packets, it oscillates around `W* = (C T + K) /
//! N` (SIGCOMM paper, section 3.3):
//!
//! ```text
//! alpha  ~  sqrt(2 / W*)                              eq. (6)
//! the window's amplitude  ~  sqrt(W* / 2)             eq. (7), (8): W* alpha / 2
//! ```
//!
//! which holds while `g < 1.386 / sqrt(2 W*)` (eq. (15)): with 1/16 up to 246 packets.
//!
//! The receiver reports the code of each packet, so `M` is exact (section 3.2 has two states for that), also with delayed
//! acknowledgements. DCTCP is for networks under one administration (section 5): beside classic TCP at a classic
//! bottleneck it gets more than its share.
//!
//! *Deviations* from RFC 5681, to which sections 3.4 and 3.5 refer: growth counts the bytes that an acknowledgement
//! reports, up to a packet for each, and a loss halves the window, not the bytes in flight.

use rampmeter_units::settings::check_range;
use rampmeter_units::{Bytes, Duration, Ecn, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::parts::check::check_first_window;
use crate::parts::marked_share::{MarkedShare, Reported};
use crate::rules::{AckEvent, Amount, Congestion, Rules, SlowStart, Windowed};
use crate::{Ack, Settings};

/// `alpha` before the first window of data (section 3.3): the first marks halve the window.
const INITIAL_ALPHA: f64 = 1.0;

/// DCTCP.
pub type Dctcp = Windowed<DctcpRules>;

/// Settings of DCTCP.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// How the first slow start ends.
    pub slow_start: SlowStart,
    /// `g`, the weight of the newest window of data in `alpha` (section 4.2).
    #[default(1.0 / 16.0)]
    pub gain: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        check_range("gain", self.gain, 0.0001..=0.99, "as a weight")
    }
}

/// The window rules of DCTCP.
#[derive(Debug, Clone)]
pub struct DctcpRules {
    marked: MarkedShare,
}

impl Rules for DctcpRules {
    type Config = Config;

    const ECN: Option<Ecn> = Some(Ecn::Ect0);

    /// Receivers echo the mark of each packet (section 3.2): only marked packets do not increase the window.
    const STOPS_AFTER_MARKS: bool = false;

    const NEEDS: Option<&'static str> = Some("needs the ECN code of each packet, and routers that mark early");

    fn new(config: &Config) -> Self {
        Self { marked: MarkedShare::new(INITIAL_ALPHA, config.gain) }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn first_slow_start(config: &Config) -> SlowStart {
        config.slow_start
    }

    fn count_marks(&mut self, now: Time, ack: &Ack<'_>, packet: Bytes) {
        self.marked.on_ack(now, ack, Reported::of(ack, packet), Duration::ZERO);
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        let reported = Reported::of(event.ack, event.packet);
        Amount::Packets(event.delivered * reported.unmarked_share() / event.window)
    }

    fn decrease(&mut self, congestion: &Congestion) -> Amount {
        let share = if congestion.is_mark { self.marked.alpha() } else { 1.0 };
        Amount::Packets(congestion.window * (1.0 - share / 2.0)) // step 9; section 3.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests::TestFlow;
    use crate::testing::{PACKET, arrived};
    use crate::{Arrival, Controller, LossKind};

    const RTT: Duration = Duration::from_micros(100);

    fn flow(alpha: f64, window: f64) -> TestFlow<DctcpRules> {
        let mut flow = TestFlow::<DctcpRules>::in_congestion_avoidance(&Config::default(), window, RTT);
        flow.rules_mut().marked = MarkedShare::new(alpha, Config::default().gain);
        flow
    }

    #[test]
    fn marks_cost_half_of_alpha_and_a_loss_costs_half() {
        for (alpha, left) in [(1.0, 50.0), (0.5, 75.0), (0.02, 99.0)] {
            let mut flow = flow(alpha, 100.0);
            flow.mark();
            assert!((flow.window() - left).abs() < 1e-9, "{alpha}: {}", flow.window());
        }
        let mut flow = flow(0.02, 100.0);
        flow.lose(LossKind::Transient);
        assert!((flow.window() - 50.0).abs() < 1e-9);
    }

    #[test]
    fn unmarked_packets_increase_the_window_also_after_marks() {
        let mut flow = flow(0.0, 100.0);
        let mut increase = |number: u64, ecn| {
            let before = flow.window();
            let packet = |n, ecn| Arrival { number: number + n, bytes: PACKET, ecn, ..Arrival::default() };
            let arrivals = [packet(0, Ecn::Ect0), packet(1, ecn)];
            flow.tcp.on_ack(flow.now, &Ack { last_sent: number + 100, ..arrived(&arrivals, RTT) });
            flow.window() - before
        };
        assert!((increase(0, Ecn::Ect0) - 0.02).abs() < 1e-5);
        for number in [2, 4, 6] {
            assert!((increase(number, Ecn::Ce) - 0.01).abs() < 1e-5, "alpha is 0: marks cost nothing");
        }
        assert!((increase(8, Ecn::Ect0) - 0.02).abs() < 1e-5);
    }

    /// One flow and a threshold: all packets of a round trip are marked if the window exceeds `w_star`. Returns the
    /// means of alpha and the amplitude of the window.
    fn sawtooth(w_star: f64) -> (f64, f64) {
        let mut flow = flow(1.0, w_star);
        let (mut number, mut alphas, mut windows) = (0, Vec::new(), Vec::new());
        for round in 0..4000 {
            let ecn = if flow.window() > w_star { Ecn::Ce } else { Ecn::Ect0 };
            let packets = flow.window() as u64;
            for n in 0..packets {
                flow.now += RTT / packets;
                let arrivals = [Arrival { number: number + n, bytes: PACKET, ecn, ..Arrival::default() }];
                let last_sent = number + n + packets;
                flow.tcp.on_ack(flow.now, &Ack { last_sent, ..arrived(&arrivals, RTT) });
            }
            number += packets;
            if round >= 1000 {
                alphas.push(flow.rules().marked.alpha());
                windows.push(flow.window());
            }
        }
        let max = windows.iter().copied().fold(0.0, f64::max);
        let min = windows.iter().copied().fold(f64::MAX, f64::min);
        (alphas.iter().sum::<f64>() / alphas.len() as f64, max - min)
    }

    #[test]
    fn alpha_and_the_amplitude_are_those_of_the_papers_sawtooth() {
        // The paper's analysis needs g < 1.386 / sqrt(2 W*) (eq. (15)): windows below 246.
        for w_star in [50.0, 100.0, 200.0] {
            let (alpha, amplitude) = sawtooth(w_star);
            let (theory, swing) = ((2.0_f64 / w_star).sqrt(), (w_star / 2.0_f64).sqrt());
            assert!((alpha / theory - 1.0).abs() < 0.25, "{w_star}: alpha {alpha}, not {theory}");
            assert!((amplitude - swing).abs() < 0.25 * swing + 2.0, "{w_star}: {amplitude}, not {swing}");
        }
    }
}
