//! Quantities: their arithmetic, and their text, a number and a unit: `"40 Mb/s"`, `"12.5 ms"`, `"250 kB"`.

use std::fmt;

use thiserror::Error;

/// A quantity that cannot be parsed, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not {}: {}", form.what, form.advice(text))]
pub struct BadQuantity {
    text: String,
    form: &'static Form,
}

/// What to write before the unit. Callers decide whether it may be 0.
fn number(text: &str) -> &'static str {
    let after_digits = text.trim().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let exponent = after_digits.strip_prefix(['e', 'E']).map(|rest| rest.trim_start_matches(['+', '-']));
    if text.trim_start().starts_with('-') {
        "a number, which cannot be negative,"
    } else if exponent.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        "a number, which cannot have an exponent,"
    } else {
        "a number"
    }
}

/// The number at the beginning of `text`, and the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// How a quantity is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// The kind of quantity, with its article.
    pub(crate) what: &'static str,
    /// The units, the largest first, and the multiplier of each.
    pub(crate) units: [(&'static str, u64); 4],
    /// Other spellings of units that mean one thing, and the multiplier of each.
    pub(crate) others: &'static [(&'static str, u64)],
    /// Spellings that may mean one unit or another.
    pub(crate) ambiguous: &'static [(&'static str, [&'static str; 2])],
    /// The units, for errors.
    pub(crate) names: &'static str,
    pub(crate) example: &'static str,
    /// The word for the maximum, if there is one.
    pub(crate) max: Option<&'static str>,
}

impl Form {
    /// Reads a finite, non-negative number and its unit.
    pub(crate) fn parse(&'static self, text: &str) -> Result<u64, BadQuantity> {
        if self.max == Some(text.trim()) {
            return Ok(u64::MAX);
        }
        self.value(text.trim()).ok_or_else(|| BadQuantity { text: text.into(), form: self })
    }

    fn value(&self, text: &str) -> Option<u64> {
        let (number, suffix) = split(text);
        let number: f64 = number.replace('_', "").parse().ok()?;
        let (_, scale) = self.units.iter().chain(self.others).find(|(name, _)| *name == suffix)?;
        let value = number * *scale as f64;
        (value.is_finite() && value < 9.0e18).then_some(value.round() as u64)
    }

    /// What to write instead of `text`.
    fn advice(&self, text: &str) -> String {
        let (value, suffix) = split(text.trim());
        match self.ambiguous.iter().find(|(unit, _)| *unit == suffix && !value.is_empty()) {
            Some((_, [one, other])) => format!("write {value} {one} or {value} {other}: it may mean either"),
            None => {
                format!("write {} and one of {}, for example \"{}\"", number(text), self.names, self.example)
            }
        }
    }

    /// Writes `value` in the largest unit that does not exceed it.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, value: u64) -> fmt::Result {
        match self.max {
            Some(word) if value == u64::MAX => f.write_str(word),
            _ => {
                let (name, scale) = self.units.iter().find(|(_, scale)| value >= *scale).unwrap_or(&self.units[3]);
                write!(f, "{} {name}", value as f64 / *scale as f64)
            }
        }
    }
}

/// The arithmetic and the text of a quantity, a `u64`. Sums and products stop at the maximum; below zero is a bug.
macro_rules! quantity {
    ($type:ident, $form:expr) => {
        impl $type {
            /// `self - other`, or zero if `other` is larger.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// The quantity scaled by a factor that is not negative, rounded.
            #[must_use]
            pub fn scale(self, factor: f64) -> Self {
                Self((self.0 as f64 * factor).round() as u64)
            }
        }

        impl std::ops::Add for $type {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl std::ops::Sub for $type {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl std::ops::SubAssign for $type {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl std::ops::Mul<u64> for $type {
            type Output = Self;
            fn mul(self, times: u64) -> Self {
                Self(self.0.saturating_mul(times))
            }
        }

        impl std::ops::Div<u64> for $type {
            type Output = Self;
            fn div(self, parts: u64) -> Self {
                Self(self.0 / parts)
            }
        }

        impl std::iter::Sum for $type {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self::ZERO, std::ops::Add::add)
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::BadQuantity;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                const { &$form }.parse(text).map(Self)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                const { &$form }.write(f, self.0)
            }
        }

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
pub(crate) use quantity;
