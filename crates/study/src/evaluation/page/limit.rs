//! A bound, and how far a value is within it.

use crate::evaluation::{Answer, Answered, Better, Value, Verdict, formatted};

/// The largest margin: a value that is ten times better than its bound says no more than one that is twice as good.
const MAX_MARGIN: f64 = 2.0;

/// A bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    /// Values are this or less.
    Below(f64),
    /// Values are this or more.
    Above(f64),
    /// Values are between these.
    Between(f64, f64),
    /// The values together have a shape; no single one is right or wrong.
    Shape,
}

impl Limit {
    /// The bound of `question`.
    pub(super) fn of(question: &Answered) -> Self {
        match (question.bound, question.better) {
            (Some(bound), Some(Better::Less)) => Self::Below(bound),
            (Some(bound), Some(Better::More)) => Self::Above(bound),
            _ => question.range.map_or(Self::Shape, |[low, high]| Self::Between(low, high)),
        }
    }

    /// Whether `value` is on its wrong side.
    pub(super) fn is_violated_by(self, value: f64) -> bool {
        self.margin(value).is_some_and(|margin| margin < 1.0)
    }

    /// How far `value` is within the bound: 1 at the bound, 2 if it is twice as good or better, 0.5 if it is half as
    /// good. `None` for a shape. A range, and a bound that has no ratio to the value, have only 0 and 2.
    pub(super) fn margin(self, value: f64) -> Option<f64> {
        let either = |holds: bool| if holds { MAX_MARGIN } else { 0.0 };
        let margin = match self {
            Self::Below(bound) if value > 0.0 && bound > 0.0 => bound / value,
            Self::Above(bound) if bound > 0.0 => value / bound,
            Self::Below(bound) => either(value <= bound),
            Self::Above(bound) => either(value >= bound),
            Self::Between(low, high) => either((low..=high).contains(&value)),
            Self::Shape => return None,
        };
        Some(margin.clamp(0.0, MAX_MARGIN))
    }
}

/// How far `answer` is within the bound of `question`; `None` if it was skipped. The verdict has the last word: a
/// strict bound is not met by a value that is equal to it.
pub(super) fn margin(question: &Answered, answer: &Answer) -> Option<f64> {
    let margin = answer.worst.and_then(|worst| Limit::of(question).margin(worst));
    match answer.verdict {
        Verdict::Skipped => None,
        Verdict::Passes => Some(margin.unwrap_or(MAX_MARGIN).max(1.0)),
        Verdict::Fails => Some(margin.unwrap_or(0.0).min(0.999)),
    }
}

/// The bound in words, with its unit: "at most 50%".
pub fn in_words(question: &Answered) -> String {
    let words = || question.expect.split(' ').take_while(|word| word.parse::<f64>().is_err());
    match question.bound {
        Some(bound) => format!("{} {}", words().collect::<Vec<_>>().join(" "), short(bound, &question.unit)),
        None => match Limit::of(question) {
            Limit::Between(low, high) => format!("{} to {}", short(low, &question.unit), short(high, &question.unit)),
            _ => question.expect.clone(),
        },
    }
}

/// The value that decides, with its unit. That of a shape is a ratio.
pub fn deciding(question: &Answered, answer: &Answer) -> String {
    let unit = if Limit::of(question) == Limit::Shape { "" } else { &question.unit };
    answer.worst.map_or_else(|| "none".to_owned(), |worst| formatted(worst, unit))
}

/// The same without a question's own unit, for a place near the bound, which has it.
pub(super) fn deciding_number(question: &Answered, answer: &Answer) -> String {
    let text = deciding(question, answer);
    let unit = if Limit::of(question) == Limit::Shape { "" } else { own_unit(&question.unit) };
    text.strip_suffix(unit).map_or(text.clone(), |number| number.trim_end().to_owned())
}

/// A value with its unit, without zeros at its end: "50%", not "50.0%".
fn short(value: f64, unit: &str) -> String {
    if value == 0.0 && matches!(unit, "s" | "b/s" | "bytes") {
        return "0".to_owned();
    }
    let text = formatted(value, unit);
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{unit}")
}

/// The unit if it is a question's own, such as "of the link", which may be long; empty for units with a sign.
fn own_unit(unit: &str) -> &str {
    if matches!(unit, "fraction" | "s" | "b/s" | "bytes" | "ratio" | "Jain's index") { "" } else { unit }
}

/// The place of a value in words: "path deep, flows 4".
pub(super) fn place(value: &Value) -> String {
    let text = |json: &serde_json::Value| json.as_str().map_or_else(|| json.to_string(), str::to_owned);
    let parts = value.at.iter().map(|(axis, at)| match axis.as_str() {
        "other" => format!("beside {}", text(at)),
        axis => format!("{axis} {}", text(at)),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_one_at_the_bound_and_two_at_most() {
        let cases = [
            (Limit::Below(0.5), 0.5, 1.0),
            (Limit::Above(0.8), 0.8, 1.0),
            (Limit::Below(1.0), 0.0, 2.0),
            (Limit::Below(1.0), 0.001, 2.0),
            (Limit::Above(1.0), 30.0, 2.0),
            (Limit::Below(0.1), 0.2, 0.5),
            (Limit::Above(0.8), 0.4, 0.5),
            (Limit::Below(0.0), 0.0, 2.0),
            (Limit::Below(0.0), 1e-9, 0.0),
        ];
        for (limit, value, margin) in cases {
            assert_eq!(limit.margin(value), Some(margin), "{limit:?} and {value}");
        }
    }

    #[test]
    fn short_numbers_have_no_zeros_at_the_end() {
        assert_eq!(short(0.5, "fraction"), "50%");
        assert_eq!(short(0.1, "s"), "100 ms");
        assert_eq!(short(100.0, ""), "100");
        assert_eq!(short(1.25, "ratio"), "1.25");
        assert_eq!(short(0.0, "fraction"), "0%");
        assert_eq!(short(0.0, "s"), "0");
    }
}
