//! An object in several representations. The web server of the Congestion Manager paper (section 3.2.1) queries its
//! share (`cm_query`) to "pick the representation that maximizes receiver quality without incurring high latency".
//!
//! ```text
//! the largest with   size / share + srtt <= within,   else the smallest
//! ```

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};

use crate::{Application, End, Event, Path, Reply, Settings, Workload, ensure, levels, transfer};

/// The representations of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Their sizes, from the smallest to the largest.
    pub representations: Vec<Bytes>,
    /// The time within which the object should arrive.
    pub within: Duration,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let valid = "sizes from the smallest to the largest: [\"20 kB\", \"60 kB\"]";
        levels::check("representations", &self.representations, valid)?;
        ensure(self.within > Duration::ZERO, "`within` is zero; use more than zero, for example \"2 s\"")
    }
}

/// A transfer of one representation, which is chosen when the connection is open.
#[derive(Debug)]
pub struct Representations {
    config: Config,
    chosen: Bytes,
}

impl Workload for Representations {
    type Config = Config;
    const NEEDS_MANAGER: Option<&'static str> = Some("chooses representations");
    const USES_SHARE: bool = true;

    fn new(config: &Config, _: Option<Bytes>, _: Random) -> Self {
        Self { config: config.clone(), chosen: Bytes::MAX }
    }
}

impl Application for Representations {
    fn on_start(&mut self, _: Time, _: Path) -> Reply {
        Reply::NONE
    }

    fn on_event(&mut self, _: Time, end: End, event: &Event) -> Reply {
        if let (End::Sender, Event::Opened(path)) = (end, event) {
            let Config { representations: sizes, within } = &self.config;
            let index = choose(sizes, path.share, path.smoothed_rtt, *within);
            self.chosen = index.map_or(Bytes::ZERO, |index| sizes[index]);
            return transfer::send(self.chosen);
        }
        transfer::receive(end, event, self.chosen)
    }
}

/// The index of the largest of these sizes that arrives `within` the time, else of the smallest; `None` without sizes.
pub fn choose(sizes: &[Bytes], share: Rate, srtt: Duration, within: Duration) -> Option<usize> {
    let carried = share.bytes_in(within.saturating_sub(srtt));
    let indexed = || sizes.iter().enumerate().map(|(index, size)| (*size, index));
    let in_time = indexed().filter(|(size, _)| *size <= carried);
    in_time.max().or_else(|| indexed().min()).map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_arrives_in_time_is_chosen() {
        // 100 kb/s over 2 s less 120 ms are 23.5 kB.
        let sizes = [800_000, 20_000, 100_000].map(Bytes::new);
        let (srtt, within) = (Duration::from_millis(120), Duration::from_secs(2));
        let chosen = |kbps: u64| choose(&sizes, Rate::from_bps(kbps * 1000), srtt, within).map(|index| sizes[index]);
        let expected = [(10, 20_000), (100, 20_000), (425, 20_000), (426, 100_000), (3400, 100_000), (3410, 800_000)];
        for (kbps, size) in expected {
            assert_eq!(chosen(kbps), Some(Bytes::new(size)), "{kbps} kb/s");
        }
        assert_eq!(choose(&sizes, Rate::MAX, within, srtt), Some(1), "no rate compensates for the round trip");
        assert_eq!(choose(&[], Rate::MAX, srtt, within), None);
    }

    #[test]
    fn the_choice_is_made_when_the_connection_opens() {
        let config =
            Config { representations: [20_000, 60_000].map(Bytes::new).into(), within: Duration::from_secs(1) };
        let mut object = Representations::new(&config, None, Random::from_seed(1));
        assert_eq!(object.on_start(Time::ZERO, Path::default()), Reply::NONE);
        let path = Path { share: Rate::from_bps(1_000_000), smoothed_rtt: Duration::from_millis(100) };
        let reply = object.on_event(Time::ZERO, End::Sender, &Event::Opened(path));
        assert_eq!(reply, Reply { finish: true, ..Reply::write(60_000) });
    }
}
