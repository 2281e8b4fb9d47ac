//! Real-time media: frames at a constant rate, each of which is of use only if it arrives within a deadline.
//!
//! ```text
//! captured   0    1/f   2/f  ...          frame n is captured at n/f after the connection opened, and has R/f bytes
//!            └─d0─┘└d1┘└──d2──┘ arrived   it is late if its delay d is more than the deadline, or if it does not arrive
//! ```
//!
//! The sender never has more to send than its encoder has produced, so it is limited by the application, at the rate `R`.
//! Frames are on one stream, so a lost packet delays the frames behind it, too, as with RTP over one QUIC stream or RTMP.
//! The encoder does not adapt: on a slower path frames queue at the sender, and all are late.
//!
//! The default deadline is that of ITU-T G.114 for conversations, 150 ms from end to end.
//! *Not modelled*: key frames, whose sizes differ, and encoders that skip frames or change their rate.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::{Application, End, Event, Path, Reply, Report, Settings, Workload, ensure};

/// A source of media.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The rate of the encoder. Required.
    pub rate: Rate,
    /// Frames per second.
    #[default(30)]
    pub frames: u64,
    /// The maximum delay of a frame that is of use.
    #[default(Duration::from_millis(150))]
    pub deadline: Duration,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        ensure(
            (1..=1000).contains(&self.frames),
            format!("`frames` of {}; use 1 to 1000 per second: 30", self.frames),
        )?;
        ensure(
            self.rate > Rate::ZERO && self.bytes(1) > Bytes::ZERO,
            "`rate` is less than a byte for each frame: write rate = \"2 Mb/s\"",
        )?;
        ensure(self.deadline > Duration::ZERO, "`deadline` of 0: write deadline = \"150 ms\"")
    }
}

impl Config {
    /// When frame `n` is captured, after the first one.
    fn captured(&self, n: u64) -> Duration {
        Duration::from_secs(n) / self.frames
    }

    /// The bytes of the first `n` frames.
    fn bytes(&self, n: u64) -> Bytes {
        self.rate.bytes_in(self.captured(n))
    }
}

/// A source and its viewer.
#[derive(Debug, SmartDefault)]
pub struct Media {
    config: Config,
    /// When the flow started.
    #[default(Time::MAX)]
    started_at: Time,
    /// The time of the first frame.
    #[default(Time::MAX)]
    first: Time,
    // The source.
    /// The number of frames sent.
    sent: u64,
    /// The time of the next frame.
    #[default(Time::MAX)]
    next: Time,
    // The viewer.
    /// The delays of the frames that have arrived.
    delays: Vec<Duration>,
}

impl Workload for Media {
    type Config = Config;

    fn new(config: &Config, _: Option<Bytes>, _: Random) -> Self {
        Self { config: config.clone(), ..Self::default() }
    }
}

impl Application for Media {
    fn on_start(&mut self, now: Time, _: Path) -> Reply {
        self.started_at = now;
        Reply::NONE
    }

    fn on_event(&mut self, now: Time, end: End, event: &Event) -> Reply {
        match (end, *event) {
            (End::Sender, Event::Opened(_)) => {
                (self.first, self.next) = (now, now);
                self.send(now)
            }
            (End::Receiver, Event::Read { total, ended }) => {
                self.receive(now, total);
                Reply { finish: ended, ..Reply::NONE }
            }
            _ => Reply::NONE,
        }
    }

    fn deadline(&self, end: End) -> Time {
        if end == End::Sender { self.next } else { Time::MAX }
    }

    fn on_deadline(&mut self, now: Time, _: End) -> Reply {
        self.send(now)
    }

    fn on_stop(&mut self, _: Time) {
        self.next = Time::MAX;
    }

    fn report(&mut self, now: Time) -> Report {
        // A frame that has not arrived has a delay of at least its age. Its fate is open until that is the deadline.
        let waiting = (self.delays.len() as u64..self.sent).map(|n| now.since(self.first + self.config.captured(n)));
        let is_known = |delay: &Duration| *delay > self.config.deadline;
        let mut delays: Vec<_> = self.delays.iter().copied().chain(waiting.filter(is_known)).collect();
        delays.sort_unstable();
        let quantile = |share: f64| {
            let rank = (share * delays.len() as f64).ceil() as usize;
            delays.get(rank.saturating_sub(1)).map(|delay| delay.as_secs_f64())
        };
        let late = delays.iter().filter(|delay| **delay > self.config.deadline).count();
        // A connection that has not opened has no frames, and is late as a whole.
        let has_failed = self.first == Time::MAX && now.since(self.started_at) > self.config.deadline;
        let late_share = (!delays.is_empty()).then(|| late as f64 / delays.len() as f64);
        Report {
            frames: Some(delays.len() as u64),
            late_share: late_share.or(has_failed.then_some(1.0)),
            frame_delay_p50_s: quantile(0.50),
            frame_delay_p99_s: quantile(0.99),
            ..Report::default()
        }
    }
}

