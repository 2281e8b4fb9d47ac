//! The evaluation as one HTML page that needs no network and no scripts.
//!
//! ```text
//!   summary       what the scheme and its rivals pass; the sections × schemes grid; failures, the worst first
//!   pairs         who harms whom
//!   sections      what the RFC asks; each question with its bound, the values and the command that repeats it
//!   schemes       what the names mean
//! ```
//!
//! `maud` escapes all texts, for names come from files of users, and closes all elements.

mod limit;
mod matrix;
mod question;
mod section;
mod summary;
#[cfg(test)]
mod tests;

pub use limit::{deciding, in_words};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Answered, Evaluation, Verdict};

/// What all parts of the page need.
struct Page<'a> {
    evaluation: &'a Evaluation,
    /// The evaluated scheme, then its rivals.
    schemes: Vec<&'a str>,
    /// The words of the command that has the schemes.
    command: &'a [String],
}

/// The page of an evaluation by the program that `command` starts.
pub fn page(evaluation: &Evaluation, command: &[String]) -> String {
    let page = Page { evaluation, schemes: evaluation.all_schemes().collect(), command };
    let title = format!("{} by {}", evaluation.scheme, evaluation.title);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (PreEscaped(r#"<meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>"#))
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                header {
                    h1 { strong { (evaluation.scheme) } " by " (evaluation.title) }
                    (about(&page))
                }
                main {
                    (summary::summary(&page))
                    (matrix::matrices(&page))
                    (section::sections(&page))
                    (schemes(&page))
                }
                footer { p { "Rampmeter " (evaluation.version) ". Machine-readable: " a href="evaluation.json" { "evaluation.json" } "." } }
            }
        }
    };
    markup.into_string()
}

/// What was run.
fn about(page: &Page<'_>) -> Markup {
    let evaluation = page.evaluation;
    let world = match evaluation.world.as_str() {
        "emulated" => "emulated: real packets between network namespaces",
        world => world,
    };
    let extent = if evaluation.quick { "the main questions, with fewer paths" } else { "all questions" };
    html! {
        dl.about {
            div { dt { "Compared with" } dd { @if evaluation.rivals.is_empty() { "no rival" } (evaluation.rivals.join(", ")) } }
            div { dt { "World" } dd { (world) } }
            div { dt { "Extent" } dd { (extent) } }
            div { dt { "Runs" } dd { (evaluation.runs) } }
            div { dt { "Version" } dd { "Rampmeter " (evaluation.build) } }
        }
        details.reading {
            summary { "How to read this page" }
            p {
                (evaluation.about) " Each question here has a bound and says where it is from; "
                span.tag { "judgement" } " marks those that no specification gives. Every scheme answers the same "
                "questions on the same runs, so a verdict can be read beside those of controllers that are in use."
            }
            p {
                "A scheme passes a question if all its values meet the bound. A value is the mean of the seeds at one "
                "place, such as a path or a rival; the one that decides is beside the question. Below each value in the "
                "table of all is the range of its seeds."
            }
        }
    }
}

/// What the names of schemes mean.
fn schemes(page: &Page<'_>) -> Markup {
    html! {
        section #schemes {
            h2 { "Schemes" }
            p.lead { "The definitions that the runs used, as in a scenario file. " code { "scenarios/schemes.toml" } " has all but those of stacks, such as quinn:cubic." }
            div.definitions-of-schemes {
                @for scheme in &page.schemes {
                    div {
                        h3 { (scheme) }
                        pre { code { (page.evaluation.schemes.get(*scheme).map_or("", |text| text.trim())) } }
                        @if let Some(about) = page.evaluation.stacks.get(*scheme) { p { (about) } }
                    }
                }
            }
        }
    }
}

/// The sign of a verdict, with its word for readers that do not see it.
fn sign(verdict: Verdict) -> Markup {
    let (class, sign, word) = match verdict {
        Verdict::Passes => ("pass", "✓", "passes"),
        Verdict::Fails => ("fail", "✗", "fails"),
        Verdict::Skipped => ("skip", "–", "skipped"),
    };
    html! { span.sign.(class) role="img" aria-label=(word) title=(word) { (sign) } }
}

/// A link to a question.
fn link(question: &Answered, text: &str) -> Markup {
    html! { a href={ "#" (anchor("q", &question.id)) } { (text) } }
}

/// The anchor of a question or section: its name, with `-` for what a link would have to encode.
fn anchor(kind: &str, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    format!("{kind}-{}", name.chars().map(plain).collect::<String>())
}

/// The command that computes the values of `question` again, and the one that shows its runs, below `title`.
fn repeat(page: &Page<'_>, question: &Answered, title: &str) -> Markup {
    let command = |arguments: &[String]| {
        let words = page.command.iter().chain(arguments);
        words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    };
    let scenario = format!("scenarios/{}", question.scenario);
    html! {
        details.repeat {
            summary { (title) }
            p {
                "Both commands are for the directory of this page. This one repeats all runs that the question needs, "
                "prints its values for all schemes, and writes a page of it to " code { "repeat" } ":"
            }
            pre { code { (command(&question.evaluate)) } }
            @if !question.repeat.is_empty() {
                p {
                    "This one prints a row for each run of " (page.evaluation.scheme) " in the scenario "
                    a href=(encoded(&scenario)) { (scenario) } ", with what the runs measure, and no value of the question:"
                }
                pre { code { (command(&question.repeat)) } }
                @if let Some(rival) = page.evaluation.rivals.first() {
                    p { "For the runs of a rival, write for example " code { (quoted(&format!("scheme={rival}"))) } "." }
                }
            }
        }
    }
}

/// An argument as a shell reads it.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// A path as a link: relative, whatever its name begins with.
fn encoded(path: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    path.bytes().map(encode).collect()
}
