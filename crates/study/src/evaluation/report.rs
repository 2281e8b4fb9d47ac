//! The result of an evaluation: each section of the RFC with its questions, and the answers of all schemes.
//!
//! It is one JSON object, read back as the baseline of a later evaluation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::Level;
use crate::Unfinished;

/// The version of the format; it changes when older files can no longer be compared.
pub(super) const FORMAT: u32 = 1;

/// The result of an evaluation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evaluation {
    /// The version of this format.
    pub format: u32,
    /// The version of Rampmeter.
    pub version: String,
    /// The version with a hash of the simulator's sources, [`BUILD`](crate::BUILD); empty in earlier evaluations.
    #[serde(default)]
    pub build: String,
    /// The scheme that is evaluated.
    pub scheme: String,
    /// The schemes that it is compared with, in their order.
    pub rivals: Vec<String>,
    /// The definitions of all schemes, as in a scenario file.
    pub schemes: BTreeMap<String, String>,
    /// What the stacks of these schemes are, with their versions, by scheme.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stacks: BTreeMap<String, String>,
    /// The world that ran it.
    pub world: String,
    /// Whether it was quick: only the main questions, with fewer paths.
    pub quick: bool,
    /// The number of runs.
    pub runs: usize,
    /// What it is by: "the questions of RFC 9743".
    #[serde(default)]
    pub title: String,
    /// What the questions are.
    #[serde(default)]
    pub about: String,
    /// The sections of the specification.
    pub sections: Vec<Part>,
    /// Runs that failed. The questions that need them are answered with no.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Unfinished>,
}

/// A section of the RFC with its questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// Its number.
    pub id: String,
    /// Its title.
    pub title: String,
    /// How the RFC asks.
    pub level: Level,
    /// What it asks, in our words.
    pub asks: String,
    /// Why no runs answer it; `None` if there are questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// Its questions.
    pub questions: Vec<Answered>,
}

/// A question with its answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answered {
    /// Its name.
    pub id: String,
    /// A digest of its runs, its metric and its bound, without the schemes and seeds; empty in earlier evaluations.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Its text.
    pub asks: String,
    /// The bound: "at most 0.5".
    pub expect: String,
    /// The number in the bound; `None` for a range or a shape.
    pub bound: Option<f64>,
    /// The ends of a range; `None` for other bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Where the bound is from.
    pub because: String,
    /// Whether less is better, or more; `None` if neither.
    pub better: Option<Better>,
    /// The unit of the values: `s`, `b/s`, `packets`, `fraction`, `ratio`, `Jain's index`, or empty.
    pub unit: String,
    /// The scenario's file, in the directory `scenarios`.
    pub scenario: String,
    /// The arguments of `rampmeter` that compute the values again, in the directory of the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluate: Vec<String>,
    /// The arguments of `rampmeter` that run the scenario for the evaluated scheme.
    pub repeat: Vec<String>,
    /// The answers: first that of the evaluated scheme, then those of its rivals.
    pub answers: Vec<Answer>,
}

/// The better direction of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Less,
    /// More is better.
    More,
}

/// The answer of one scheme.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// The scheme.
    pub scheme: String,
    /// Whether the bound holds.
    pub verdict: Verdict,
    /// The value that decides.
    pub worst: Option<f64>,
    /// The values, one for each place.
    pub values: Vec<Value>,
    /// Why there is no verdict, or no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A value of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// Its place: the values of axes, and the rival as `other`.
    pub at: Map<String, serde_json::Value>,
    /// The value from all seeds; `None` if a run does not have it.
    pub value: Option<f64>,
    /// The values of the single seeds, in their order.
    pub seeds: Vec<f64>,
    /// Its path in words: rate, round trip, buffer; empty if its runs have several, and in earlier evaluations.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
}

/// Whether a bound holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds.
    Passes,
    /// It does not hold.
    Fails,
    /// There is no answer; the reason says why.
    Skipped,
}

