//! A video player that chooses bitrates by its buffer: BBA-0 (Huang and others, "A Buffer-Based Approach to Rate
//! Adaptation", SIGCOMM 2014, section 4 and Algorithm 1).
//!
//! ```text
//!   bitrate f(B)
//!     R_max            ┌──────────        B      seconds of video in the buffer
//!                    ╱ │                  f(B)   linear from R_min to R_max over the cushion
//!     R_min  ──────╱   │                  the bitrate changes only if f(B) passes the next higher or lower rung
//!            reservoir  cushion  B        of the ladder
//! ```
//!
//! The player requests one segment after the other, the first at the lowest bitrate, and pauses while none fits into
//! the buffer. Playback begins with the first segment, and stalls while the buffer is empty.
//!
//! *Requests* are real: the player writes [`REQUEST`] bytes to its own stream of the connection, and the server, which
//! is the flow's sender, writes the segment when they have arrived. So each segment costs a round trip in which the
//! connection may be idle. The server opens the connection: the first request is half a round trip later than after a
//! handshake by the player.
//!
//! *Deviations*: segments have a constant bitrate. One segment is buffered before playback resumes, which the paper
//! leaves open. Values that the paper gives in seconds of its buffer of 240 s scale with the buffer.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::{Application, End, Event, Path, Reply, Report, Settings, Workload, ensure, levels};

/// Bytes of a request: about the size of a browser's GET with its header fields.
pub const REQUEST: Bytes = Bytes::new(400);

/// A video and its player.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The bitrates of the video, from the lowest to the highest. Required.
    pub ladder: Vec<Rate>,
    /// Playing time of a segment.
    #[default(Duration::from_secs(4))]
    pub segment: Duration,
    /// Playing time that fits into the buffer (section 4).
    #[default(Duration::from_secs(240))]
    pub buffer: Duration,
    /// The lowest bitrate is chosen below this buffer level; the default is 90 s of 240 s (section 4).
    pub reservoir: Option<Duration>,
    /// The part above it over which the map rises to the highest bitrate; by default up to 216 s of 240 s (section 4).
    pub cushion: Option<Duration>,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let valid = "bitrates from the lowest to the highest: [\"235 kb/s\", \"750 kb/s\"]";
        levels::check("ladder", &self.ladder, valid)?;
        ensure(
            self.size(0) > Bytes::ZERO,
            "`segment` has no bytes at the lowest bitrate; make it longer, for example \"4 s\"",
        )?;
        let min = self.segment * 4;
        ensure(self.buffer >= min, format!("`buffer` is shorter than four segments; use {min} or more"))?;
        let ((reservoir, cushion), max) = (self.map(), self.max_end());
        let end = reservoir + cushion;
        ensure(
            end <= max && cushion > Duration::ZERO,
            format!(
                "`reservoir` and `cushion` end at {end}; the cushion must end within {max}, two segments below the buffer"
            ),
        )
    }
}

impl Config {
    /// The reservoir and the cushion.
    fn map(&self) -> (Duration, Duration) {
        let reservoir = self.reservoir.unwrap_or(self.buffer * 90 / 240);
        let end = (self.buffer * 216 / 240).min(self.max_end());
        (reservoir, self.cushion.unwrap_or(end.saturating_sub(reservoir)))
    }

    /// The highest level at which the map may end: the highest bitrate must be chosen at the level at which a player
    /// with a full buffer requests, a segment below it or slightly lower if its timer is late.
    fn max_end(&self) -> Duration {
        self.buffer.saturating_sub(self.segment * 2)
    }

    fn size(&self, rung: usize) -> Bytes {
        self.ladder[rung].bytes_in(self.segment)
    }
}

/// A player and its server.
#[derive(Debug, SmartDefault)]
pub struct Video {
    config: Config,
    reservoir: Duration,
    cushion: Duration,
    /// True after the stop: nothing more is requested or sent.
    stopped: bool,
    // The server.
    /// The number of requests answered.
    answered: u64,
    // The player.
    /// The time at which the viewer started the player.
    #[default(Time::MAX)]
    started_at: Time,
    /// The rung of the segment that was requested last.
    rung: usize,
    /// Whether a requested segment has not arrived yet.
    requested: bool,
    /// Bytes of all segments requested.
    requested_bytes: Bytes,
    /// The time of the next request after a pause; [`Time::MAX`] if the player does not pause.
    #[default(Time::MAX)]
    resume: Time,
    playback: Playback,
    /// Segments that have arrived, and the sum of their bitrates in bits per second.
    segments: u64,
    bitrates: f64,
    switches: u64,
}

impl Workload for Video {
    type Config = Config;

    fn new(config: &Config, _: Option<Bytes>, _: Random) -> Self {
        let (reservoir, cushion) = config.map();
        Self { config: config.clone(), reservoir, cushion, ..Self::default() }
    }
}

impl Application for Video {
    fn on_start(&mut self, now: Time, _: Path) -> Reply {
        self.started_at = now;
        Reply::NONE
    }

