//! What all models of capacity have in common, and what each of them promises.

use proptest::prelude::*;

use super::*;

fn model(name: &str, settings: &str) -> Capacity {
    models().make(name, &settings.parse().unwrap()).unwrap()
}

fn streams(seed: u64) -> LinkStreams {
    LinkStreams::from_seeds(seed, seed)
}

/// The opportunities up to `seconds`.
fn opportunities(capacity: &Capacity, seed: u64, seconds: u64) -> Vec<Opportunity> {
    opportunities_of(capacity, streams(seed), seconds)
}

fn opportunities_of(capacity: &Capacity, streams: LinkStreams, seconds: u64) -> Vec<Opportunity> {
    let mut opportunities = capacity.opportunities(streams).unwrap();
    let all = std::iter::from_fn(move || Some(opportunities.next()));
    all.take_while(|opportunity| opportunity.at < Time::ZERO + Duration::from_secs(seconds)).collect()
}

fn rate(opportunities: &[Opportunity], seconds: f64) -> f64 {
    opportunities.iter().map(|opportunity| opportunity.bytes.as_f64() * 8.0).sum::<f64>() / seconds
}

/// Every model that has opportunities.
fn scheduled() -> impl Iterator<Item = (&'static str, Capacity)> {
    let made = models().list().map(|(name, _)| (name, model(name, "mean = \"20 Mb/s\"")));
    made.filter(|(_, capacity)| capacity.opportunities(streams(1)).is_some())
}

/// Each run lasts long enough for a thousand independent values of the slowest change, or for 40 satellites that differ by 10%
/// at most.
#[test]
fn the_mean_rate_is_the_set_one() {
    for (name, settings, seconds) in [
        ("lte", "speed_kmh = 120", 500),
        ("lte", "speed_kmh = 120\nusers = 1\nuplink = true", 500),
        ("5g", "speed_kmh = 120", 500),
        ("5g", "speed_kmh = 120\nuplink = true", 500),
        ("wifi", "shift = \"100 ms\"", 500),
        ("wifi", "shift = \"100 ms\"\nstations = 10", 1000),
        ("starlink", "spread = 0.1", 600),
        ("starlink", "spread = 0.1\ngap = \"2 s\"\nusers = 1", 600),
        ("docsis", "", 100),
        ("two-state", "length = \"100 ms\"", 500),
        ("two-state", "low = 0\nshare = 0.6\nlength = \"100 ms\"", 500),
    ] {
        let capacity = model(name, &format!("mean = \"2 Mb/s\"\n{settings}"));
        let found = rate(&opportunities(&capacity, 7, seconds), seconds as f64) / 2e6;
        assert!((found - 1.0).abs() < 0.04, "{name} {settings}: {found}");
        assert_eq!(capacity.mean(), Rate::from_bps(2_000_000));
    }
}

#[test]
fn a_seed_decides_the_capacity() {
    for (name, capacity) in scheduled() {
        assert_eq!(opportunities(&capacity, 1, 20), opportunities(&capacity, 1, 20), "{name}");
        assert_ne!(opportunities(&capacity, 1, 20), opportunities(&capacity, 2, 20), "{name}");
    }
}

#[test]
fn all_models_have_a_description_and_need_a_mean_rate() {
    for (name, about) in models().list() {
        assert!(!about.is_empty());
        let error = models().make(name, &toml::Table::new()).unwrap_err().to_string();
        assert!(error.contains("write mean = \"20 Mb/s\""), "{error}");
        for mean in ["999 b/s", "1001 Gb/s"] {
            let error = models().make(name, &format!("mean = \"{mean}\"").parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains("write a rate from 1 kb/s to 1000 Gb/s"), "{error}");
        }
    }
}

#[test]
fn impossible_settings_are_refused_with_a_remedy() {
    for (name, setting, remedy) in [
        ("lte", "speed_kmh = 0", "from 0.1 to 500"),
        ("5g", "speed_kmh = nan", "from 0.1 to 500"),
        ("lte", "users = 0", "write 1 to 1000"),
        ("wifi", "stations = 1001", "write 0 to 1000"),
        ("wifi", "aggregate = \"6 ms\"", "from 100 us to 5.484 ms"),
        ("wifi", "shift = \"0 s\"", "from 1 ms to"),
        ("starlink", "spread = 1.5", "a share from 0 to 1"),
        ("starlink", "gap = \"11 s\"", "from 0 ns to 10 s"),
        ("docsis", "map = \"1 s\"", "from 100 us to 100 ms"),
        ("docsis", "variation = -1", "a share from 0 to 1"),
        ("two-state", "low = 1", "0 to below 1"),
        ("two-state", "share = 0", "above 0, below 1"),
        ("two-state", "share = 1", "above 0, below 1"),
        ("two-state", "length = \"0 s\"", "from 1 ms to"),
        ("token-bucket", "peak = \"20 Mb/s\"", "write more than the mean, 20 Mb/s"),
        ("token-bucket", "burst = \"1 kB\"", "1500 B or more"),
        ("wifi", "station = 2", "did you mean `stations`?"),
    ] {
        let settings = format!("mean = \"20 Mb/s\"\n{setting}").parse().unwrap();
        let error = models().make(name, &settings).unwrap_err().to_string();
        assert!(error.contains(remedy), "{name} {setting}: {error}");
    }
    let error = models().make("wlan", &toml::Table::new()).unwrap_err().to_string();
    assert!(error.contains("no model of capacity is called `wlan`") && error.contains("wifi"), "{error}");
}

