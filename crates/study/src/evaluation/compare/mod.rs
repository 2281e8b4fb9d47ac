//! Compares two evaluations of a scheme: what became better or worse by more than chance explains.
//!
//! Every value is from several seeds, and the seeds of the two evaluations may differ. A value has changed if
//!
//! - the values of the single seeds differ by more than chance explains: Student's t-test of their means, at a level of
//!   1% for all values of the comparison together (Bonferroni), and
//! - the value itself differs in the same direction, by at least 3% of the earlier value, or of the bound where that is
//!   larger: a loss rate that grows from 0.01% to 0.02% under a bound of 1% is no regression.
//!
//! The value itself need not be the mean of the seeds' values, which is what the test is for: it may be a ratio of means,
//! or the least of all runs. So a single seed can turn a least value to fails without a change.
//!
//! What counts for a range is how far the value is outside. Where a question passed before and fails now, the values
//! that fail it became worse however small their difference is, if chance does not explain it. Fewer than three seeds
//! hardly show what chance explains: with these a difference of half the earlier value or bound always counts, and
//! every question that turns from passes to fails became worse.

mod plan;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Map;

use super::report::Better;
use super::{Answered, Evaluation, Value, Verdict};
use crate::chance::difference_by_chance;
pub(super) use plan::Plan;

/// The probability of a false alarm in a comparison of equal programs.
const LEVEL: f64 = 0.01;

/// The smallest change that counts, relative to the earlier value or the bound.
const MIN_CHANGE: f64 = 0.03;

/// The fewest seeds of each evaluation that tell a change from chance.
const MIN_SEEDS: usize = 3;

/// The change that counts in any case with fewer seeds, relative to the earlier value or the bound.
const CHANGE_WITH_FEW_SEEDS: f64 = 0.5;

/// A value that has changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The name of the question.
    pub question: String,
    /// The place of the value; empty for the ratio that decides about a shape.
    pub at: Map<String, serde_json::Value>,
    /// The value before.
    pub before: Option<f64>,
    /// The value now; `None` if there is none any more.
    pub now: Option<f64>,
    /// Whether it became worse.
    pub is_worse: bool,
    /// Whether the question passed before and fails now because of this value.
    pub turns_to_fails: bool,
    /// Whether there are too few seeds to tell the change from chance.
    pub has_few_seeds: bool,
}

/// The comparison of two evaluations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The values that have changed, in the order of the questions.
    pub changes: Vec<Change>,
    /// How many values were compared.
    pub compared: usize,
    /// How many of these have too few seeds to tell a change from chance.
    pub with_few_seeds: usize,
    /// Questions that passed before and fail now, by a difference that chance explains: their seeds differ.
    pub uncertain: Vec<String>,
    /// The builds of Rampmeter before and now, if they differ.
    pub builds: Option<[String; 2]>,
}

impl Comparison {
    /// Compares the answers of the evaluated scheme `before` and `now`. An error says why that is impossible.
    pub fn of(before: &Evaluation, now: &Evaluation) -> Result<Self, String> {
        Plan::of(now).check(before)?;
        let questions: Vec<Compared<'_>> =
            before.questions().filter_map(|question| Compared::of(question, before, now)).collect();
        let pairs = || questions.iter().flat_map(|question| &question.pairs);
        let compared = pairs().count();
        if compared == 0 {
            return Err(
                "the baseline has no value that this evaluation could be compared with; record a new one".into()
            );
        }
        let level = LEVEL / compared as f64;
        let changes: Vec<Change> = questions.iter().flat_map(|question| question.changes(level)).collect();
        let is_explained = |id: &str| changes.iter().any(|change| change.question == id && change.is_worse);
        let turned = questions.iter().filter(|question| question.turns_to_fails && !is_explained(question.id));
        let uncertain = turned.map(|question| question.id.to_owned()).collect();
        let with_few_seeds = pairs().filter(|pair| pair.has_few_seeds()).count();
        let builds = [&before.build, &now.build];
        let builds = (builds[0] != builds[1]).then(|| builds.map(Clone::clone));
        Ok(Self { changes, compared, with_few_seeds, uncertain, builds })
    }

