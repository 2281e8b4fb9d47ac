//! Suggestions for unknown names.

use std::fmt;

/// A name is similar to one that continues it if it has so many letters.
const MIN_PREFIX: usize = 3;

/// The names to suggest: a similar one if there is exactly one, otherwise all, similar ones first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The only similar name.
    Near(String),
    /// Several similar names, or one that has the same beginning, and all others.
    Several(Vec<String>, Vec<String>),
    /// All names: none is similar.
    All(Vec<String>),
}

impl Known {
    /// The only name in `known` that differs by at most two letters (one if short), without regard to case; else all,
    /// those first that differ by as little, or that continue `name` or are continued by it.
    pub fn near<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let distance = |other: &str| strsim::osa_distance(&name.to_lowercase(), &other.to_lowercase());
        let max_distance = if name.len() < 5 { 1 } else { 2 };
        let mut near: Vec<(usize, &str)> = known.iter().map(|other| (distance(other), *other)).collect();
        near.sort_unstable();
        match near[..] {
            [(steps, other), ref rest @ ..]
                if steps <= max_distance && rest.first().is_none_or(|(next, _)| *next > steps) =>
            {
                return Self::Near(other.to_owned());
            }
            _ => {}
        }
        let continues = |a: &str, b: &str| b.len() >= MIN_PREFIX && a.starts_with(b);
        let is_similar =
            |other: &&str| distance(other) <= max_distance || continues(other, name) || continues(name, other);
        let (near, others): (Vec<&str>, Vec<&str>) = known.into_iter().partition(is_similar);
        let [near, others] = [near, others].map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
        if near.is_empty() { Self::All(others) } else { Self::Several(near, others) }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Near(name) => write!(f, "did you mean `{name}`?"),
            Self::Several(near, others) => {
                let list = format!("`{}`", near.join("`, `"));
                let list = list.rsplit_once(", ").map_or(list.clone(), |(first, last)| format!("{first} or {last}"));
                write!(f, "did you mean {list}?")?;
                if others.is_empty() { Ok(()) } else { write!(f, " There are also {}", others.join(", ")) }
            }
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
    fn a_similar_name_is_suggested() {
        let known = ["bottleneck", "access"];
        assert_eq!(Known::near("botleneck", known), Known::Near("bottleneck".into()));
        assert_eq!(Known::near("TCP", ["rate", "tcp"]), Known::Near("tcp".into()));
        assert_eq!(Known::near("uplink", known).to_string(), "there are bottleneck, access");
        for (name, known) in [("wait", ["ai", "weight"]), ("bbr", ["bic", "cubic"])] {
            assert!(matches!(Known::near(name, known), Known::All(_)), "{name}");
        }
    }

    #[test]
    fn several_similar_names_come_before_the_others() {
        for (name, known, message) in [
            ("bbrv3", ["bbr", "bbr1", "cubic"], "did you mean `bbr` or `bbr1`? There are also cubic"),
            ("tcp", ["cubic", "htcp", "vcp"], "did you mean `htcp` or `vcp`? There are also cubic"),
            ("lte", ["geo", "lte-train", "lte-upload"], "did you mean `lte-train` or `lte-upload`? There are also geo"),
            ("wifi", ["wifi-a", "wifi-b", "wifi-c"], "did you mean `wifi-a`, `wifi-b` or `wifi-c`?"),
        ] {
            assert_eq!(Known::near(name, known).to_string(), message);
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
