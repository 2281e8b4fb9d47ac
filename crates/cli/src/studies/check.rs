//! `rampmeter check`: all errors of scenarios, conditions, claims and questions, without running anything.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use rampmeter_scenario::{Registries, Scenario, ScenarioError, Schema};
use rampmeter_study::evaluation::Questionnaire;
use rampmeter_study::{StudyError, check_metrics, claims};
use serde::Serialize;

use crate::failure::Failure;
use crate::print_result;

/// The exit code if a file has errors: the input is invalid.
const INVALID: u8 = 2;

/// The arguments of `rampmeter check`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Each error is a line FILE:LINE: what is wrong; what to write instead. Several errors in one \
    table show one after the other. Exit codes: 0 no errors; 2 errors.")]
pub(crate) struct Args {
    /// Scenarios, conditions, files of claims, files of questions
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write one JSON object to standard output instead of lines
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    files: Vec<Checked>,
}

/// A file with its errors.
#[derive(Serialize)]
struct Checked {
    file: String,
    errors: Vec<Wrong>,
}

#[derive(Serialize)]
struct Wrong {
    /// The file with the error, which the checked one may name.
    file: Option<String>,
    line: Option<usize>,
    problem: String,
    #[serde(skip)]
    text: String,
}

pub(crate) fn check(args: &Args, registries: &Registries) -> Result<ExitCode, Failure> {
    let checked = |file: &PathBuf| {
        let errors = problems(file, registries).iter().map(Wrong::of).collect();
        Checked { file: file.display().to_string(), errors }
    };
    let report = Report { files: args.files.iter().map(checked).collect() };
    let code = print_result(args.json, &report, text)?;
    Ok(if report.files.iter().all(|file| file.errors.is_empty()) { code } else { ExitCode::from(INVALID) })
}

/// The errors of a file of any kind.
fn problems(file: &Path, registries: &Registries) -> Vec<StudyError> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let has = |table: &str| text.lines().any(|line| line.trim_start().starts_with(&format!("[[{table}]]")));
    if has("claim") {
        claims::problems(file, registries, &Schema::default())
    } else if has("question") {
        Questionnaire::problems(file)
    } else {
        let mut problems = Scenario::problems(file, registries);
        if let Some(scenario) = Scenario::read(file).ok().filter(|_| problems.is_empty()) {
            problems = check_metrics(&scenario, &Schema::default(), registries);
        }
        problems.into_iter().map(StudyError::from).collect()
    }
}

impl Wrong {
    fn of(error: &StudyError) -> Self {
        let text = error.to_string();
        match error {
            StudyError::Scenario(error) => {
                let (file, line) = error.place();
                Self { file, line, problem: ScenarioError::problem(error), text }
            }
            _ => Self { file: None, line: None, problem: text.clone(), text },
        }
    }
}

fn text(report: &Report) -> String {
    let mut lines = String::new();
    for Checked { file, errors } in &report.files {
        if errors.is_empty() {
            let _ = writeln!(lines, "{file}: no errors");
        }
        for error in errors {
            let _ = writeln!(lines, "{}", error.text);
        }
    }
    lines
}
