//! One point of a sweep.

use std::fmt;

use serde::{Serialize, Serializer};
use toml::Value;

/// One value for every axis of a sweep, in the order of the file. Displayed as `scheme = "pcp", seed = 1`, serialized
/// as a map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point(pub(crate) Vec<(String, Value)>);

impl Point {
    /// The value of `axis`.
    pub fn get(&self, axis: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
    }

    /// Whether it has the same values as `other`, apart from those of `axis`.
    pub fn is_beside(&self, other: &Self, axis: &str) -> bool {
        let rest = |point| Self::iter(point).filter(|(name, _)| *name != axis);
        rest(self).eq(rest(other))
    }

    /// Iterates over axes and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl FromIterator<(String, Value)> for Point {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name} = {value}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