    /// Whether something became worse.
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.is_worse)
    }

    /// What to know before one trusts it: values with too few seeds, questions that chance may have turned, and a baseline
    /// of another build.
    pub fn warnings(&self) -> Vec<String> {
        let few_seeds = (self.with_few_seeds > 0).then(|| {
            format!(
                "{} of {} compared values have fewer than {MIN_SEEDS} seeds before or now, which cannot tell a change \
                 from chance: smaller changes than a half are missed, and chance can look like a regression; record \
                 both evaluations with more seeds, for example --seeds 1,2,3,4",
                self.with_few_seeds, self.compared
            )
        });
        let other_build = self.builds.as_ref().map(|[before, now]| {
            let before = if before.is_empty() { "an earlier one" } else { before };
            format!(
                "the baseline is of another build of Rampmeter ({before}) than this evaluation ({now}): a change can be \
                 one of the simulator or of a rival"
            )
        });
        let uncertain = (!self.uncertain.is_empty()).then(|| {
            format!(
                "passes turned to fails, but the seeds differ so much that it may be chance: {}; ask again with more \
                 seeds",
                self.uncertain.join(", ")
            )
        });
        few_seeds.into_iter().chain(uncertain).chain(other_build).collect()
    }
}

/// A question of the baseline.
struct Compared<'a> {
    id: &'a str,
    limit: Limit,
    /// Whether it passed before and fails now.
    turns_to_fails: bool,
    /// The values that decided.
    worst: [Option<f64>; 2],
    pairs: Vec<Pair<'a>>,
}

/// A value of both evaluations.
struct Pair<'a> {
    before: &'a Value,
    now: Option<&'a Value>,
}

/// What a question expects of each value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    Less(f64),
    More(f64),
    Range(f64, f64),
    /// It expects something of all values together.
    Shape,
}

impl Limit {
    fn of(question: &Answered) -> Self {
        match (question.better, question.bound, question.range) {
            (Some(Better::Less), Some(bound), _) => Self::Less(bound),
            (Some(Better::More), Some(bound), _) => Self::More(bound),
            (_, _, Some([low, high])) => Self::Range(low, high),
            _ => Self::Shape,
        }
    }

    /// How bad a value is: more is worse, and more than zero is beyond the limit.
    fn badness(self, value: f64) -> f64 {
        match self {
            Self::Less(bound) => value - bound,
            Self::More(bound) => bound - value,
            Self::Range(low, high) => (low - value).max(value - high).max(0.0),
            Self::Shape => 0.0,
        }
    }

    /// The size of the limit, which a small change is small beside.
    fn size(self) -> f64 {
        match self {
            Self::Less(bound) | Self::More(bound) => bound.abs(),
            Self::Range(low, high) => low.abs().max(high.abs()),
            Self::Shape => 0.0,
        }
    }
}

impl<'a> Compared<'a> {
    /// Values without an equal before are new, and not compared.
    fn of(question: &'a Answered, before: &'a Evaluation, now: &'a Evaluation) -> Option<Self> {
        let earlier = question.of(&before.scheme)?;
        let question_now = now.questions().find(|now| now.id == question.id);
        let answer = question_now.and_then(|question| question.of(&now.scheme));
        let same_place = |value: &Value| answer?.values.iter().find(|other| other.at == value.at);
        let now_fails = answer.is_some_and(|answer| answer.verdict == Verdict::Fails);
        Some(Self {
            id: &question.id,
            limit: Limit::of(question_now.unwrap_or(question)),
            turns_to_fails: earlier.verdict == Verdict::Passes && now_fails,
            worst: [earlier.worst, answer.and_then(|answer| answer.worst)],
            pairs: earlier.values.iter().map(|before| Pair { before, now: same_place(before) }).collect(),
        })
    }