    fn on_event(&mut self, now: Time, end: End, event: &Event) -> Reply {
        match (end, *event) {
            (End::Sender, Event::Read { total, .. }) => self.on_request(total),
            (End::Receiver, Event::Opened(_)) => self.request(now),
            (End::Receiver, Event::Read { total, ended }) => {
                self.stopped |= ended;
                let reply =
                    if self.requested && total >= self.requested_bytes { self.on_segment(now) } else { Reply::NONE };
                Reply { finish: ended, ..reply }
            }
            _ => Reply::NONE,
        }
    }

    fn deadline(&self, end: End) -> Time {
        if end == End::Receiver { self.resume } else { Time::MAX }
    }

    fn on_deadline(&mut self, now: Time, _: End) -> Reply {
        self.request(now)
    }

    fn on_stop(&mut self, _: Time) {
        self.stopped = true;
        self.resume = Time::MAX;
    }

    fn report(&mut self, now: Time) -> Report {
        self.playback.advance(now);
        let Playback { first, stalls, stalled, stalled_since, .. } = self.playback;
        let stalling = stalled_since.map_or(Duration::ZERO, |since| now.since(since));
        Report {
            startup_s: first.map(|first| first.since(self.started_at).as_secs_f64()),
            stalls: Some(stalls),
            stalled_s: Some((stalled + stalling).as_secs_f64()),
            bitrate_mean_bps: (self.segments > 0).then(|| self.bitrates / self.segments as f64),
            switches: Some(self.switches),
            ..Report::default()
        }
    }
}

impl Video {
    /// The server has read `total` bytes of requests. The player sends the next request after the response to the last.
    fn on_request(&mut self, total: Bytes) -> Reply {
        if self.stopped || total < REQUEST * (self.answered + 1) {
            return Reply::NONE;
        }
        self.answered += 1;
        Reply::write(self.config.size(self.rung).as_u64())
    }

    /// A segment has arrived.
    fn on_segment(&mut self, now: Time) -> Reply {
        self.requested = false;
        self.segments += 1;
        self.bitrates += self.config.ladder[self.rung].as_bps_f64();
        self.playback.add(now, self.config.segment);
        self.request(now)
    }

    /// Requests the next segment, now or when it fits into the buffer.
    fn request(&mut self, now: Time) -> Reply {
        self.resume = Time::MAX;
        if self.stopped || self.requested {
            return Reply::NONE;
        }
        self.playback.advance(now);
        let level = self.playback.level;
        let beyond = (level + self.config.segment).saturating_sub(self.config.buffer);
        if beyond > Duration::ZERO {
            self.resume = now + beyond;
            return Reply::NONE;
        }
        let rung = self.choose(level);
        self.switches += u64::from(rung != self.rung);
        self.rung = rung;
        self.requested = true;
        self.requested_bytes += self.config.size(rung);
        Reply::write(REQUEST.as_u64())
    }

    /// The rung for a buffer level (Algorithm 1).
    fn choose(&self, level: Duration) -> usize {
        let ladder = &self.config.ladder;
        let (last, bitrate) = (ladder.len() - 1, |rung: usize| ladder[rung].as_bps_f64());
        if level <= self.reservoir {
            return 0;
        }
        if level >= self.reservoir + self.cushion {
            return last;
        }
        let above = (level - self.reservoir).as_secs_f64() / self.cushion.as_secs_f64();
        let map = bitrate(0) + above * (bitrate(last) - bitrate(0)); // f(B)
        if map >= bitrate((self.rung + 1).min(last)) {
            (0..=last).rev().find(|rung| bitrate(*rung) < map).unwrap_or(0)
        } else if map <= bitrate(self.rung.saturating_sub(1)) {
            (0..=last).find(|rung| bitrate(*rung) > map).unwrap_or(last)
        } else {
            self.rung
        }
    }
}

/// The state of playback.
#[derive(Debug, Default)]
struct Playback {
    /// Playing time in the buffer, at `since`.
    level: Duration,
    since: Time,
    /// The start of playback.
    first: Option<Time>,
    /// The start of the current stall.
    stalled_since: Option<Time>,
    stalls: u64,
    /// The total length of earlier stalls.
    stalled: Duration,
}

impl Playback {
    /// Plays up to `now`.
    fn advance(&mut self, now: Time) {
        let span = now.since(self.since);
        if self.first.is_some() && self.stalled_since.is_none() {
            if span > self.level {
                self.stalls += 1;
                self.stalled_since = Some(self.since + self.level);
            }
            self.level = self.level.saturating_sub(span);
        }
        self.since = now.max(self.since);
    }

