//! Asks the questions: makes a claim of each question for each scheme, runs them all, and sorts the results.

use std::collections::BTreeMap;
use std::sync::Arc;

use rampmeter_scenario::{SEED, Scenario, ScenarioError, stack};
use serde_json::Map;
use toml::Value as Setting;

use super::compare::Plan;
use super::paths::Paths;
use super::report::{Better, FORMAT};
use super::{Answer, Answered, Evaluation, Part, Question, Questionnaire, Schemes, Value, Verdict};
use crate::claims::{self, Bound, Claim, ClaimResult, Judge, Measured, Standing, Status};
use crate::{BUILD, Progress, StudyError, Unfinished};

/// The axis with the schemes, and the one with the rivals beside them.
const SCHEME: &str = "scheme";
const OTHER: &str = "other";

/// What stands for no rivals on the command line.
pub const NO_RIVALS: &str = "none";

/// An evaluation to run.
#[derive(Clone)]
pub struct Evaluator<'a> {
    /// What runs and judges the claims. Its first world is that of the evaluation.
    pub judge: Judge<'a>,
    /// The questions; their scenarios share the file of `schemes`.
    pub questionnaire: &'a Questionnaire,
    /// The definitions of the schemes.
    pub schemes: &'a Schemes,
    /// The scheme to evaluate.
    pub scheme: &'a str,
    /// The schemes to compare it with.
    pub rivals: &'a [String],
    /// Whether to ask only the main questions, with fewer paths.
    pub quick: bool,
    /// Seeds instead of those of the scenarios; empty for those.
    pub seeds: &'a [u64],
}

/// A question with its scenario.
struct Asking<'a> {
    question: &'a Question,
    /// The scenario with the values of its file, and with those of this evaluation.
    scenarios: [Scenario; 2],
    /// The schemes that are not asked, and why.
    refused: BTreeMap<&'a str, String>,
}

/// A question to a scheme, beside a rival.
struct Asked<'a> {
    question: &'a Question,
    scheme: &'a str,
    other: Option<&'a str>,
}

