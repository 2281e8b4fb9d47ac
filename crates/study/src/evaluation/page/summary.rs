//! The summary: how much each scheme passes, the grid of sections and schemes, and the failures, the worst first.

use maud::{Markup, html};

use super::limit::{deciding_number, in_words, margin};
use super::{Page, anchor, link, sign};
use crate::evaluation::{Answered, Level, Part, Verdict};

/// The titles of the RFC above its sections, by the start of their numbers.
const GROUPS: [(&str, &str); 5] = [
    ("5.1", "Single algorithm behavior"),
    ("5.2", "Mixed algorithm behavior"),
    ("5.3", "Other criteria"),
    ("6", "General use"),
    ("7", "Special cases"),
];

/// The summary.
pub(super) fn summary(page: &Page<'_>) -> Markup {
    html! {
        section #summary {
            h2 { "Verdicts" }
            (counts(page))
            (musts(page))
            (grid(page))
        }
        (failures(page))
    }
}

/// How many questions each scheme passes, fails and skips.
fn counts(page: &Page<'_>) -> Markup {
    html! {
        table.counts {
            caption.hidden { "How many questions each scheme passes" }
            thead.hidden { tr { th scope="col" { "Scheme" } th scope="col" { "Shares" } th scope="col" { "Passes" } } }
            tbody {
                @for (index, scheme) in page.schemes.iter().enumerate() {
                    @let [passes, fails, skipped] = page.evaluation.count(scheme);
                    tr.own[index == 0] {
                        th scope="row" { (scheme) }
                        td.bar aria-hidden="true" {
                            div {
                                @for (class, count) in [("pass", passes), ("fail", fails), ("skip", skipped)] {
                                    @if count > 0 { span.(class) style={ "flex:" (count) } {} }
                                }
                            }
                        }
                        td {
                            b { (passes) } " of " (passes + fails) " pass"
                            @if skipped > 0 { span.muted { ", " (skipped) " skipped" } }
                        }
                    }
                }
            }
        }
    }
}

/// In how many of the sections that the RFC says must be answered the evaluated scheme fails a question.
fn musts(page: &Page<'_>) -> Markup {
    let own = &page.evaluation.scheme;
    let asked = page.evaluation.sections.iter().filter(|part| part.verdict(own) != Verdict::Skipped);
    let musts: Vec<&Part> = asked.filter(|part| part.level == Level::Must).collect();
    let failed: Vec<&&Part> = musts.iter().filter(|part| part.verdict(own) == Verdict::Fails).collect();
    html! {
        @if !musts.is_empty() {
            p {
                "Of the " (musts.len()) " sections with runs that " (level(Level::Must)) " be assessed, " (own) " passes "
                (musts.len() - failed.len()) " in all questions"
                @for (index, part) in failed.iter().enumerate() {
                    (if index == 0 { "; it fails a question of " } else { ", " })
                    a href={ "#" (anchor("s", &part.id)) } { (part.id) " " (part.title) }
                }
                "."
            }
        }
    }
}

/// A row for each section, a column for each scheme.
fn grid(page: &Page<'_>) -> Markup {
    let mut group = "";
    html! {
        div.wide {
            table.grid {
                caption.hidden { "Verdicts by section of the RFC" }
                thead {
                    tr {
                        th scope="col" { "Section of the RFC" }
                        th.asks scope="col" { "asks" }
                        @for (index, scheme) in page.schemes.iter().enumerate() {
                            th.scheme.own[index == 0] scope="col" { span { (scheme) } }
                        }
                    }
                }
                tbody {
                    @for part in &page.evaluation.sections {
                        @let (prefix, title) = group_of(part);
                        @if prefix != group {
                            @let () = group = prefix;
                            tr.group { th scope="rowgroup" colspan=(page.schemes.len() + 2) { span.number { (prefix) } " " (title) } }
                        }
                        (row(page, part))
                    }
                }
            }
        }
    }
}

