//! A question: its bound and where that is from, the deciding value of each scheme, and all values.

use maud::{Markup, html};

use super::limit::{Limit, deciding_number, in_words, place};
use super::{Page, anchor, repeat, sign};
use crate::evaluation::{Answer, Answered, Value, formatted};

/// A question.
pub(super) fn question(page: &Page<'_>, question: &Answered) -> Markup {
    let own = question.of(&page.evaluation.scheme);
    html! {
        article.question id=(anchor("q", &question.id)) {
            div {
                h3 {
                    @if let Some(own) = own { (sign(own.verdict)) " " }
                    (question.asks)
                }
                p.bound { b { (in_words(question)) } " " (because(&question.because)) }
                @if let Some(path) = only_path(question) { p.bound { "Path: " (path) } }
            }
            (answers(page, question))
            div.more {
                (values(page, question))
                (repeat(page, question, "Repeat the runs"))
                span.id { (question.id) }
            }
        }
    }
}

/// Where the bound is from. What is judgement is marked so.
fn because(text: &str) -> Markup {
    let judgement = text.strip_prefix("judgement").map(|rest| rest.trim_start_matches(':').trim());
    html! {
        @match judgement {
            Some(reason) => { span.tag { "judgement" } " " (reason) },
            None => (text),
        }
    }
}

/// The path of all values, if it is the same. The table of values has different ones.
fn only_path(question: &Answered) -> Option<&str> {
    let mut paths = question.answers.iter().flat_map(|answer| &answer.values).map(|value| value.path.as_str());
    let first = paths.next().filter(|path| !path.is_empty())?;
    paths.all(|path| path == first).then_some(first)
}

/// A row for each scheme: the value that decides, and its place.
fn answers(page: &Page<'_>, question: &Answered) -> Markup {
    let decides = |answer: &Answer| {
        let deciding = answer.values.iter().find(|value| value.value.is_some() && value.value == answer.worst);
        deciding.map_or_else(String::new, place)
    };
    html! {
        table.answers {
            thead.hidden { tr { th scope="col" { "Scheme" } th scope="col" { "Deciding value" } th scope="col" { "Verdict" } th scope="col" { "Place" } } }
            tbody {
                @for (index, scheme) in page.schemes.iter().enumerate() {
                    @if let Some(answer) = question.of(scheme) {
                        tr.own[index == 0] {
                            th scope="row" { (scheme) }
                            td.number { @if answer.worst.is_some() { (deciding_number(question, answer)) } }
                            td { (sign(answer.verdict)) }
                            td.muted { (answer.reason.clone().unwrap_or_else(|| decides(answer))) }
                        }
                    }
                }
            }
        }
    }
}

/// The values of all schemes at all places, each with the range of its seeds.
fn values(page: &Page<'_>, question: &Answered) -> Markup {
    let limit = Limit::of(question);
    let mut places: Vec<&Value> = Vec::new();
    for value in question.answers.iter().flat_map(|answer| &answer.values) {
        if !places.iter().any(|known| known.at == value.at) {
            places.push(value);
        }
    }
    html! {
        @if !places.is_empty() {
            details.values {
                summary { "Values" }
                div.wide {
                    table.numbers {
                        thead {
                            tr {
                                th scope="col" { "Place" }
                                @for (index, scheme) in page.schemes.iter().enumerate() { th.own[index == 0] scope="col" { (scheme) } }
                            }
                        }
                        tbody {
                            @for at in places {
                                tr {
                                    th scope="row" {
                                        @if at.at.is_empty() { "all runs" } (place(at))
                                        @if !at.path.is_empty() { span.muted { " (" (at.path) ")" } }
                                    }
                                    @for (index, scheme) in page.schemes.iter().enumerate() {
                                        @let same = |value: &&Value| value.at == at.at;
                                        @let value = question.of(scheme).and_then(|answer| answer.values.iter().find(same));
                                        td.own[index == 0] { (number(value, question, limit)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn number(value: Option<&Value>, question: &Answered, limit: Limit) -> Markup {
    let text = |value: f64| formatted(value, &question.unit);
    html! {
        @match value.map(|value| value.value) {
            Some(Some(value)) if limit.is_violated_by(value) => { span.wrong { (text(value)) span.hidden { " fails" } } },
            Some(Some(value)) => (text(value)),
            Some(None) => span.muted { "none" },
            None => span.muted { "–" },
        }
        @if let Some((low, high)) = value.and_then(spread) { div.seeds { (text(low)) " to " (text(high)) } }
    }
}

/// The smallest and the largest value of single seeds; `None` for one seed.
fn spread(value: &Value) -> Option<(f64, f64)> {
    let of = |pick: fn(f64, f64) -> f64| value.seeds.iter().copied().reduce(pick);
    of(f64::min).zip(of(f64::max)).filter(|(low, high)| low < high)
}
