//! `questions.toml`: what an evaluation asks, by the sections of RFC 9743 or of another specification.
//!
//! ```toml
//! title = "the questions of RFC 9743"
//! about = "..."                               # what the questions are, for the page
//!
//! [[section]]
//! id = "5.1.2"
//! title = "Protection against bufferbloat"
//! level = "should"                            # how the RFC asks: must, should or may
//! asks = "..."                                # in our words
//!
//! [[question]]
//! id = "standing-queue"
//! section = "5.1.2"
//! asks = "How long is the queue that one flow keeps in a deep buffer?"
//! scenario = "alone.toml"                     # beside this file; its axis `scheme` has the schemes, `other` the rivals
//! set = { path = "deep" }
//! quick = { seed = [1, 2] }                   # as in a claim: false, true or values
//! metric = { mean = "links.bottleneck.queue_mean_share" }
//! expect = { at_most = 0.5 }
//! because = "judgement: ..."                  # where the bound is from
//! ```
//!
//! A question about the axis `other` is asked for each rival. In the values of its metric `"$scheme"` is the scheme and
//! `"$other"` the rival.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rampmeter_scenario::ScenarioError;
use rampmeter_units::Known;
use serde::{Deserialize, Serialize};
use toml::{Spanned, Table, Value};

use crate::StudyError;
use crate::claims::{Bound, Metric, Quick};
use crate::entries::Text;
use crate::journal::short_hash;

/// How the specification asks for the answers of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// They must be given.
    Must,
    /// They should be given.
    Should,
    /// They may be given.
    May,
}

/// A section of the specification.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Its number.
    pub id: String,
    /// Its title.
    pub title: String,
    /// How it asks.
    pub level: Level,
    /// What it asks, in our words.
    pub asks: String,
    /// Why no runs answer it; `None` if there are questions.
    pub not_run: Option<String>,
}

/// A question of a section.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Its name, unique.
    pub id: String,
    /// The number of its section.
    pub section: String,
    /// Its text.
    pub asks: String,
    /// The scenario's file, beside the questions.
    pub scenario: PathBuf,
    /// The values of the scenario's axes.
    #[serde(default)]
    pub set: Table,
    /// Whether a quick evaluation asks it, and of which runs.
    #[serde(default)]
    pub(crate) quick: Quick,
    metric: Table,
    /// The bound.
    pub expect: Bound,
    /// Where the bound is from; what is judgement begins with that word.
    pub because: String,
    /// Whether it asks about any router. Then schemes that bring their own are not asked.
    #[serde(default)]
    pub any_router: bool,
    #[serde(skip)]
    line: usize,
}

impl Question {
    /// Whether it is asked for each rival.
    pub fn is_about_rivals(&self) -> bool {
        let mut texts = Vec::new();
        self.metric.values().for_each(|value| collect(value, &mut texts));
        texts.contains(&"$other")
    }

    /// The metric for `scheme`, beside `other`.
    pub(crate) fn metric(&self, scheme: &str, other: Option<&str>) -> Result<Metric, String> {
        let mut metric = self.metric.clone();
        let place = metric.entry("where").or_insert_with(|| Table::new().into());
        if let Some(place) = place.as_table_mut() {
            place.entry("scheme").or_insert_with(|| "$scheme".into());
        }
        let names: Vec<(&str, &str)> =
            [("$scheme", scheme)].into_iter().chain(other.map(|it| ("$other", it))).collect();
        metric.iter_mut().for_each(|(_, value)| substitute(value, &names));
        metric.try_into().map_err(|error: toml::de::Error| error.message().replace('\n', " "))
    }

    /// A digest of what it asks of `scenario`, the text of its file, which names the files `named`. Comments, schemes
    /// and seeds do not change it.
    pub(crate) fn digest(&self, scenario: &str, named: &BTreeMap<String, String>, quick: bool) -> String {
        let scenario = scenario.parse().map_or_else(|_| scenario.to_owned(), |table: Table| table.to_string());
        let quick = self.quick_values().filter(|_| quick).unwrap_or_default();
        let parts = [self.set.to_string(), quick.to_string(), self.metric.to_string(), self.expect.to_string()];
        let named = named.iter().flat_map(|(name, text)| [name, text]);
        short_hash(&[&scenario].into_iter().chain(&parts).chain(named).map(String::as_str).collect::<Vec<_>>())
    }

    /// The values of the axes for a quick evaluation; `None` if it does not ask this question.
    pub(crate) fn quick_values(&self) -> Option<Table> {
        match &self.quick {
            Quick::Plain(false) => None,
            Quick::Plain(true) => Some(Table::new()),
            Quick::With(values) => Some(values.clone()),
        }
    }
}

/// The questions of an evaluation.
#[derive(Debug, Clone)]
pub struct Questionnaire {
    /// Its file.
    pub file: PathBuf,
    /// What an evaluation is by: "the questions of RFC 9743".
    pub title: String,
    /// What the questions are.
    pub about: String,
    /// The sections, in the order of the file.
    pub sections: Vec<Section>,
    /// The questions, in the order of the file.
    pub questions: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "own_title")]
    title: String,
    #[serde(default)]
    about: String,
    section: Vec<Spanned<Section>>,
    question: Vec<Spanned<Question>>,
}

