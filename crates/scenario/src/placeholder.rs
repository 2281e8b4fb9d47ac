//! Placeholders: texts in a scenario file that are replaced by the value of an axis.
//!
//! `"$rtt"` is the value of axis `rtt`, `"$path.rtt"` that of a field of its records. `"$rtt * 0.3"` and `"$bdp * $rtt"`
//! are products of two factors, of which one may be a text that begins with a number. The product keeps its unit: 0.3
//! times "20 ms" is "6 ms".

use std::ops::Range;

use rampmeter_units::Known;
use toml::Value;

use crate::Point;
use crate::axis::{Axis, CONDITION, fixed_condition, named};
use crate::document::{Section, Source, texts};
use crate::error::Result;
use crate::errors::Errors;

#[derive(Debug, Clone)]
pub(crate) struct Placeholder {
    /// The text that the value replaces, quotes included.
    range: Range<usize>,
    factors: Vec<Factor>,
    line: usize,
}

/// A value, or one of two that are multiplied.
#[derive(Debug, Clone)]
enum Factor {
    Axis {
        name: String,
        /// The field of the axis's records.
        field: Option<String>,
    },
    Constant(Value),
}

impl Placeholder {
    /// All placeholders of `file` outside `[axes]` and `[metrics]`, in the order of the text. Those of an axis that is
    /// lost are left out.
    pub(crate) fn all(source: Source<'_>, file: &Section<'_>, axes: &[Axis], errors: &mut Errors) -> Vec<Self> {
        let mut found = Vec::new();
        file.items()
            .filter(|item| !["axes", "metrics"].contains(&item.key))
            .for_each(|item| texts(item.value, &mut found));
        found.sort_by_key(|(_, range)| range.start);
        let mut placeholders = Vec::new();
        for (text, range) in found {
            if !text.starts_with('$') {
                continue;
            }
            let line = source.line(range.start);
            match Self::factors(text, axes) {
                Ok(factors) => placeholders.push(Self { range, factors, line }),
                Err(wrong) => {
                    let axis = text.split(['$', '.', '*']).nth(1).unwrap_or_default().trim();
                    if !errors.is_lost(axis) {
                        errors.add(source.error(line, wrong));
                    }
                    errors.unfilled(source.error(line, "").to_string());
                }
            }
        }
        if let Some(item) = fixed_condition(file, axes) {
            let (range, line) = (item.value.span(), item.line());
            let place = placeholders.partition_point(|other: &Self| other.range.start < range.start);
            let factors = vec![Factor::Axis { name: CONDITION.into(), field: None }];
            placeholders.insert(place, Self { range, factors, line });
        }
        placeholders
    }

    fn factors(text: &str, axes: &[Axis]) -> Result<Vec<Factor>, String> {
        let factors = text.split('*').map(|factor| Factor::read(factor.trim(), axes)).collect::<Result<Vec<_>, _>>()?;
        if factors.len() > 2 {
            return Err(format!("`\"{text}\"` has {} factors; write two", factors.len()));
        }
        Ok(factors)
    }

    /// Whether it names `axis`, or one of its fields.
    pub(crate) fn is_of(&self, axis: &str) -> bool {
        self.factors.iter().any(|factor| matches!(factor, Factor::Axis { name, .. } if name == axis))
    }

    /// Whether it names `axis` with this `field`.
    pub(crate) fn names(&self, axis: &str, field: Option<&str>) -> bool {
        let is_named = |factor: &Factor| match factor {
            Factor::Axis { name, field: own } => name == axis && own.as_deref() == field,
            Factor::Constant(_) => false,
        };
        self.factors.iter().any(is_named)
    }

    /// The text with the point's values in place of the placeholders.
    pub(crate) fn fill(placeholders: &[Self], source: Source<'_>, axes: &[Axis], point: &Point) -> Result<String> {
        let mut filled = String::with_capacity(source.text.len());
        let mut end = 0;
        for placeholder in placeholders {
            filled.push_str(&source.text[end..placeholder.range.start]);
            let values = placeholder.factors.iter().filter_map(|factor| factor.value(axes, point));
            let value = match values.collect::<Vec<_>>().as_slice() {
                [] => String::new(),
                [value] => value.to_string(),
                [one, other, ..] => {
                    times(one, other).map_err(|wrong| source.error(placeholder.line, wrong))?.to_string()
                }
            };
            filled.push_str(&value);
            end = placeholder.range.end;
        }
        Ok(filled + &source.text[end..])
    }
}