    /// What has changed, at this level of significance.
    fn changes(&self, level: f64) -> Vec<Change> {
        let changes: Vec<Change> = self.pairs.iter().filter_map(|pair| self.change(pair, level)).collect();
        let is_beyond = |pair: &Pair<'_>| pair.values().is_some_and(|(_, now)| self.limit.badness(now) > 0.0);
        let of_all = self.turns_to_fails && !self.pairs.iter().any(is_beyond);
        if of_all && !changes.iter().any(|change| change.is_worse) {
            let has_few_seeds = self.pairs.iter().any(Pair::has_few_seeds);
            if self.pairs.iter().any(|pair| pair.differs(true, f64::INFINITY, level)) {
                let [before, now] = self.worst;
                return vec![Change { turns_to_fails: true, has_few_seeds, ..self.changed(before, now, true) }];
            }
        }
        changes
    }

    fn change(&self, pair: &Pair<'_>, level: f64) -> Option<Change> {
        let at = pair.before.at.clone();
        let Some((before, now)) = pair.values() else {
            let (before, now) = (pair.before.value, pair.now.and_then(|now| now.value));
            let is_missing = before.is_some();
            return (is_missing || now.is_some()).then(|| Change { at, ..self.changed(before, now, is_missing) });
        };
        let worsening = self.limit.badness(now) - self.limit.badness(before);
        let turns_to_fails = self.turns_to_fails && worsening > 0.0 && self.limit.badness(now) > 0.0;
        let scale = before.abs().max(self.limit.size());
        let min_change = if turns_to_fails { 0.0 } else { MIN_CHANGE * scale };
        let has_few_seeds = pair.has_few_seeds();
        (worsening.abs() > min_change && pair.differs(turns_to_fails, scale, level)).then(|| Change {
            at,
            turns_to_fails,
            has_few_seeds,
            ..self.changed(Some(before), Some(now), worsening > 0.0)
        })
    }

    fn changed(&self, before: Option<f64>, now: Option<f64>, is_worse: bool) -> Change {
        let question = self.id.to_owned();
        Change { question, at: Map::new(), before, now, is_worse, turns_to_fails: false, has_few_seeds: false }
    }
}

impl Pair<'_> {
    /// The values before and now, if there are both.
    fn values(&self) -> Option<(f64, f64)> {
        self.before.value.zip(self.now?.value)
    }

    fn has_few_seeds(&self) -> bool {
        self.values().is_some() && self.seeds().iter().any(|seeds| seeds.len() < MIN_SEEDS)
    }

    fn seeds(&self) -> [&[f64]; 2] {
        [&self.before.seeds, self.now.map_or(&[][..], |now| &now.seeds)]
    }

    /// Whether the values differ by more than chance explains. With few seeds they also do if they differ by
    /// [`CHANGE_WITH_FEW_SEEDS`] of `scale`, or at all if the question turns to fails.
    fn differs(&self, turns_to_fails: bool, scale: f64, level: f64) -> bool {
        let Some((before, now)) = self.values() else { return false };
        let few_seeds_suffice = turns_to_fails || (now - before).abs() > CHANGE_WITH_FEW_SEEDS * scale;
        let direction = (now - before).signum();
        let by_seeds = || self.difference_of_seeds(level).is_some_and(|difference| difference * direction > 0.0);
        now != before && (self.has_few_seeds() && few_seeds_suffice || by_seeds())
    }

    /// The difference of the means of the seeds' values, if chance does not explain it.
    fn difference_of_seeds(&self, level: f64) -> Option<f64> {
        let [before, now] = self.seeds();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let difference = mean(now) - mean(before);
        (difference.abs() > difference_by_chance(before, now, level)).then_some(difference)
    }
}