    /// Adds a segment.
    fn add(&mut self, now: Time, segment: Duration) {
        self.advance(now);
        self.level += segment;
        self.first.get_or_insert(now);
        if let Some(since) = self.stalled_since.take() {
            self.stalled += now.since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    fn kbps(kbps: u64) -> Rate {
        Rate::from_bps(kbps * 1000)
    }

    /// Bitrates of 1, 2, ... 5 Mb/s over a cushion from 10 to 50 s: 0.1 Mb/s a second.
    fn config() -> Config {
        Config {
            ladder: (1..=5).map(|mbps| kbps(mbps * 1000)).collect(),
            segment: Duration::from_secs(2),
            buffer: Duration::from_secs(60),
            reservoir: Some(Duration::from_secs(10)),
            cushion: Some(Duration::from_secs(40)),
        }
    }

    #[test]
    fn the_rung_changes_if_the_map_passes_another() {
        let mut video = Video::new(&config(), None, Random::from_seed(1));
        for (level, before, after) in [
            (10, 4, 0), // the reservoir
            (19, 0, 0), // f = 1.9 Mb/s is below 2
            (21, 0, 1), // f = 2.1
            (38, 0, 2), // f = 3.8: the highest below it
            (29, 2, 2), // f = 2.9: 2 is the next lower rung
            (20, 2, 2), // f = 2.0: the lowest above it
            (19, 2, 1), // f = 1.9
            (50, 1, 4), // the end of the cushion
            (49, 4, 4),
        ] {
            video.rung = before;
            assert_eq!(video.choose(Duration::from_secs(level)), after, "{level} s at {before}");
        }
    }

    /// Runs a player whose segments arrive `took(bytes)` seconds after their requests, up to `end`.
    fn play(config: &Config, end: f64, took: impl Fn(f64) -> f64) -> (Video, u64) {
        let mut video = Video::new(config, None, Random::from_seed(1));
        let _ = video.on_start(at(0.0), Path::default());
        let mut reply = video.on_event(at(0.0), End::Receiver, &Event::Opened(Path::default()));
        let (mut now, mut requested, mut sent) = (0.0, 0, 0);
        while now < end {
            if reply.write == 0 {
                now = video.deadline(End::Receiver).as_secs_f64();
                reply = video.on_deadline(at(now), End::Receiver);
                continue;
            }
            requested += reply.write;
            let read = |total, ended| Event::Read { total: Bytes::new(total), ended };
            assert_eq!(video.on_event(at(now), End::Sender, &read(requested - 1, false)), Reply::NONE);
            let response = video.on_event(at(now), End::Sender, &read(requested, false)).write;
            sent += response;
            now += took(response as f64);
            reply = video.on_event(at(now), End::Receiver, &read(sent, false));
        }
        (video, sent)
    }

    #[test]
    fn a_fast_path_fills_the_buffer_at_the_highest_bitrate() {
        let (mut video, _) = play(&config(), 1000.0, |_| 0.1);
        let report = video.report(at(1000.0));
        assert_eq!((report.startup_s, report.stalls, report.stalled_s), (Some(0.1), Some(0), Some(0.0)));
        assert!(report.bitrate_mean_bps.unwrap() > 4.7e6, "{report:?}");
        assert!(video.playback.level > Duration::from_secs(56), "{video:?}");
        // The bitrate rises once over the ladder: 0.1 s bring 2 s of video, so the map passes one rung after the other.
        assert_eq!(report.switches, Some(4));
    }

    /// A segment of 2 s takes 2.5 s: every segment except the first arrives 0.5 s after the buffer is empty.
    #[test]
    fn below_the_lowest_bitrate_it_stalls_for_the_rest() {
        let (mut video, _) = play(&config(), 100.0, |bytes| bytes * 8.0 / 0.8e6);
        let report = video.report(at(100.0));
        assert_eq!((report.startup_s, report.stalls, report.switches), (Some(2.5), Some(39), Some(0)));
        assert!((report.stalled_s.unwrap() - 39.0 * 0.5).abs() < 1e-6, "{report:?}");
        assert_eq!(report.bitrate_mean_bps, Some(1e6));
    }

    #[test]
    fn a_stopped_player_requests_nothing() {
        let (mut video, sent) = play(&config(), 10.0, |_| 1.0);
        video.on_stop(at(10.0));
        let read = Event::Read { total: Bytes::new(sent + 1_000_000_000), ended: true };
        let reply = video.on_event(at(11.0), End::Receiver, &read);
        assert_eq!(reply, Reply { finish: true, ..Reply::NONE });
        assert_eq!(video.deadline(End::Receiver), Time::MAX);
    }

    #[test]
    fn invalid_players_are_refused() {
        let refused = |change: fn(&mut Config)| {
            let mut config = config();
            change(&mut config);
            config.check().unwrap_err()
        };
        assert!(refused(|c| c.ladder.reverse()).contains("from the lowest to the highest"));
        assert!(refused(|c| c.buffer = Duration::from_secs(3)).contains("use 8 s or more"));
        assert!(refused(|c| c.cushion = Some(Duration::from_secs(49))).contains("within 56 s"));
        assert_eq!(Config { reservoir: None, cushion: None, ..config() }.check(), Ok(()));
    }
}