impl Evaluator<'_> {
    /// Runs the evaluation.
    pub fn run(&self, watch: impl FnMut(Progress)) -> Result<Evaluation, StudyError> {
        let questions = self.questionnaire.questions.iter().filter_map(|question| self.asking(question).transpose());
        let questions = questions.collect::<Result<Vec<_>, _>>()?;
        let mut asked = Vec::new();
        let mut claims = Vec::new();
        for asking in &questions {
            for (scheme, other) in self.places(asking) {
                claims.push(self.claim(asking, scheme, other)?);
                asked.push(Asked { question: asking.question, scheme, other });
            }
        }
        let mut runs = 0;
        let mut watch = watch;
        let results = self.judge.judge(&claims, |progress| {
            runs = progress.total;
            watch(progress);
        })?;
        let results: Vec<(Asked<'_>, ClaimResult<'_>)> = asked.into_iter().zip(results).collect();
        let sections = self.questionnaire.sections.iter().map(|section| {
            let own = questions.iter().filter(|asking| asking.question.section == section.id);
            Part {
                id: section.id.clone(),
                title: section.title.clone(),
                level: section.level,
                asks: section.asks.clone(),
                not_run: section.not_run.clone(),
                questions: own.map(|asking| self.answered(asking, &results)).collect(),
            }
        });
        Ok(Evaluation {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: BUILD.to_owned(),
            scheme: self.scheme.to_owned(),
            rivals: self.rivals.to_vec(),
            schemes: self.definitions(),
            stacks: self.stacks(),
            world: self.world().to_owned(),
            quick: self.quick,
            runs,
            title: self.questionnaire.title.clone(),
            about: self.questionnaire.about.clone(),
            sections: sections.collect(),
            failed: Unfinished::failed_runs(results.iter().map(|(_, result)| result)),
        })
    }

    fn digest(&self, question: &Question) -> String {
        let file = self.questionnaire.file.with_file_name(&question.scenario);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let named = Scenario::read(file).map(|scenario| scenario.named_files()).unwrap_or_default();
        question.digest(&text, &named, self.quick)
    }

    /// Whether this evaluation can be compared with the baseline `before`. An error says why not, and what to do.
    pub fn check_baseline(&self, before: &Evaluation) -> Result<(), String> {
        let asked = self.questionnaire.questions.iter();
        let asked = asked.filter(|question| !self.quick || question.quick_values().is_some());
        let plan = Plan {
            title: &self.questionnaire.title,
            world: self.world(),
            quick: self.quick,
            scheme: self.scheme,
            rivals: self.rivals,
            schemes: self.definitions(),
            questions: asked.map(|question| (question.id.as_str(), self.digest(question))).collect(),
        };
        plan.check(before)
    }

    fn definitions(&self) -> BTreeMap<String, String> {
        let definition = |name: &str| self.schemes.definition(name).map(ToString::to_string).unwrap_or_default();
        self.all().map(|name| (name.to_owned(), definition(name))).collect()
    }

    fn stacks(&self) -> BTreeMap<String, String> {
        let known = &self.judge.sweep.registries.stacks;
        let about = |scheme| Some(known.check(self.schemes.stack(scheme)?).ok()?.about().to_owned());
        self.all().filter_map(|scheme| Some((scheme.to_owned(), about(scheme)?))).collect()
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.scheme).chain(self.rivals.iter().map(String::as_str))
    }

    fn world(&self) -> &str {
        self.judge.worlds.first().map_or("simulated", |world| world.name())
    }

    /// The schemes that a question is asked of, each with the rivals beside it.
    fn places<'q>(&'q self, asking: &'q Asking<'q>) -> impl Iterator<Item = (&'q str, Option<&'q str>)> {
        self.asked(&asking.refused).flat_map(move |scheme| {
            let rivals = self.asked(&asking.refused).filter(move |rival| ![scheme, self.scheme].contains(rival));
            let rivals: Vec<_> =
                if asking.question.is_about_rivals() { rivals.map(Some).collect() } else { vec![None] };
            rivals.into_iter().map(move |other| (scheme, other))
        })
    }

    /// All schemes without the refused ones.
    fn asked<'q>(&'q self, refused: &'q BTreeMap<&str, String>) -> impl Iterator<Item = &'q str> {
        self.all().filter(|scheme| !refused.contains_key(scheme))
    }

    /// A question with its scenario; `None` if a quick evaluation does not ask it.
    fn asking<'q>(&'q self, question: &'q Question) -> Result<Option<Asking<'q>>, StudyError> {
        let quick = match (self.quick, question.quick_values()) {
            (true, None) => return Ok(None),
            (true, Some(values)) => values,
            (false, _) => toml::Table::new(),
        };
        let mut values = question.set.clone();
        values.extend(quick);
        if !self.seeds.is_empty() {
            let seeds = self.seeds.iter().map(|seed| Setting::Integer(*seed as i64));
            values.insert(SEED.into(), seeds.collect::<Vec<_>>().into());
        }
        let file = Scenario::read(self.questionnaire.file.with_file_name(&question.scenario))?;
        let set = |scenario: Scenario| claims::set(scenario, &values, self.judge.sweep.registries);
        let refusal = |scheme: &str| {
            if question.any_router && self.schemes.brings_routers(scheme) {
                return Some("it needs routers of its own".to_owned());
            }
            let alone = || of_schemes(&file, &[scheme]).and_then(set);
            match self.schemes.is_foreign(scheme).then(alone)? {
                Err(ScenarioError::CannotSend { why, .. }) => Some(why),
                _ => None, // another error is one of the question, and is found below
            }
        };
        let refused: BTreeMap<&str, String> =
            self.all().filter_map(|scheme| Some((scheme, refusal(scheme)?))).collect();
        let names: Vec<&str> = self.asked(&refused).collect();
        // Without any scheme the scenario keeps those of its file.
        let whole = if names.is_empty() { file.clone() } else { of_schemes(&file, &names)? };
        let asked = set(whole.clone()).map_err(|error| match error {
            ScenarioError::Wrong { .. } | ScenarioError::CannotSend { .. } => error.into(), // it names its own place
            error => self.questionnaire.wrong(question, &error.to_string()),
        })?;
        Ok(Some(Asking { question, scenarios: [whole, asked], refused }))
    }

    fn claim(&self, asking: &Asking<'_>, scheme: &str, other: Option<&str>) -> Result<Claim, StudyError> {
        let Asking { question, scenarios: [whole, asked], .. } = asking;
        let refuse = |problem: String| self.questionnaire.wrong(question, &problem);
        let metric = question.metric(scheme, other).map_err(refuse)?;
        let sweep = &self.judge.sweep;
        let (registries, schema) = (sweep.registries, sweep.schema);
        claims::check(&metric, &question.expect, [whole, asked], &question.set, registries, schema).map_err(refuse)?;
        Ok(Claim {
            id: question.id.clone(),
            place: question.section.clone(),
            text: question.asks.clone(),
            paper: None,
            metric,
            bound: question.expect.clone(),
            status: Status::Holds,
            note: None,
            world: self.world().to_owned(),
            source: self.questionnaire.file.clone(),
            file: self.questionnaire.file.with_file_name(&question.scenario),
            scenario: asked.clone(),
            digest: String::new(),
            recorded: Standing::Missing,
            variants: Arc::default(),
        })
    }

    /// The answers to a question.
    fn answered(&self, asking: &Asking<'_>, results: &[(Asked<'_>, ClaimResult<'_>)]) -> Answered {
        let Asking { question, refused, .. } = asking;
        let own: Vec<_> = results.iter().filter(|(asked, _)| asked.question.id == question.id).collect();
        let answers = self.all().map(|scheme| {
            let of_scheme: Vec<_> = own.iter().filter(|(asked, _)| asked.scheme == scheme).collect();
            match refused.get(scheme) {
                Some(why) => skipped(scheme, why),
                None if of_scheme.is_empty() => skipped(scheme, "there is no rival beside it"),
                None => answer(scheme, &question.expect, &of_scheme),
            }
        });
        let mut answers: Vec<Answer> = answers.collect();
        let claim = own.first().map(|(_, result)| result.claim);
        if let Some(claim) = claim {
            let paths = Paths::of(&claim.scenario, &[SCHEME, OTHER, SEED], self.judge.sweep.registries);
            for value in answers.iter_mut().flat_map(|answer| &mut answer.values) {
                value.path = paths.at(&value.at);
            }
        }
        let repeated = claim.filter(|_| !refused.contains_key(self.scheme));
        Answered {
            id: question.id.clone(),
            digest: self.digest(question),
            asks: question.asks.clone(),
            expect: claim.map_or_else(|| question.expect.to_string(), Claim::expect),
            bound: question.expect.number(),
            range: question.expect.range(),
            because: question.because.clone(),
            better: better(&question.expect),
            unit: claim.map_or("", |claim| claim.metric.quantity()).to_owned(),
            scenario: question.scenario.display().to_string(),
            evaluate: self.again(question),
            repeat: repeated.map_or_else(Vec::new, |claim| self.repeat(question, claim)),
            answers,
        }
    }

    /// The arguments of `rampmeter` that compute the values again: those of all schemes, with all runs that they need.
    fn again(&self, question: &Question) -> Vec<String> {
        let rivals = if self.rivals.is_empty() { NO_RIVALS.to_owned() } else { self.rivals.join(",") };
        let seeds = self.seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let what = if stack::split(self.scheme).is_some() { "--stack" } else { "--controller" };
        let mut arguments = vec!["evaluate", "--questions", "scenarios", what, self.scheme];
        arguments.extend(["--against", &rivals, "--only", &question.id]);
        if self.quick {
            arguments.push("--quick");
        }
        if !self.seeds.is_empty() {
            arguments.extend(["--seeds", &seeds]);
        }
        if self.world() != "simulated" {
            arguments.extend(["--world", self.world()]);
        }
        arguments.extend(["--out", "repeat"]);
        arguments.into_iter().map(str::to_owned).collect()
    }

    /// The arguments of `rampmeter` that run the scenario for the evaluated scheme.
    fn repeat(&self, question: &Question, claim: &Claim) -> Vec<String> {
        let file = format!("scenarios/{}", question.scenario.display());
        let mut arguments = vec!["run".to_owned(), file, "--set".to_owned(), format!("{SCHEME}={}", self.scheme)];
        let text = |value: &Setting| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut given = question.set.clone();
        given.extend(if self.quick { question.quick_values().unwrap_or_default() } else { toml::Table::new() });
        for axis in claim.scenario.axes() {
            let is_other = axis.name == OTHER;
            let is_given = given.contains_key(&axis.name) || (axis.name == SEED && !self.seeds.is_empty());
            if is_other || is_given {
                let values = axis.values.iter().filter(|value| !is_other || value.as_str() != Some(self.scheme));
                let values = values.map(text).collect::<Vec<_>>().join(",");
                arguments.extend(["--set".to_owned(), format!("{}={values}", axis.name)]);
            }
        }
        if self.world() != "simulated" {
            arguments.extend(["--world".to_owned(), self.world().to_owned()]);
        }
        arguments
    }
}

