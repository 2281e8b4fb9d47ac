//! The layered audio server of the Congestion Manager paper (sections 3.2.2 and 5.2): a synchronous sender.
//!
//! ```text
//! encodings   10, 20, 40, 80, 160, 320 kb/s      the best one that its share of the path carries
//! datagrams   1 kB each, size / encoding apart    at times of its own: everything else is shaped around them
//! ```

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// An audio stream under way.
#[derive(Debug, Clone, PartialEq)]
pub struct LayeredAudio {
    /// From the lowest to the highest.
    encodings: Vec<Rate>,
    datagram: Bytes,
    current: usize,
    /// When the next datagram leaves.
    next: Time,
    /// The share of the moment, and since when.
    share: Rate,
    since: Time,
    began: Time,
    /// Time spent in each encoding.
    spent: Vec<Duration>,
    /// The share's integral: bits.
    offered: f64,
}

impl LayeredAudio {
    /// A stream that begins at `now` with this share of its path. `encodings` go from the lowest to the highest.
    pub fn new(now: Time, encodings: &[Rate], datagram: Bytes, share: Rate) -> Self {
        let mut audio = Self {
            encodings: encodings.to_vec(),
            datagram,
            current: 0,
            next: now,
            share,
            since: now,
            began: now,
            spent: vec![Duration::ZERO; encodings.len()],
            offered: 0.0,
        };
        audio.choose();
        audio
    }

    fn choose(&mut self) {
        self.current = just_below(&self.encodings, self.share);
    }

    /// Its share has changed (`cmapp_update`).
    pub fn on_change(&mut self, now: Time, share: Rate) {
        self.pass(now);
        let before = self.encoding();
        self.share = share;
        self.choose();
        let after = self.encoding();
        if before != after && self.next > now {
            // What of the gap is left is as much longer or shorter as its packets are now apart.
            let left = self.next.since(now).scale(before.as_bps_f64() / after.as_bps_f64());
            self.next = now + left;
        }
    }

    fn pass(&mut self, now: Time) {
        let span = now.since(self.since);
        self.spent[self.current] += span;
        self.offered += self.share.as_bps_f64() * span.as_secs_f64();
        self.since = now;
    }

    /// The encoding of the moment.
    pub fn encoding(&self) -> Rate {
        self.encodings.get(self.current).copied().unwrap_or(Rate::ZERO)
    }

    /// When the next datagram leaves.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Whether a datagram leaves at `now`.
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = self.next <= now;
        if due {
            self.next += self.encoding().time_to_send(self.datagram);
        }
        due
    }

    /// How long it has spent in each encoding up to `now`, from the lowest.
    pub fn spent(&mut self, now: Time) -> impl Iterator<Item = (Rate, Duration)> {
        self.pass(now);
        self.encodings.iter().copied().zip(self.spent.iter().copied())
    }

    /// Which part of its time up to `now` it spent in the encoding just below its mean share; none before any has passed.
    pub fn just_below_share(&mut self, now: Time) -> Option<f64> {
        self.pass(now);
        let all = now.since(self.began).as_secs_f64();
        let best = just_below(&self.encodings, Rate::from_bps_f64(self.offered / all));
        (all > 0.0).then(|| self.spent[best].as_secs_f64() / all)
    }
}

/// The place of the highest encoding that `share` carries, or of the lowest.
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

    #[test]
    fn it_takes_the_best_encoding_that_its_share_carries() {
        let encodings = [10, 20, 40, 80, 160, 320].map(kbps);
        let mut audio = LayeredAudio::new(at(0), &encodings, Bytes::new(1000), kbps(85));
        for (share, encoding) in [(85, 80), (79, 40), (5, 10), (400, 320), (160, 160)] {
            audio.on_change(at(0), kbps(share));
            assert_eq!(audio.encoding(), kbps(encoding));
        }
    }

    #[test]
    fn its_datagrams_leave_at_the_rate_of_its_encoding() {
        let mut audio = LayeredAudio::new(at(0), &[kbps(40), kbps(80)], Bytes::new(1000), kbps(80));
        let mut left = Vec::new();
        for ms in 0..1000 {
            if ms == 450 {
                audio.on_change(at(450), kbps(40));
            }
            left.extend(audio.is_due(at(ms)).then_some(ms));
        }
        assert_eq!(left, [0, 100, 200, 300, 400, 550, 750, 950]);
        assert_eq!(audio.just_below_share(at(900)), Some(0.5), "its mean share carries 40 kb/s");
        let each = Duration::from_millis(450);
        assert_eq!(audio.spent(at(900)).collect::<Vec<_>>(), [(kbps(40), each), (kbps(80), each)]);
    }
}