#[test]
fn a_cell_repeats_blocks_and_delivers_in_order() {
    let found = opportunities(&model("lte", "mean = \"20 Mb/s\"\nusers = 1"), 3, 60);
    assert!(found.windows(2).all(|pair| pair[0].at + pair[0].delay <= pair[1].at + pair[1].delay));
    // A tenth of the blocks is repeated 8 ms later, and the blocks after them wait.
    let late = |delay| found.iter().filter(|opportunity| opportunity.delay == Duration::from_millis(delay)).count();
    let share = late(8) as f64 / found.len() as f64;
    assert!((0.09..0.11).contains(&share), "{share}");
    assert!(late(0) > found.len() / 4 && late(7) > 0 && late(9) == 0);
}

#[test]
fn in_the_uplink_a_cell_answers_a_request_first() {
    for (name, uplink, wait) in [("lte", false, 0), ("lte", true, 8), ("5g", false, 0), ("5g", true, 5)] {
        let found = opportunities(&model(name, &format!("mean = \"20 Mb/s\"\nuplink = {uplink}")), 3, 10);
        assert_eq!(found.iter().map(|it| it.delay).min(), Some(Duration::from_millis(wait)), "{name} {uplink}");
    }
}

/// DDDSU: of 2.5 ms the first four slots carry the downlink, the fifth the uplink.
#[test]
fn a_5g_cell_alternates_its_directions() {
    for (settings, expected) in [("", [1, 2, 3, 0]), ("uplink = true", [4; 4])] {
        let settings = format!("mean = \"20 Mb/s\"\nusers = 1\n{settings}");
        let found = opportunities(&model("5g", &settings), 3, 10);
        let slots: Vec<u64> = found.iter().map(|it| it.at.as_nanos() / 500_000 % 5).collect();
        assert!(slots.iter().all(|slot| expected.contains(slot)), "{settings}");
    }
}

/// Between two turns of a station others have as many on average as there are others, each with 2 ms.
#[test]
fn stations_wait_for_each_other() {
    for stations in [0, 1, 5] {
        let capacity = model("wifi", &format!("mean = \"20 Mb/s\"\nstations = {stations}"));
        let found = opportunities(&capacity, 5, 600);
        let cycle = 600.0 / found.len() as f64;
        let around = 130e-6 + 7.5 * 9e-6;
        let expected = 4e-3 + around + f64::from(stations) * (2e-3 + around);
        assert!((cycle / expected - 1.0).abs() < 0.03, "{stations}: {cycle} {expected}");
    }
}

#[test]
fn the_modulation_shifts_between_three_tenths_and_all() {
    let found = opportunities(&model("wifi", "mean = \"20 Mb/s\"\nstations = 0"), 5, 600);
    let bytes = |it: &Opportunity| it.bytes.as_u64();
    let [low, high] = [found.iter().map(bytes).min(), found.iter().map(bytes).max()].map(|it| it.unwrap() as f64);
    assert!((low / high - 0.3).abs() < 0.01, "{low} {high}");
    let shifts = found.windows(2).filter(|pair| bytes(&pair[0]).abs_diff(bytes(&pair[1])) > 1).count();
    // One a second, except at both ends of the seven modulations, where half of them change nothing.
    assert!((450..570).contains(&shifts), "{shifts}");
}

#[test]
fn satellites_change_every_15_seconds_after_a_gap() {
    let found = opportunities(&model("starlink", "mean = \"20 Mb/s\"\nusers = 1"), 9, 300);
    let changes: Vec<&[Opportunity]> = found.windows(2).filter(|pair| pair[0].delay != pair[1].delay).collect();
    let frame = 4.0 / 3.0;
    for (n, pair) in changes.iter().enumerate() {
        let handover = 12_000.0 + 15_000.0 * n as f64;
        let [before, after] = [pair[0].at, pair[1].at].map(|at| at.as_secs_f64() * 1e3);
        assert!((handover - frame..handover).contains(&before), "{before}");
        assert!((handover + 50.0..handover + 50.0 + frame).contains(&after), "{after}");
    }
    assert_eq!(changes.len(), 20);
    let found = opportunities(&model("starlink", "mean = \"20 Mb/s\"\nusers = 1\ngap = \"2 s\""), 9, 20);
    let seconds = |it: &Opportunity| it.at.as_secs_f64();
    assert!(found.iter().all(|it| !(12.0..14.0).contains(&seconds(it))));
    assert!(found.iter().any(|it| seconds(it) == 14.0), "the frame at the end of the gap");
}

