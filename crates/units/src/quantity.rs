//! Quantities as text: a number and a unit, `"40 Mb/s"`, `"12.5 ms"`, `"250 kB"`.

use thiserror::Error;

/// A quantity that cannot be parsed, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not {what}: write {} and one of {units}, for example \"{example}\"", number(text))]
pub struct BadQuantity {
    pub(crate) text: String,
    /// The kind of quantity, with its article.
    pub(crate) what: &'static str,
    pub(crate) units: &'static str,
    pub(crate) example: &'static str,
}

/// What to write before the unit. Callers decide whether it may be 0.
fn number(text: &str) -> &'static str {
    if text.trim_start().starts_with('-') { "a number, which can't be negative," } else { "a number" }
}

/// Splits `text` into a finite, non-negative number and the multiplier that `units` gives for its suffix.
pub(crate) fn parse(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(text.len());
    let number: f64 = text[..split].replace('_', "").parse().ok()?;
    let suffix = text[split..].trim();
    let (_, scale) = units.iter().find(|(name, _)| *name == suffix)?;
    let value = number * scale;
    (value.is_finite() && value < 9.0e18).then_some(value)
}

/// Implements serde for a quantity through its `FromStr` and `Display`.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_text;

/// Writes `value` in the largest unit that does not exceed it.
pub(crate) fn write(f: &mut std::fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> std::fmt::Result {
    let (name, scale) = units.iter().find(|(_, scale)| value >= *scale).unwrap_or(&units[units.len() - 1]);
    write!(f, "{} {name}", value as f64 / *scale as f64)
}
