//! What to offer somebody who wrote a name that there isn't.

use std::fmt;

use crate::renamed::new_name;

/// The names that would have been right: the nearest if one is near, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The name replaces the old one that was written.
    Renamed(&'static str),
    /// This one was probably meant.
    Near(String),
    /// These are there.
    All(Vec<String>),
}

impl Known {
    /// Of `known` names that which is no more than two letters from `name`, one from a short one, capitals or not; or all
    /// of them if there is none or more than one as near.
    pub fn near<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        if let Some(new) = new_name(name, &known) {
            return Self::Renamed(new);
        }
        let distance = |other: &str| strsim::osa_distance(&name.to_lowercase(), &other.to_lowercase());
        let mut known: Vec<(usize, &str)> = known.into_iter().map(|other| (distance(other), other)).collect();
        let all = known.iter().map(|(_, other)| (*other).to_owned()).collect();
        known.sort_unstable();
        let most = if name.len() < 5 { 1 } else { 2 };
        match known[..] {
            [(steps, other), ref rest @ ..] if steps <= most && rest.first().is_none_or(|(next, _)| *next > steps) => {
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
    fn an_old_name_is_answered_with_the_new_one() {
        assert_eq!(
            Known::near("longest_interval", ["alpha", "max_interval"]).to_string(),
            "its name is `max_interval`"
        );
    }

    #[test]
    fn the_nearest_name_is_offered_if_it_is_near() {
        let known = ["bottleneck", "access"];
        assert_eq!(Known::near("botleneck", known), Known::Near("bottleneck".into()));
        assert_eq!(Known::near("TCP", ["rate", "tcp"]), Known::Near("tcp".into()));
        assert_eq!(Known::near("uplink", known).to_string(), "there are bottleneck, access");
        for (name, known) in [("wait", ["ai", "weight"]), ("bbr", ["bic", "cubic"]), ("tcp", ["htcp", "vcp"])] {
            assert!(matches!(Known::near(name, known), Known::All(_)), "{name}");
        }
    }
}
