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
}