impl Evaluation {
    /// The evaluated scheme and its rivals.
    pub fn all_schemes(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.scheme).chain(&self.rivals).map(String::as_str)
    }

    /// All questions.
    pub fn questions(&self) -> impl Iterator<Item = &Answered> {
        self.sections.iter().flat_map(|section| &section.questions)
    }

    /// This evaluation as if the evaluated scheme, called `from`, had the name `to`. An error says its name.
    pub fn renamed(mut self, from: &str, to: &str) -> Result<Self, String> {
        if self.scheme != from {
            return Err(format!("the baseline is of `{}` and not of `{from}`", self.scheme));
        }
        let answers =
            self.sections.iter_mut().flat_map(|section| &mut section.questions).flat_map(|it| &mut it.answers);
        for answer in answers.filter(|answer| answer.scheme == from) {
            to.clone_into(&mut answer.scheme);
        }
        to.clone_into(&mut self.scheme);
        Ok(self)
    }

    /// Omits all questions but `names`.
    pub fn only(&mut self, names: &[String]) {
        for section in &mut self.sections {
            section.questions.retain(|question| names.contains(&question.id));
        }
    }

    /// How many questions `scheme` passes, fails and skips.
    pub fn count(&self, scheme: &str) -> [usize; 3] {
        let verdicts = self.questions().filter_map(|question| question.of(scheme)).map(|answer| answer.verdict);
        verdicts.fold([0; 3], |mut counts, verdict| {
            counts[verdict as usize] += 1;
            counts
        })
    }
}

impl Part {
    /// The verdict of `scheme`: it passes if it passes every question that was not skipped.
    pub fn verdict(&self, scheme: &str) -> Verdict {
        let verdicts = || self.questions.iter().filter_map(|question| question.of(scheme)).map(|answer| answer.verdict);
        match (verdicts().any(|it| it == Verdict::Fails), verdicts().any(|it| it == Verdict::Passes)) {
            (true, _) => Verdict::Fails,
            (false, true) => Verdict::Passes,
            (false, false) => Verdict::Skipped,
        }
    }
}

impl Answered {
    /// The answer of `scheme`.
    pub fn of(&self, scheme: &str) -> Option<&Answer> {
        self.answers.iter().find(|answer| answer.scheme == scheme)
    }
}

/// A value with its unit, in three significant digits: "12.3 Mb/s", "4.5%".
pub fn formatted(value: f64, unit: &str) -> String {
    let digits = |value: f64| {
        let places = if value == 0.0 { 0 } else { 2 - value.abs().log10().floor() as i32 };
        format!("{value:.*}", usize::try_from(places).unwrap_or(0))
    };
    let scaled = |steps: &[(f64, &str)]| {
        // Zero has the plain unit.
        let fits = |size: f64| value.abs() >= size || (value == 0.0 && size == 1.0);
        let (size, name) = steps.iter().rev().find(|(size, _)| fits(*size)).unwrap_or(&steps[0]);
        format!("{} {name}", digits(value / size))
    };
    match unit {
        "fraction" => format!("{}%", digits(value * 100.0)),
        "s" => scaled(&[(1e-6, "µs"), (1e-3, "ms"), (1.0, "s")]),
        "b/s" => scaled(&[(1.0, "b/s"), (1e3, "kb/s"), (1e6, "Mb/s"), (1e9, "Gb/s")]),
        "bytes" => scaled(&[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")]),
        "" | "ratio" | "Jain's index" => digits(value),
        name => format!("{} {name}", digits(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_a_fitting_unit() {
        let cases = [
            (0.0, "s", "0 s"),
            (0.0123, "s", "12.3 ms"),
            (1.5e-9, "s", "0.00150 µs"),
            (4_560_000.0, "b/s", "4.56 Mb/s"),
            (0.045, "fraction", "4.50%"),
            (-0.000_198, "fraction", "-0.0198%"),
            (0.321, "ratio", "0.321"),
            (1578.0, "packets", "1578 packets"),
        ];
        for (value, unit, text) in cases {
            assert_eq!(formatted(value, unit), text);
        }
    }
}
