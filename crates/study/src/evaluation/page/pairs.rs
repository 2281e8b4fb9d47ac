//! Pairs of questions that ask for goodput and for delay on the same runs.
//!
//! A question whose name ends in `goodput` or `utilization` and one for seconds whose name ends in `delay` are a pair if
//! the same command repeats the runs of both, and their values have the same places.

use serde_json::Map;

use super::Page;
use crate::evaluation::{Answer, Answered, Value};

/// Two questions about the same runs.
pub(super) struct Pair<'a> {
    pub(super) goodput: &'a Answered,
    pub(super) delay: &'a Answered,
}

/// A place of a pair: the delay and the goodput of one scheme there.
pub(super) struct Point<'a> {
    pub(super) at: &'a Value,
    pub(super) delay: f64,
    pub(super) goodput: f64,
}

/// The pairs, those with the same units together.
pub(super) fn pairs<'a>(page: &Page<'a>) -> Vec<Vec<Pair<'a>>> {
    let mut groups: Vec<Vec<Pair<'a>>> = Vec::new();
    for delay in page.evaluation.questions() {
        if !delay.id.ends_with("delay") || delay.unit != "s" {
            continue;
        }
        let is_partner = |other: &&Answered| {
            (other.id.ends_with("goodput") || other.id.ends_with("utilization")) && other.repeat == delay.repeat
        };
        let Some(goodput) = page.evaluation.questions().find(is_partner) else { continue };
        let pair = Pair { goodput, delay };
        if page.schemes.iter().all(|scheme| pair.points(scheme).is_empty()) {
            continue;
        }
        let units = |pair: &Pair<'a>| (&pair.goodput.unit, &pair.delay.unit);
        match groups.iter_mut().find(|group| units(&group[0]) == units(&pair)) {
            Some(group) => group.push(pair),
            None => groups.push(vec![pair]),
        }
    }
    groups
}

impl<'a> Pair<'a> {
    /// The places where `scheme` has both values.
    pub(super) fn points(&self, scheme: &str) -> Vec<Point<'a>> {
        let (Some(goodput), Some(delay)) = (self.goodput.of(scheme), self.delay.of(scheme)) else {
            return Vec::new();
        };
        let point = |at: &'a Value| Some(Point { at, delay: value_at(delay, &at.at)?, goodput: at.value? });
        goodput.values.iter().filter_map(point).collect()
    }
}

fn value_at(answer: &Answer, at: &Map<String, serde_json::Value>) -> Option<f64> {
    answer.values.iter().find(|value| value.at == *at)?.value
}
