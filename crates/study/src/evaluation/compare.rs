//! Compares two evaluations of a scheme: what became better or worse by more than chance explains.
//!
//! Every value is the mean of several seeds, and the seeds of the two evaluations may differ. A value has changed if
//!
//! - the difference of the means is beyond what the variation between seeds explains: Welch's t-test, at a level of 1%
//!   for all values of the comparison together (Bonferroni), and
//! - it is at least 3% of the earlier value, or of the bound where that is larger: a loss rate that grows from 0.01% to
//!   0.02% under a bound of 1% is no regression.

use serde::Serialize;
use serde_json::Map;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::report::{Better, FORMAT};
use super::{Answered, Evaluation, Value};

/// The probability of a false alarm in a comparison of equal programs.
const LEVEL: f64 = 0.01;

/// The smallest change that counts, relative to the earlier value or the bound.
const MIN_CHANGE: f64 = 0.03;

/// A value that has changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The name of the question.
    pub question: String,
    /// The place of the value.
    pub at: Map<String, serde_json::Value>,
    /// The value before.
    pub before: Option<f64>,
    /// The value now; `None` if there is none any more.
    pub now: Option<f64>,
    /// Whether it became worse.
    pub is_worse: bool,
}

/// The comparison of two evaluations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The values that have changed, in the order of the questions.
    pub changes: Vec<Change>,
    /// How many values were compared.
    pub compared: usize,
}

impl Comparison {
    /// Compares the answers of the evaluated scheme `before` and `now`. An error says why that is impossible.
    pub fn of(before: &Evaluation, now: &Evaluation) -> Result<Self, String> {
        let same = [
            ("formats", before.format == FORMAT && now.format == FORMAT),
            ("questions", before.title == now.title),
            ("worlds", before.world == now.world),
            ("lengths (--quick)", before.quick == now.quick),
        ];
        if let Some((what, _)) = same.iter().find(|(_, is_same)| !is_same) {
            return Err(format!("the two evaluations have different {what}; record a new baseline"));
        }
        let pairs: Vec<_> = now.questions().flat_map(|question| pairs(question, before, now)).collect();
        let level = LEVEL / pairs.len().max(1) as f64;
        let changes = pairs.iter().filter_map(|pair| pair.change(level)).collect();
        Ok(Self { changes, compared: pairs.len() })
    }

    /// Whether something became worse.
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.is_worse)
    }
}

/// A value of both evaluations.
struct Pair<'a> {
    question: &'a Answered,
    better: Better,
    before: &'a Value,
    now: Option<&'a Value>,
}

/// The values of the evaluated scheme that have a better direction. Values without an equal before are new.
fn pairs<'a>(question: &'a Answered, before: &'a Evaluation, now: &'a Evaluation) -> Vec<Pair<'a>> {
    let earlier = before.questions().find(|earlier| earlier.id == question.id);
    let Some(((better, earlier), answer)) =
        question.better.zip(earlier.and_then(|earlier| earlier.of(&before.scheme))).zip(question.of(&now.scheme))
    else {
        return Vec::new();
    };
    let same_place = |value: &Value| answer.values.iter().find(|other| other.at == value.at);
    earlier.values.iter().map(|before| Pair { question, better, before, now: same_place(before) }).collect()
}

impl Pair<'_> {
    /// The change, if there is one at this level of significance.
    fn change(&self, level: f64) -> Option<Change> {
        let values = (self.before.value, self.now.and_then(|now| now.value));
        let is_worse = match values {
            (Some(before), Some(now)) => {
                let scale = before.abs().max(self.question.bound.map_or(0.0, f64::abs));
                let difference = now - before;
                let of_seeds = |value: &Value| value.seeds.clone();
                let chance = noise(&of_seeds(self.before), &self.now.map(of_seeds).unwrap_or_default(), level);
                if difference.abs() <= (MIN_CHANGE * scale).max(chance) {
                    return None;
                }
                (difference > 0.0) == (self.better == Better::Less)
            }
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return None,
        };
        let (before, now) = values;
        Some(Change { question: self.question.id.clone(), at: self.before.at.clone(), before, now, is_worse })
    }
}

/// The difference of the means of `a` and `b` that chance exceeds with probability `level` if both are samples of the
/// same distribution (Welch, Biometrika 34, 1947); no limit if one of them has a single value.
fn noise(a: &[f64], b: &[f64], level: f64) -> f64 {
    if a.len().min(b.len()) < 2 {
        return f64::INFINITY;
    }
    let [(n_a, var_a), (n_b, var_b)] = [a, b].map(|sample| {
        let n = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / n;
        (n, sample.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0))
    });
    let (part_a, part_b) = (var_a / n_a, var_b / n_b);
    let variance = part_a + part_b;
    if variance == 0.0 {
        return 0.0;
    }
    // Welch-Satterthwaite
    let freedom = variance.powi(2) / (part_a.powi(2) / (n_a - 1.0) + part_b.powi(2) / (n_b - 1.0));
    let quantile = StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - level / 2.0));
    quantile * variance.sqrt()
}
