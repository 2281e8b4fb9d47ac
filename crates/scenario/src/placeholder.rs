//! Placeholders: texts in a scenario file that are replaced by the value of an axis.
//!
//! `"$rtt"` is the value of axis `rtt`, `"$path.rtt"` that of a field of its records. `"$rtt * 0.3"` is the value times
//! 0.3; a text keeps its unit: "20 ms" becomes "6 ms".

use std::ops::Range;

use rampmeter_units::Known;
use toml::Value;

use crate::Point;
use crate::axis::{Axis, CONDITION, fixed_condition, named};
use crate::document::{Section, Source, texts};
use crate::error::Result;

#[derive(Debug, Clone)]
pub(crate) struct Placeholder {
    /// The text that the value replaces, quotes included.
    range: Range<usize>,
    axis: String,
    /// The field of the axis's records.
    field: Option<String>,
    factor: Option<f64>,
    line: usize,
}

impl Placeholder {
    /// All placeholders of `file` outside `[axes]`, in the order of the text.
    pub(crate) fn all(source: Source<'_>, file: &Section<'_>, axes: &[Axis]) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        file.items().filter(|item| item.key != "axes").for_each(|item| texts(item.value, &mut found));
        found.sort_by_key(|(_, range)| range.start);
        let mut placeholders = Vec::new();
        for (text, range) in found {
            let Some(text) = text.strip_prefix('$') else { continue };
            let line = source.line(range.start);
            let (axis, factor) = match text.split_once('*') {
                None => (text, None),
                Some((axis, factor)) => match factor.trim().parse::<f64>() {
                    Ok(factor) if factor.is_finite() => (axis.trim_end(), Some(factor)),
                    _ => {
                        let advice = "write for example \"$rtt * 0.5\"";
                        let wrong = format!("`\"${text}\"` is not an axis times a number; {advice}");
                        return Err(source.error(line, wrong));
                    }
                },
            };
            let (axis, field) = axis.split_once('.').map_or((axis, None), |(axis, field)| (axis, Some(field)));
            let undefined = |name: &str, known| {
                source.error(line, format!("no axis is called `{name}`, which `\"${name}\"` stands for; {known}"))
            };
            let records = named(axes, axis).map_err(|known| undefined(axis, known))?;
            if let Some(field) = field.filter(|field| !records.fields().any(|known| known == *field)) {
                return Err(undefined(&format!("{axis}.{field}"), Known::near(field, records.fields())));
            }
            placeholders.push(Self { range, axis: axis.to_owned(), field: field.map(str::to_owned), factor, line });
        }
        if let Some(item) = fixed_condition(file, axes) {
            let (range, line) = (item.value.span(), item.line());
            let place = placeholders.partition_point(|other: &Self| other.range.start < range.start);
            placeholders.insert(place, Self { range, axis: CONDITION.into(), field: None, factor: None, line });
        }
        Ok(placeholders)
    }

    /// Whether it names `axis`, or one of its fields.
    pub(crate) fn is_of(&self, axis: &str) -> bool {
        self.axis == axis
    }

    /// Whether it names `axis` with this `field`.
    pub(crate) fn names(&self, axis: &str, field: Option<&str>) -> bool {
        self.axis == axis && self.field.as_deref() == field
    }

    /// The text with the point's values in place of the placeholders.
    pub(crate) fn fill(placeholders: &[Self], source: Source<'_>, axes: &[Axis], point: &Point) -> Result<String> {
        let mut filled = String::with_capacity(source.text.len());
        let mut end = 0;
        for placeholder in placeholders {
            filled.push_str(&source.text[end..placeholder.range.start]);
            if let Some(value) = placeholder.value(axes, point) {
                let scaled = placeholder.factor.map_or(Some(value.clone()), |factor| times(&value, factor));
                let value = scaled.ok_or_else(|| {
                    let wrong =
                        format!("axis `{}` has the value {value}, which cannot be multiplied", placeholder.axis);
                    source.error(placeholder.line, format!("{wrong}; use numbers, or texts like \"20 ms\""))
                })?;
                filled.push_str(&value.to_string());
            }
            end = placeholder.range.end;
        }
        Ok(filled + &source.text[end..])
    }

    fn value(&self, axes: &[Axis], point: &Point) -> Option<Value> {
        named(axes, &self.axis).ok()?.field(point.get(&self.axis)?, self.field.as_deref())
    }
}

/// `value` times `factor`: a number, or a text that begins with one. Whole numbers stay whole where they can.
fn times(value: &Value, factor: f64) -> Option<Value> {
    match value {
        Value::Float(number) => Some(Value::Float(number * factor)),
        Value::Integer(number) => {
            let product = *number as f64 * factor;
            let whole = product.fract() == 0.0 && product.abs() < 1e15;
            Some(if whole { Value::Integer(product as i64) } else { Value::Float(product) })
        }
        Value::String(text) => {
            let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let number: f64 = text[..unit].parse().ok()?;
            Some(Value::String(format!("{}{}", rounded(number * factor), &text[unit..])))
        }
        _ => None,
    }
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
        let times = |text: &str, factor| times(&text.parse().unwrap(), factor).map(|value| value.to_string());
        assert_eq!(times("\"25 ms\"", 0.3).unwrap(), "\"7.5 ms\"");
        assert_eq!(times("\"0.1 s\"", 3.0).unwrap(), "\"0.3 s\"");
        assert_eq!(times("40", 0.5).unwrap(), "20");
        assert_eq!(times("5", 0.5).unwrap(), "2.5");
        assert_eq!(times("0.5", 0.5).unwrap(), "0.25");
        assert_eq!(times("\"fast\"", 0.5), None);
        assert_eq!(times("true", 0.5), None);
    }
}