fn row(page: &Page<'_>, part: &Part) -> Markup {
    html! {
        tr.part {
            th scope="row" { a href={ "#" (anchor("s", &part.id)) } { span.number { (part.id) } " " (part.title) } }
            td.asks { (level(part.level)) }
            @if part.questions.is_empty() {
                td.not-run colspan=(page.schemes.len()) { @if part.not_run.is_some() { "answered without runs" } @else { "not in a quick evaluation" } }
            } @else {
                @for (index, scheme) in page.schemes.iter().enumerate() {
                    @let verdict = part.verdict(scheme);
                    @let (passes, asked) = passed(part, scheme);
                    td.verdict.(word(verdict)).own[index == 0] {
                        (sign(verdict))
                        @if asked > 1 { " " span.of { (passes) "/" (asked) } }
                    }
                }
            }
        }
    }
}

fn group_of(part: &Part) -> (&'static str, &'static str) {
    let is_in = |prefix: &str| part.id == prefix || part.id.strip_prefix(prefix).is_some_and(|it| it.starts_with('.'));
    GROUPS.into_iter().find(|(prefix, _)| is_in(prefix)).unwrap_or_default()
}

/// How many questions of `part` the scheme passes, of how many that were not skipped.
fn passed(part: &Part, scheme: &str) -> (usize, usize) {
    let verdicts = part.questions.iter().filter_map(|question| question.of(scheme)).map(|answer| answer.verdict);
    let asked: Vec<Verdict> = verdicts.filter(|verdict| *verdict != Verdict::Skipped).collect();
    (asked.iter().filter(|verdict| **verdict == Verdict::Passes).count(), asked.len())
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passes => "passes",
        Verdict::Fails => "fails",
        Verdict::Skipped => "skipped",
    }
}

/// How the RFC asks.
pub(super) fn level(level: Level) -> Markup {
    let (class, word) = match level {
        Level::Must => ("must", "MUST"),
        Level::Should => ("should", "SHOULD"),
        Level::May => ("may", "MAY"),
    };
    html! { span.level.(class) { (word) } }
}

/// What the evaluated scheme fails, the worst first.
fn failures<'a>(page: &Page<'a>) -> Markup {
    let own = &page.evaluation.scheme;
    let fails = |question: &Answered| question.of(own).is_some_and(|answer| answer.verdict == Verdict::Fails);
    let of_part = |part: &'a Part| part.questions.iter().map(move |question| (part, question));
    let all = page.evaluation.sections.iter().flat_map(of_part);
    let mut failed: Vec<(&Part, &Answered)> = all.filter(|(_, question)| fails(question)).collect();
    let distance = |question: &Answered| question.of(own).and_then(|answer| margin(question, answer)).unwrap_or(0.0);
    failed.sort_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    html! {
        section #failures {
            h2 { "What " (own) " fails" }
            @if failed.is_empty() {
                p.lead { (own) " fails none of the questions that were asked." }
            } @else {
                p.lead { "The farthest from its bound first." }
                div.wide { table.failures {
                    thead {
                        tr {
                            th scope="col" { "Question" }
                            th scope="col" { "Bound" }
                            @for (index, scheme) in page.schemes.iter().enumerate() {
                                th.scheme.own[index == 0] scope="col" { span { (scheme) } }
                            }
                        }
                    }
                    tbody {
                        @for (part, question) in failed {
                            tr {
                                th scope="row" { span.number { (part.id) } " " (link(question, &question.asks)) }
                                td { (in_words(question)) }
                                @for (index, scheme) in page.schemes.iter().enumerate() {
                                    td.number.own[index == 0] { (figure(question, scheme)) }
                                }
                            }
                        }
                    }
                } }
            }
        }
    }
}

/// The deciding value of a scheme, with its sign.
fn figure(question: &Answered, scheme: &str) -> Markup {
    html! {
        @match question.of(scheme) {
            Some(answer) if answer.verdict != Verdict::Skipped => { (deciding_number(question, answer)) " " (sign(answer.verdict)) }
            _ => (sign(Verdict::Skipped)),
        }
    }
}
