//! Which of several representations of an object a client gets: the paper's "pick the representation that maximizes
//! receiver quality without incurring high latency" (section 3.2.1).
//!
//! ```text
//! photo.jpg asked for     photo.low.jpg, photo.medium.jpg, photo.high.jpg beside each other
//!                         the largest with   size / share + srtt <= within,   else the smallest
//! ```

use rampmeter_cm::PathState;
use rampmeter_units::Duration;

/// What the names of representations say, from the lowest.
pub const LEVELS: [&str; 3] = ["low", "medium", "high"];

/// The name of a representation of `object`: its level stands before the last dot of the file's name.
pub fn name(object: &str, level: &str) -> String {
    let file = object.rfind('/').map_or(0, |slash| slash + 1);
    match object[file..].rfind('.').filter(|dot| *dot > 0) {
        Some(dot) => format!("{}.{level}{}", &object[..file + dot], &object[file + dot..]),
        None => format!("{object}.{level}"),
    }
}

/// When the last of `bytes` will have arrived and been acknowledged, at the path's present share.
pub fn time(bytes: u64, path: PathState) -> f64 {
    bytes as f64 * 8.0 / path.rate.as_bps_f64().max(1.0) + path.srtt.as_secs_f64()
}

/// The place, among representations of these sizes, of the largest one that arrives `within` a time, or of the smallest;
/// none of none.
pub fn choose(sizes: &[u64], path: PathState, within: Duration) -> Option<usize> {
    let places = || sizes.iter().enumerate().map(|(place, size)| (*size, place));
    let in_time = places().filter(|(size, _)| time(*size, path) <= within.as_secs_f64());
    in_time.max().or_else(|| places().min()).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Rate;

    use super::*;

    #[test]
    fn the_level_stands_before_the_last_dot() {
        assert_eq!(name("a.b/photo.old.jpg", "low"), "a.b/photo.old.low.jpg");
        assert_eq!(name("a.b/README", "high"), "a.b/README.high");
        assert_eq!(name(".profile", "low"), ".profile.low");
    }

    #[test]
    fn the_largest_that_arrives_in_time_is_taken() {
        // 100 kb/s over 2 s less 120 ms are 23.5 kB.
        let path = |kbps: u64| PathState { rate: Rate::from_bps(kbps * 1000), srtt: Duration::from_millis(120) };
        let sizes = [20_000, 100_000, 800_000];
        let chosen = |kbps: u64| choose(&sizes, path(kbps), Duration::from_secs(2)).map(|place| sizes[place]);
        let expected = [(10, 20_000), (100, 20_000), (425, 20_000), (426, 100_000), (3400, 100_000), (3410, 800_000)];
        for (kbps, size) in expected {
            assert_eq!(chosen(kbps), Some(size), "{kbps} kb/s");
        }
        assert_eq!(choose(&[], path(10), Duration::ZERO), None);
    }
}