impl Questionnaire {
    /// Reads the questions in `file`.
    pub fn read(file: &Path) -> Result<Self, StudyError> {
        let mut errors = Vec::new();
        let read = Self::read_all(file, &mut errors)?;
        errors.into_iter().next().map_or(Ok(read), |first| Err(first.into()))
    }

    /// Every error of `file`, as far as one reading finds them. What its questions ask of scenarios is checked when they
    /// are asked.
    pub fn problems(file: &Path) -> Vec<StudyError> {
        let mut errors = Vec::new();
        let fatal = Self::read_all(file, &mut errors).err();
        fatal.into_iter().chain(errors.into_iter().map(StudyError::from)).collect()
    }

    /// Reads the questions that have no errors. An error that is returned is one after which reading cannot go on.
    fn read_all(file: &Path, errors: &mut Vec<ScenarioError>) -> Result<Self, StudyError> {
        let name = file.display().to_string();
        let text =
            std::fs::read_to_string(file).map_err(|error| ScenarioError::Unreadable { file: name.clone(), error })?;
        let text = Text { file: &name, text: &text };
        let parsed: File = match toml::from_str(text.text) {
            Ok(parsed) => parsed,
            Err(first) => {
                let (section, question) = (text.entries("section", errors), text.entries("question", errors));
                if errors.is_empty() {
                    return Err(text.unread(&first).into());
                }
                File { title: own_title(), about: String::new(), section, question }
            }
        };
        let is_whole = errors.is_empty();
        let mut questions: Vec<Question> = Vec::new();
        for question in parsed.question {
            let at = question.span().start;
            let question = Question { line: text.line(at), ..question.into_inner() };
            let id = &question.id;
            if questions.iter().any(|other| other.id == *id) {
                errors.push(text.wrong(at, format!("there are two questions called `{id}`; rename one")));
            }
            if is_whole && !parsed.section.iter().any(|section| section.get_ref().id == question.section) {
                let advice = "add a [[section]] with this id";
                let what = format!("question `{id}`: there is no section {}; {advice}", question.section);
                errors.push(text.wrong(at, what));
            }
            questions.push(question);
        }
        for section in parsed.section.iter().filter(|_| is_whole) {
            let Section { id, not_run, .. } = section.get_ref();
            if not_run.is_some() == questions.iter().any(|question| question.section == *id) {
                let advice = "a section has questions, or says in `not_run` why it has none";
                errors.push(text.wrong(section.span().start, format!("section {id}: {advice}")));
            }
        }
        let sections = parsed.section.into_iter().map(Spanned::into_inner).collect();
        let File { title, about, .. } = parsed;
        Ok(Self { file: file.to_owned(), title, about, sections, questions })
    }

    /// Omits all questions but `names`, and the sections without any. An error says which name is no question, or none
    /// of a quick evaluation.
    pub fn only(&mut self, names: &[String], quick: bool) -> Result<(), String> {
        for name in names {
            let Some(question) = self.questions.iter().find(|question| question.id == *name) else {
                let known = Known::near(name, self.questions.iter().map(|question| question.id.as_str()));
                return Err(format!("no question is called `{name}`; {known}"));
            };
            if quick && question.quick_values().is_none() {
                return Err(format!("the question `{name}` is not asked with --quick; omit one of the two"));
            }
        }
        self.questions.retain(|question| names.contains(&question.id));
        let questions = &self.questions;
        self.sections.retain(|section| questions.iter().any(|question| question.section == section.id));
        Ok(())
    }

    /// An error if there is no question to ask.
    pub fn check_asked(&self, quick: bool) -> Result<(), String> {
        match self.questions.iter().any(|question| !quick || question.quick_values().is_some()) {
            true => Ok(()),
            false if quick && !self.questions.is_empty() => {
                Err("no question is asked with --quick; omit it, or give questions `quick = true`".to_owned())
            }
            false => Err("there is no question; write a [[question]]".to_owned()),
        }
    }

    /// An error in `question`.
    pub(crate) fn wrong(&self, question: &Question, problem: &str) -> StudyError {
        let problem = format!("question `{}`: {problem}", question.id);
        ScenarioError::Wrong { file: self.file.display().to_string(), line: question.line, problem }.into()
    }
}

/// The title of a file that has none.
fn own_title() -> String {
    "questions of its own".to_owned()
}

fn collect<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(array) => array.iter().for_each(|value| collect(value, texts)),
        Value::Table(table) => table.values().for_each(|value| collect(value, texts)),
        _ => {}
    }
}

fn substitute(value: &mut Value, names: &[(&str, &str)]) {
    match value {
        Value::String(text) => {
            if let Some((_, name)) = names.iter().find(|(placeholder, _)| placeholder == text) {
                *text = (*name).to_owned();
            }
        }
        Value::Array(array) => array.iter_mut().for_each(|value| substitute(value, names)),
        Value::Table(table) => table.iter_mut().for_each(|(_, value)| substitute(value, names)),
        _ => {}
    }
}
