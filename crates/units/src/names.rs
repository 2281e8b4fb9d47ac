//! Suggestions for unknown names.

use std::fmt;

use crate::renamed::new_name;

/// The names to suggest: a similar one if there is exactly one, otherwise all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The unknown name is an old one; this name replaces it.
    Renamed(&'static str),
    /// The only similar name.
    Near(String),
    /// All names.
    All(Vec<String>),
}

impl Known {
    /// The only name in `known` that differs by at most two letters (one if short), without regard to case; else all.
    pub fn near<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        if let Some(new) = new_name(name, &known) {
            return Self::Renamed(new);
        }
        let distance = |other: &str| strsim::osa_distance(&name.to_lowercase(), &other.to_lowercase());
        let mut known: Vec<(usize, &str)> = known.into_iter().map(|other| (distance(other), other)).collect();
        let all = known.iter().map(|(_, other)| (*other).to_owned()).collect();
        known.sort_unstable();
        let max_distance = if name.len() < 5 { 1 } else { 2 };
        match known[..] {
            [(steps, other), ref rest @ ..]
                if steps <= max_distance && rest.first().is_none_or(|(next, _)| *next > steps) =>
            {
                Self::Near(other.to_owned())
            }
            _ => Self::All(all),
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renamed(name) => write!(f, "its name is `{name}`"),
            Self::Near(name) => write!(f, "did you mean `{name}`?"),
            Self::All(names) if names.is_empty() => f.write_str("there is none"),
            Self::All(names) if names.len() == 1 => write!(f, "there is {}", names[0]),
            Self::All(names) => write!(f, "there are {}", names.join(", ")),
        }
    }
}

/// The `count` names of `known` that are nearest to `name`, in natural order: `3.x` before `11.x`. Parts of names are
/// separated by dots, and names with similar first parts are nearer than others. Each is cut to the number of parts
/// that `name` has.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>, count: usize) -> Vec<&'n str> {
    let name: Vec<String> = name.split('.').map(str::to_lowercase).collect();
    let cut = |known: &'n str| known.match_indices('.').nth(name.len() - 1).map_or(known, |(end, _)| &known[..end]);
    let distances = |other: &&str| {
        let mut parts = other.split('.');
        let distance = |part: &str| {
            let other = parts.next().unwrap_or_default();
            // A number is no misspelled word.
            let are_alike = part.parse::<u64>().is_ok() == other.parse::<u64>().is_ok();
            (!are_alike, strsim::osa_distance(part, &other.to_lowercase()))
        };
        name.iter().map(String::as_str).map(distance).collect::<Vec<_>>()
    };
    // Numbers are before words.
    let parts = |name: &&'n str| name.split('.').map(|part| part.parse::<u64>().map_err(|_| part)).collect::<Vec<_>>();
    let mut names: Vec<&str> = known.into_iter().map(cut).collect();
    names.sort_by_cached_key(parts);
    names.dedup();
    names.sort_by_cached_key(distances);
    names.truncate(count);
    names.sort_by_cached_key(parts);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_name_is_suggested_for_an_old_one() {
        assert_eq!(
            Known::near("longest_interval", ["alpha", "max_interval"]).to_string(),
            "its name is `max_interval`"
        );
    }

    #[test]
    fn a_similar_name_is_suggested() {
        let known = ["bottleneck", "access"];
        assert_eq!(Known::near("botleneck", known), Known::Near("bottleneck".into()));
        assert_eq!(Known::near("TCP", ["rate", "tcp"]), Known::Near("tcp".into()));
        assert_eq!(Known::near("uplink", known).to_string(), "there are bottleneck, access");
        for (name, known) in [("wait", ["ai", "weight"]), ("bbr", ["bic", "cubic"]), ("tcp", ["htcp", "vcp"])] {
            assert!(matches!(Known::near(name, known), Known::All(_)), "{name}");
        }
    }

    #[test]
    fn the_nearest_names_share_parts_and_are_in_natural_order() {
        let known = ["11.loss", "3.loss", "3.queue", "3.rate.sum", "x.3.loss", "x.11.loss", "y.3.loss"];
        for (name, near) in [
            ("3.los", &["3.loss", "3.queue", "3.rate"][..]),
            ("12.loss", &["3.loss", "3.rate", "11.loss"]),
            ("2", &["3", "11", "x"]),
            ("x.12.loss", &["x.3.loss", "x.11.loss", "y.3.loss"]),
        ] {
            let found = nearest(name, known, 3);
            assert_eq!(found, near, "{name}");
        }
        assert_eq!(nearest("none", [], 3), [""; 0]);
    }
}
