//! The layered audio server of the Congestion Manager paper (sections 3.2.2 and 5.2): a synchronous sender.
//!
//! ```text
//! encodings   10, 20, 40, 80, 160, 320 kb/s      the highest one that its share of the path can carry
//! datagrams   1 kB each, size / encoding apart    sent by its own timer, not by the controller's grants
//! ```

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};

use crate::datagrams::check_size;
use crate::{Application, Carrier, End, Event, Path, Reply, Report, Settings, Workload, levels};

/// A layered audio stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Bytes of each datagram.
    pub datagrams: Bytes,
    /// The bitrates of the encodings, from the lowest to the highest.
    pub encodings: Vec<Rate>,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_size(self.datagrams)?;
        let valid = "rates from the lowest to the highest: [\"10 kb/s\", \"20 kb/s\"]";
        levels::check("encodings", &self.encodings, valid)
    }
}

/// A running audio stream.
#[derive(Debug, Clone, PartialEq)]
pub struct LayeredAudio {
    config: Config,
    current: usize,
    /// The time of the next datagram.
    next: Time,
    /// The current share, and the time of its last change or accounting.
    share: Rate,
    since: Time,
    started_at: Time,
    /// Time spent in each encoding.
    spent: Vec<Duration>,
    /// The share's integral: bits.
    offered: f64,
}

impl Workload for LayeredAudio {
    type Config = Config;
    const NEEDS_MANAGER: Option<&'static str> = Some("sends datagrams");
    const USES_SHARE: bool = true;

    fn carrier(config: &Config) -> Carrier {
        Carrier::Datagrams(config.datagrams)
    }

    fn new(config: &Config, _: Option<Bytes>, _: Random) -> Self {
        Self {
            config: config.clone(),
            current: 0,
            next: Time::MAX,
            share: Rate::ZERO,
            since: Time::MAX,
            started_at: Time::MAX,
            spent: vec![Duration::ZERO; config.encodings.len()],
            offered: 0.0,
        }
    }
}

impl Application for LayeredAudio {
    fn on_start(&mut self, now: Time, path: Path) -> Reply {
        (self.next, self.since, self.started_at) = (now, now, now);
        self.share = path.share;
        self.current = just_below(&self.config.encodings, self.share);
        Reply::NONE
    }

    fn on_event(&mut self, now: Time, _: End, event: &Event) -> Reply {
        if let Event::ShareChanged(path) = event {
            self.on_change(now, path.share);
        }
        Reply::NONE
    }

    fn deadline(&self, end: End) -> Time {
        if end == End::Sender { self.next } else { Time::MAX }
    }

    fn on_deadline(&mut self, now: Time, _: End) -> Reply {
        let due = self.next <= now;
        if due {
            self.next += self.encoding().time_to_send(self.config.datagrams);
        }
        Reply { send_datagram: due, ..Reply::NONE }
    }

    fn on_stop(&mut self, _: Time) {
        self.next = Time::MAX;
    }

    fn report(&mut self, now: Time) -> Report {
        let just_below_share = self.just_below_share(now);
        let all = now.since(self.started_at).as_secs_f64();
        let main = self.spent(now).max_by_key(|(_, spent)| *spent).filter(|_| all > 0.0);
        Report {
            just_below_share,
            main_encoding_bps: main.map(|(encoding, _)| encoding.as_bps_f64()),
            main_encoding_share: main.map(|(_, spent)| spent.as_secs_f64() / all),
            ..Report::default()
        }
    }
}

impl LayeredAudio {
    fn on_change(&mut self, now: Time, share: Rate) {
        self.account_until(now);
        let before = self.encoding();
        self.share = share;
        self.current = just_below(&self.config.encodings, self.share);
        let after = self.encoding();
        if before != after && self.next > now {
            // The rest of the gap scales with the interval between datagrams.
            let rest = self.next.since(now).scale(before.as_bps_f64() / after.as_bps_f64());
            self.next = now + rest;
        }
    }

    fn account_until(&mut self, now: Time) {
        let span = now.since(self.since);
        self.spent[self.current] += span;
        self.offered += self.share.as_bps_f64() * span.as_secs_f64();
        self.since = now;
    }

    /// The current encoding.
    pub fn encoding(&self) -> Rate {
        self.config.encodings.get(self.current).copied().unwrap_or(Rate::ZERO)
    }

    /// The time spent in each encoding up to `now`, from the lowest.
    pub fn spent(&mut self, now: Time) -> impl Iterator<Item = (Rate, Duration)> {
        self.account_until(now);
        self.config.encodings.iter().copied().zip(self.spent.iter().copied())
    }

    /// The fraction of time up to `now` in the highest encoding below the mean share; `None` if no time has passed.
    fn just_below_share(&mut self, now: Time) -> Option<f64> {
        self.account_until(now);
        let all = now.since(self.started_at).as_secs_f64();
        let best = just_below(&self.config.encodings, Rate::from_bps_f64(self.offered / all));
        (all > 0.0).then(|| self.spent[best].as_secs_f64() / all)
    }
}

/// The index of the highest encoding that `share` can carry, or of the lowest.
fn just_below(encodings: &[Rate], share: Rate) -> usize {
    encodings.partition_point(|encoding| *encoding <= share).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kbps(n: u64) -> Rate {
        Rate::from_bps(n * 1000)
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn share(kbps: u64) -> Path {
        Path { share: Rate::from_bps(kbps * 1000), ..Path::default() }
    }

    fn started(encodings: &[u64], first: u64) -> LayeredAudio {
        let encodings = encodings.iter().copied().map(kbps).collect();
        let mut audio =
            LayeredAudio::new(&Config { datagrams: Bytes::new(1000), encodings }, None, Random::from_seed(1));
        assert_eq!(audio.on_start(at(0), share(first)), Reply::NONE);
        audio
    }

    #[test]
    fn it_uses_the_highest_encoding_that_its_share_carries() {
        let mut audio = started(&[10, 20, 40, 80, 160, 320], 85);
        for (given, encoding) in [(85, 80), (79, 40), (5, 10), (400, 320), (160, 160)] {
            let _ = audio.on_event(at(0), End::Sender, &Event::ShareChanged(share(given)));
            assert_eq!(audio.encoding(), kbps(encoding));
        }
    }

    #[test]
    fn its_datagrams_leave_at_the_rate_of_its_encoding() {
        let mut audio = started(&[40, 80], 80);
        let mut departures = Vec::new();
        for ms in 0..1000 {
            if ms == 450 {
                let _ = audio.on_event(at(450), End::Sender, &Event::ShareChanged(share(40)));
            }
            departures.extend(audio.on_deadline(at(ms), End::Sender).send_datagram.then_some(ms));
        }
        assert_eq!(departures, [0, 100, 200, 300, 400, 550, 750, 950]);
        let each = Duration::from_millis(450);
        assert_eq!(audio.spent(at(900)).collect::<Vec<_>>(), [(kbps(40), each), (kbps(80), each)]);
        assert_eq!(audio.report(at(900)).just_below_share, Some(0.5), "its mean share carries 40 kb/s");
        let report = audio.report(at(1350));
        assert_eq!((report.main_encoding_bps, report.main_encoding_share), (Some(40e3), Some(2.0 / 3.0)));
    }
}