impl Media {
    /// Sends the frames that have been captured by now.
    fn send(&mut self, now: Time) -> Reply {
        let before = self.config.bytes(self.sent);
        while self.next <= now {
            self.sent += 1;
            self.next = self.first + self.config.captured(self.sent);
        }
        Reply::write((self.config.bytes(self.sent) - before).as_u64())
    }

    /// The viewer has read `total` bytes.
    fn receive(&mut self, now: Time, total: Bytes) {
        loop {
            let frame = self.delays.len() as u64;
            if frame == self.sent || total < self.config.bytes(frame + 1) {
                return;
            }
            self.delays.push(now.since(self.first + self.config.captured(frame)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    /// 50 frames a second of 1000 bytes each, of use for 100 ms.
    fn media() -> Media {
        let config = Config { rate: Rate::from_bps(400_000), frames: 50, deadline: Duration::from_millis(100) };
        config.check().unwrap();
        Media::new(&config, None, Random::from_seed(1))
    }

    fn read(media: &mut Media, at: u64, total: u64) {
        let event = Event::Read { total: Bytes::new(total), ended: false };
        assert_eq!(media.on_event(ms(at), End::Receiver, &event), Reply::NONE);
    }

    #[test]
    fn frames_leave_at_their_times() {
        let mut media = media();
        assert_eq!(media.on_start(ms(0), Path::default()), Reply::NONE);
        assert_eq!(media.deadline(End::Sender), Time::MAX);
        assert_eq!(media.on_event(ms(7), End::Sender, &Event::Opened(Path::default())), Reply::write(1000));
        for at in [27, 47, 67] {
            assert_eq!(media.deadline(End::Sender), ms(at));
            assert_eq!(media.on_deadline(ms(at), End::Sender), Reply::write(1000));
        }
        // A late timer sends what has been captured since.
        assert_eq!(media.on_deadline(ms(130), End::Sender), Reply::write(3000));
        media.on_stop(ms(131));
        assert_eq!(media.deadline(End::Sender), Time::MAX);
    }

    #[test]
    fn the_rate_is_exact_with_any_number_of_frames() {
        let config = Config { rate: Rate::from_bps(1_000_000), frames: 7, ..Config::default() };
        assert_eq!(config.bytes(7 * 60), Bytes::new(60 * 125_000));
        assert!((1..420).all(|n| (17_857..=17_858).contains(&(config.bytes(n) - config.bytes(n - 1)).as_u64())));
    }

    #[test]
    fn frames_count_as_late_by_their_delay_or_age() {
        let mut media = media();
        let _ = media.on_event(ms(0), End::Sender, &Event::Opened(Path::default()));
        for n in 1..10 {
            let _ = media.on_deadline(ms(20 * n), End::Sender);
        }
        read(&mut media, 50, 1999); // frame 0: 50 ms
        read(&mut media, 60, 2000); // frame 1: 40 ms
        read(&mut media, 160, 5000); // frames 2, 3, 4: 120, 100, 80 ms
        // At 230 ms frames 5 and 6 are 130 and 110 ms old. The fate of frames 7, 8 and 9 is open.
        let report = media.report(ms(230));
        assert_eq!((report.frames, report.late_share), (Some(7), Some(3.0 / 7.0)));
        assert_eq!((report.frame_delay_p50_s, report.frame_delay_p99_s), (Some(0.1), Some(0.13)));
    }

    #[test]
    fn a_connection_that_does_not_open_is_late() {
        let mut media = media();
        let _ = media.on_start(ms(5), Path::default());
        assert_eq!(media.report(ms(105)).late_share, None);
        let report = media.report(ms(106));
        assert_eq!((report.frames, report.late_share), (Some(0), Some(1.0)));
    }

    #[test]
    fn invalid_sources_are_refused() {
        let valid = Config { rate: Rate::from_bps(1_000_000), ..Config::default() };
        for (config, advice) in [
            (Config { rate: Rate::ZERO, ..valid.clone() }, "2 Mb/s"),
            (Config { frames: 0, ..valid.clone() }, "use 1 to 1000"),
            (Config { deadline: Duration::ZERO, ..valid.clone() }, "150 ms"),
        ] {
            assert!(config.check().unwrap_err().contains(advice));
        }
        assert_eq!(valid.check(), Ok(()));
    }
}
