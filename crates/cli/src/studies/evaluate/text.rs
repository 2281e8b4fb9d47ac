//! An evaluation as text: a line for each question, what failed and why, and what changed since the baseline.

use rampmeter_study::evaluation::{
    Answer, Answered, Change, Comparison, Evaluation, Verdict, deciding, formatted, in_words,
};

use super::super::wrap::wrap;
use crate::table::table;

/// The text of an evaluation.
pub(super) fn report(evaluation: &Evaluation, comparison: Option<&Comparison>) -> String {
    let first = ["section", "question", "bound", "verdict"].map(String::from);
    let head: Vec<String> = first.into_iter().chain(evaluation.all_schemes().map(str::to_owned)).collect();
    let mut rows = Vec::new();
    for section in &evaluation.sections {
        for question in &section.questions {
            let own = question.of(&evaluation.scheme);
            let verdict = own.map_or("", |answer| word(answer.verdict)).to_owned();
            let mut row = vec![section.id.clone(), question.id.clone(), in_words(question), verdict];
            row.extend(
                evaluation
                    .all_schemes()
                    .map(|scheme| question.of(scheme).map_or(String::new(), |it| cell(question, it))),
            );
            rows.push(row);
        }
    }
    let failing = evaluation.questions().filter_map(|question| {
        let answer = question.of(&evaluation.scheme)?;
        let because = answer.reason.as_ref().unwrap_or(&question.because);
        let label = format!("{:<9}", word(answer.verdict));
        let line = wrap(&label, &format!("{}: {} ({because})", question.id, question.asks));
        (answer.verdict != Verdict::Passes).then_some(line)
    });
    let counts = evaluation.all_schemes().map(|scheme| {
        let [passes, fails, skipped] = evaluation.count(scheme);
        format!("{scheme}: passes {passes}, fails {fails}, skipped {skipped}")
    });
    let counts = counts.collect::<Vec<_>>().join("; ");
    let changes = comparison.map_or(String::new(), |comparison| changes(evaluation, comparison));
    format!("{}\n{}\n{counts}\n{changes}", table(&head, &rows), failing.collect::<String>())
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passes => "passes",
        Verdict::Fails => "fails",
        Verdict::Skipped => "skipped",
    }
}

/// The value that decides; marked if it does not meet the bound.
fn cell(question: &Answered, answer: &Answer) -> String {
    let value = deciding(question, answer);
    match answer.verdict {
        Verdict::Passes => value,
        Verdict::Fails => format!("{value} !"),
        Verdict::Skipped => "skipped".to_owned(),
    }
}

fn changes(evaluation: &Evaluation, comparison: &Comparison) -> String {
    let line = |change: &Change| {
        let word = if change.is_worse { "worse" } else { "better" };
        let unit = evaluation.questions().find(|asked| asked.id == change.question).map_or("", |asked| &asked.unit);
        let value = |value: Option<f64>| value.map_or("none".to_owned(), |value| formatted(value, unit));
        let at = change.at.iter().map(|(axis, value)| format!("{axis} = {value}")).collect::<Vec<_>>().join(", ");
        let at = if at.is_empty() { at } else { format!(" ({at})") };
        let turns = if change.turns_to_fails { ", and passes turns to fails" } else { "" };
        let few = if change.has_few_seeds { " (few seeds: perhaps by chance)" } else { "" };
        let (before, now) = (value(change.before), value(change.now));
        format!("{word:<9}{}{at}: {before} before, {now} now{turns}{few}\n", change.question)
    };
    let lines: String = comparison.changes.iter().map(line).collect();
    let worse = comparison.changes.iter().filter(|change| change.is_worse).count();
    let better = comparison.changes.len() - worse;
    format!("\n{lines}of {} values, {worse} became worse and {better} better than the baseline\n", comparison.compared)
}