/// The scenario `file` with these schemes, also beside each other.
fn of_schemes(file: &Scenario, names: &[&str]) -> Result<Scenario, ScenarioError> {
    let mut scenario = file.clone();
    for axis in [SCHEME, OTHER] {
        if scenario.axes().iter().any(|known| known.name == axis) {
            scenario.set(axis, names.iter().copied().map(Setting::from).collect())?;
        }
    }
    Ok(scenario)
}

fn skipped(scheme: &str, reason: &str) -> Answer {
    let reason = Some(reason.to_owned());
    Answer { scheme: scheme.to_owned(), verdict: Verdict::Skipped, worst: None, values: Vec::new(), reason }
}

/// The answer of `scheme`, from its results beside each rival or from its single result.
fn answer(scheme: &str, bound: &Bound, results: &[&&(Asked<'_>, ClaimResult<'_>)]) -> Answer {
    let reason = results.iter().find_map(|(_, result)| result.reason.clone());
    let values = results.iter().flat_map(|(asked, result)| result.values.iter().map(|value| value_of(asked, value)));
    let values: Vec<Value> = values.collect();
    if results.iter().any(|(_, result)| result.holds.is_none()) {
        return Answer { values, ..skipped(scheme, &reason.unwrap_or_default()) };
    }
    let worst = if bound.is_shape() {
        let shapes = results.iter().map(|(_, result)| result.measured);
        bound.worst(&shapes.map(|value| Measured { value, ..Measured::default() }).collect::<Vec<_>>())
    } else {
        let all = results.iter().flat_map(|(_, result)| result.values.iter().cloned());
        bound.worst(&all.collect::<Vec<_>>())
    };
    let passes = results.iter().all(|(_, result)| result.holds == Some(true));
    let verdict = if passes { Verdict::Passes } else { Verdict::Fails };
    Answer { scheme: scheme.to_owned(), verdict, worst, values, reason }
}

fn value_of(asked: &Asked<'_>, measured: &Measured) -> Value {
    let other = asked.other.map(|other| (OTHER.to_owned(), other.into()));
    let json = |value: &Setting| serde_json::to_value(value).unwrap_or_default();
    let places = measured.at.iter().map(|(axis, value)| (axis.clone(), json(value)));
    let at: Map<String, serde_json::Value> = other.into_iter().chain(places).collect();
    Value { at, value: measured.value, seeds: measured.seeds.clone(), path: String::new() }
}

fn better(bound: &Bound) -> Option<Better> {
    match bound {
        Bound::AtMost(_) | Bound::Below(_) => Some(Better::Less),
        Bound::AtLeast(_) | Bound::Above(_) => Some(Better::More),
        _ => None,
    }
}