/// The value at `point` of what `$name` stands for: an axis, or a field of its records.
pub(crate) fn variable(name: &str, axes: &[Axis], point: &Point) -> Result<Option<Value>, String> {
    if let Some(key) = point.get(name).filter(|_| name.contains('.')) {
        return Ok(Some(key.clone()));
    }
    Ok(Factor::read(&format!("${name}"), axes)?.value(axes, point))
}

impl Factor {
    /// Reads a factor: an axis, a number, or a text that begins with one.
    fn read(text: &str, axes: &[Axis]) -> Result<Self, String> {
        let Some(name) = text.strip_prefix('$') else {
            let constant = text.parse().map_or_else(|_| Value::String(text.to_owned()), Value::Float);
            return match number_and_unit(&constant) {
                Some((number, _)) if number.is_finite() => Ok(Self::Constant(constant)),
                _ => Err(format!("`{text}` is not a factor; write for example \"$rtt * 0.5\" or \"$bdp * 40 ms\"")),
            };
        };
        let (name, field) = name.split_once('.').map_or((name, None), |(name, field)| (name, Some(field)));
        let undefined =
            |name: &str, known| format!("no axis is called `{name}`, which `\"${name}\"` stands for; {known}");
        let records = named(axes, name).map_err(|known| undefined(name, known))?;
        if let Some(field) = field.filter(|field| !records.fields().any(|known| known == *field)) {
            return Err(undefined(&format!("{name}.{field}"), Known::near(field, records.fields())));
        }
        Ok(Self::Axis { name: name.to_owned(), field: field.map(str::to_owned) })
    }

    fn value(&self, axes: &[Axis], point: &Point) -> Option<Value> {
        match self {
            Self::Axis { name, field } => named(axes, name).ok()?.field(point.get(name)?, field.as_deref()),
            Self::Constant(value) => Some(value.clone()),
        }
    }
}

/// The product of two values: numbers, of which one may have a unit. It is whole if it can be
/// and a factor is.
fn times(one: &Value, other: &Value) -> Result<Value, String> {
    let factor = |value: &Value| {
        let (number, unit) = number_and_unit(value).ok_or_else(|| {
            format!("{value} cannot be multiplied; use numbers, or one of them with a unit, like \"20 ms\"")
        })?;
        Ok::<_, String>((number, unit.to_owned(), value.is_integer()))
    };
    let (first, unit, first_is_whole) = factor(one)?;
    let (second, other_unit, second_is_whole) = factor(other)?;
    let product = first * second;
    match (unit.as_str(), other_unit.as_str()) {
        ("", "") if (first_is_whole || second_is_whole) && product.fract() == 0.0 && product.abs() < 1e15 => {
            Ok(Value::Integer(product as i64))
        }
        ("", "") => Ok(Value::Float(product)),
        ("", unit) | (unit, "") => Ok(Value::String(format!("{}{unit}", rounded(product)))),
        _ => Err(format!("{one} times {other}: one of the two factors must be a number without a unit")),
    }
}

/// A number and the text behind it, which is empty if the value is a number.
fn number_and_unit(value: &Value) -> Option<(f64, &str)> {
    let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    if let Some(number) = number {
        return Some((number, ""));
    }
    let text = value.as_str()?;
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    Some((text[..unit].parse().ok()?, &text[unit..]))
}

/// Rounds away the last digits, which are errors of the multiplication: 0.1 times 3 is 0.3.
fn rounded(number: f64) -> f64 {
    format!("{number:.12}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_quantities_are_multiplied() {
        let value = |text: &str| text.parse::<Value>().unwrap();
        for (one, other, product) in [
            ("\"25 ms\"", "0.3", "\"7.5 ms\""),
            ("\"0.1 s\"", "3.0", "\"0.3 s\""),
            ("64", "\"40 ms\"", "\"2560 ms\""),
            ("0.5", "\"40 ms\"", "\"20 ms\""),
            ("40", "0.5", "20"),
            ("5", "0.5", "2.5"),
            ("0.5", "0.5", "0.25"),
            ("3", "7", "21"),
        ] {
            assert_eq!(times(&value(one), &value(other)).unwrap().to_string(), product, "{one} * {other}");
        }
        for (one, other, wrong) in [
            ("\"fast\"", "0.5", "\"fast\" cannot be multiplied"),
            ("2", "true", "true cannot be multiplied"),
            ("\"1 s\"", "\"2 s\"", "must be a number without a unit"),
        ] {
            let message = times(&value(one), &value(other)).unwrap_err();
            assert!(message.contains(wrong), "{message}");
        }
    }
}
