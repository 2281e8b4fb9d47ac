//! What an evaluation is going to ask: known before it runs, so that a baseline that does not fit costs no time.

use std::collections::BTreeMap;

use super::super::Evaluation;
use super::super::report::FORMAT;

/// What an evaluation asks, and of which schemes.
#[derive(Debug, Clone)]
pub(in super::super) struct Plan<'a> {
    pub(in super::super) title: &'a str,
    pub(in super::super) world: &'a str,
    pub(in super::super) quick: bool,
    pub(in super::super) scheme: &'a str,
    pub(in super::super) rivals: &'a [String],
    pub(in super::super) schemes: BTreeMap<String, String>,
    /// The names of the questions, and their digests.
    pub(in super::super) questions: BTreeMap<&'a str, String>,
}

impl<'a> Plan<'a> {
    pub(in super::super) fn of(evaluation: &'a Evaluation) -> Self {
        Self {
            title: &evaluation.title,
            world: &evaluation.world,
            quick: evaluation.quick,
            scheme: &evaluation.scheme,
            rivals: &evaluation.rivals,
            schemes: evaluation.schemes.clone(),
            questions: evaluation.questions().map(|asked| (asked.id.as_str(), asked.digest.clone())).collect(),
        }
    }

    /// Whether the evaluation can be compared with the baseline `before`. An error says why not, and what to do.
    pub(in super::super) fn check(&self, before: &Evaluation) -> Result<(), String> {
        let refuse = |problem: String, advice: &str| Err(format!("{problem}; {advice}or record a new baseline"));
        if before.format != FORMAT {
            return refuse(format!("the baseline has format {} and not {FORMAT}", before.format), "use its version, ");
        }
        if before.title != self.title {
            let problem = format!("the baseline is by {}, and this evaluation by {}", before.title, self.title);
            return refuse(problem, "use the same --suite or --questions, ");
        }
        if before.world != self.world {
            let problem = format!("the baseline is {}, and this evaluation {}", before.world, self.world);
            return refuse(problem, "use the same --world, ");
        }
        if before.quick != self.quick {
            let (baseline, advice) = if before.quick { ("with", "add it, ") } else { ("without", "omit it, ") };
            return refuse(format!("the baseline was recorded {baseline} --quick"), advice);
        }
        if before.scheme != self.scheme {
            let problem = format!("the baseline is of `{}`, and this evaluation of `{}`", before.scheme, self.scheme);
            let advice = format!("if that is its earlier name, add --renamed-from {}, ", before.scheme);
            return refuse(problem, &advice);
        }
        for rival in &before.rivals {
            if !self.rivals.contains(rival) {
                let problem = format!("the baseline has the rival `{rival}`, and this evaluation does not");
                return refuse(problem, "add it to --against, ");
            }
            if before.schemes.get(rival) != self.schemes.get(rival) {
                let problem = format!("the rival `{rival}` has other settings than in the baseline");
                return refuse(problem, "give it the same in --schemes, ");
            }
        }
        if !before.questions().any(|question| self.questions.contains_key(question.id.as_str())) {
            return refuse("the baseline has none of these questions".to_owned(), "ask the same ones, ");
        }
        for question in before.questions().filter(|question| !question.digest.is_empty()) {
            if self.questions.get(question.id.as_str()).is_some_and(|now| *now != question.digest) {
                let problem = format!("the question `{}` has another scenario, metric or bound now", question.id);
                return refuse(problem, "ask it as it was, ");
            }
        }
        Ok(())
    }
}
