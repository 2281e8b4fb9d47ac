//! Who harms whom: a matrix of pairs for each question about a rival beside the scheme.
//!
//! A cell is the value of a pair that is nearest to failing, of all places; its colour is how far that value is within
//! the bound or beyond it.

use maud::{Markup, html};

use super::limit::{Limit, in_words, place};
use super::{Page, link, repeat};
use crate::evaluation::{Answered, Part, Value, formatted};

/// The axis of the rival.
const OTHER: &str = "other";

/// The matrices; nothing if no question is about rivals.
pub(super) fn matrices(page: &Page<'_>) -> Markup {
    let of_part = |part| part_questions(part).filter(|(_, question)| is_about_rivals(question));
    let questions: Vec<(&Part, &Answered)> = page.evaluation.sections.iter().flat_map(of_part).collect();
    html! {
        @if !questions.is_empty() {
            section #pairs {
                h2 { "Who harms whom" }
                p.lead {
                    "Rows: the scheme that the question is about. Columns: the scheme beside it. A number is the worst "
                    "of all paths. "
                    span.key.h0 { "well within the bound" } " " span.key.h2 { "at the bound" } " "
                    span.key.h4 { "beyond" } " " span.key.h6 { "more than twice as bad" }
                }
                // As wide as the matrices, so that there are as many beside each other as there is room for.
                div.cards style={ "--width:" (11 + 4 * page.evaluation.rivals.len()) "rem" } { @for (part, question) in questions { (matrix(page, part, question)) } }
            }
        }
    }
}

fn part_questions(part: &Part) -> impl Iterator<Item = (&Part, &Answered)> {
    part.questions.iter().map(move |question| (part, question))
}

fn is_about_rivals(question: &Answered) -> bool {
    question.answers.iter().flat_map(|answer| &answer.values).any(|value| value.at.contains_key(OTHER))
}

fn other(value: &Value) -> Option<&str> {
    value.at.get(OTHER)?.as_str()
}

fn matrix(page: &Page<'_>, part: &Part, question: &Answered) -> Markup {
    let all = || question.answers.iter().flat_map(|answer| &answer.values).filter_map(other);
    let columns: Vec<usize> =
        (0..page.schemes.len()).filter(|index| all().any(|it| it == page.schemes[*index])).collect();
    html! {
        figure.card {
            figcaption {
                div.muted.small { (part.id) " " (part.title) }
                (link(question, &question.asks))
                div.bound { b { (in_words(question)) } }
            }
            div.wide {
                table.matrix {
                    thead {
                        tr {
                            td {}
                            @for column in &columns {
                                th.scheme scope="col" { span { span.hidden { "beside " } (page.schemes[*column]) } }
                            }
                        }
                    }
                    tbody {
                        @for (index, scheme) in page.schemes.iter().enumerate() {
                            tr.own[index == 0] {
                                th scope="row" { (scheme) }
                                @for column in &columns { (cell(page, question, index, *column)) }
                            }
                        }
                    }
                }
            }
            (repeat(page, question, "Repeat the runs"))
        }
    }
}

fn cell(page: &Page<'_>, question: &Answered, scheme: usize, column: usize) -> Markup {
    let limit = Limit::of(question);
    let answer = question.of(page.schemes[scheme]);
    let values = answer.into_iter().flat_map(|answer| &answer.values);
    let here = values.filter(|value| other(value) == Some(page.schemes[column]));
    let valued = here.filter_map(|value| Some((value, value.value?)));
    let key = |value: f64| limit.margin(value).unwrap_or(0.0);
    let worst = valued.min_by(|(_, a), (_, b)| key(*a).total_cmp(&key(*b)));
    html! {
        @match worst {
            Some((at, value)) => {
                td.(shade(limit.margin(value))) title=(format!("{} {}", page.schemes[scheme], place(at))) {
                    (formatted(value, &question.unit))
                    @if limit.is_violated_by(value) { span.hidden { " fails" } }
                }
            }
            None => td.none { "–" },
        }
    }
}

/// The class of a margin: from `h0`, well within the bound, to `h6`, less than half as good as it.
fn shade(margin: Option<f64>) -> &'static str {
    match margin {
        None => "h2",
        Some(margin) if margin >= 1.5 => "h0",
        Some(margin) if margin >= 1.1 => "h1",
        Some(margin) if margin >= 1.0 => "h2",
        Some(margin) if margin >= 0.8 => "h3",
        Some(margin) if margin >= 0.65 => "h4",
        Some(margin) if margin >= 0.5 => "h5",
        Some(_) => "h6",
    }
}