/// The satellites of a direction: the additional delay of each, and its bytes a frame relative to their mean.
fn satellites(found: &[Opportunity], mean: f64) -> Vec<(Duration, f64)> {
    let of_one = found.chunk_by(|a, b| a.delay == b.delay);
    let bytes = |frames: &[Opportunity]| frames.iter().map(|it| it.bytes.as_f64()).sum::<f64>() / frames.len() as f64;
    of_one.map(|frames| (frames[0].delay, bytes(frames) * 750.0 * 8.0 / mean)).collect()
}

#[test]
fn both_directions_have_the_same_satellites() {
    let [down, up] = ["mean = \"100 Mb/s\"", "mean = \"15 Mb/s\""].map(|mean| model("starlink", mean));
    let of = |capacity: &Capacity, shared, own| opportunities_of(capacity, LinkStreams::from_seeds(shared, own), 300);
    let (forward, reverse) = (of(&down, 9, 1), of(&up, 9, 2));
    let [of_forward, of_reverse] = [satellites(&forward, 100e6), satellites(&reverse, 15e6)];
    assert_eq!((of_forward.len(), of_reverse.len()), (21, 21));
    for ((delay, rate), (other_delay, other_rate)) in of_forward.iter().zip(&of_reverse) {
        assert_eq!(delay, other_delay);
        // Bytes are whole numbers: 67,000 and 10,000 a frame.
        assert!((rate / other_rate - 1.0).abs() < 0.001, "{rate} {other_rate}");
    }
    // Frames are granted to each direction by itself: of four, both get the same one with a probability of a quarter.
    let times = |found: &[Opportunity]| found.iter().map(|it| it.at).collect::<Vec<_>>();
    let together = times(&forward).iter().filter(|at| times(&reverse).binary_search(at).is_ok()).count();
    assert!((together as f64 / forward.len() as f64 - 0.25).abs() < 0.02, "{together}");
    // Another link has other satellites.
    assert!(satellites(&of(&up, 8, 2), 15e6).iter().zip(&of_reverse).all(|(one, other)| one.0 != other.0));
}

#[test]
fn a_modem_waits_two_map_intervals_for_its_grant() {
    let found = opportunities(&model("docsis", "mean = \"20 Mb/s\""), 11, 60);
    assert_eq!(found.len(), 30_000);
    for (interval, it) in found.iter().enumerate() {
        let map = |time: Time| time.as_nanos() / 2_000_000;
        assert_eq!((map(it.at), map(it.at + it.delay)), (interval as u64, interval as u64 + 2));
    }
    let bytes = |it: &Opportunity| it.bytes.as_u64();
    assert!(found.iter().map(bytes).all(|bytes| (2500..=7501).contains(&bytes)), "5000 B, +- 50%");
    let [few, many] = [|bytes| bytes < 3000, |bytes| bytes > 7000];
    assert!(found.iter().map(bytes).any(few) && found.iter().map(bytes).any(many));
}

#[test]
fn the_low_state_has_its_share_and_length() {
    let capacity = model("two-state", "mean = \"20 Mb/s\"\nlow = 0.1\nshare = 0.2\nlength = \"100 ms\"");
    let found = opportunities(&capacity, 13, 2400);
    // 4800 periods: the standard deviation of the share is 0.0033. Bytes a millisecond: 2500 / 0.82, and a tenth of that.
    let is_low = |it: &Opportunity| it.bytes.as_u64() < 1000;
    let low = found.iter().filter(|it| is_low(it)).count();
    assert!((low as f64 / 2_400_000.0 - 0.2).abs() < 0.01, "{low}");
    let periods = found.windows(2).filter(|pair| !is_low(&pair[0]) && is_low(&pair[1])).count();
    assert!((low as f64 / periods as f64 / 100.0 - 1.0).abs() < 0.1, "{low} {periods}");
}

proptest! {
    /// Whatever the settings, times increase and there are bytes to send.
    #[test]
    fn opportunities_are_in_order(seed: u64, kbps in 100u64..1_000_000, users in 1u64..20, share in 0.01..0.99) {
        for (name, settings) in [
            ("lte", format!("users = {users}\nspeed_kmh = {}", share * 100.0)),
            ("5g", format!("users = {users}\nuplink = true")),
            ("wifi", format!("stations = {users}")),
            ("starlink", format!("users = {users}\nspread = {share}")),
            ("docsis", format!("variation = {share}")),
            ("two-state", format!("share = {share}")),
        ] {
            let mut opportunities = model(name, &format!("mean = \"{kbps} kb/s\"\n{settings}"))
                .opportunities(streams(seed))
                .unwrap();
            let mut last = Time::ZERO;
            for _ in 0..100 {
                let Opportunity { at, bytes, .. } = opportunities.next();
                prop_assert!(at > last && bytes > Bytes::ZERO, "{} {:?} {}", name, at, bytes);
                last = at;
            }
        }
    }
}
