//! A question: its bound and where that is from, a plot with a row for each scheme, and the values.
//!
//! ```text
//!   pcp      ──●─○───────────────┃▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒   0.45%  ✓      ○ a place    ● the place that decides
//!   cubic    ────────────────○───┃▒▒▒▒▒●▒▒▒▒▒▒▒▒▒   84.1%  ✗      ┃ the bound  ▒ the side that fails
//!            0%      20%     40%  at most 50%  80%
//! ```

use maud::{Markup, html};

use super::limit::{Limit, deciding, deciding_number, in_words, own_unit, place, tick};
use super::marks::{class, icon, mark, short};
use super::scale::Scale;
use super::{Page, anchor, repeat, sign};
use crate::evaluation::{Answer, Answered, Value, Verdict, formatted};

/// The height of a row, and where its marks and seeds are.
const HEIGHT: f64 = 26.0;
const MARKS: f64 = 11.0;
const SEEDS: f64 = 20.0;

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
            (plot(page, question))
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

fn plot(page: &Page<'_>, question: &Answered) -> Markup {
    let limit = Limit::of(question);
    let values = question.answers.iter().flat_map(|answer| &answer.values);
    let values = values.flat_map(|value| value.value.into_iter().chain(value.seeds.iter().copied()));
    let scale = Scale::of(values.chain(limit.numbers())).widened(0.06);
    html! {
        table.plot {
            caption.hidden { (question.asks) " " (in_words(question)) }
            colgroup { col.of-name {} col {} col.of-value {} col.of-verdict {} }
            thead.hidden { tr { th scope="col" { "Scheme" } th scope="col" { "Values" } th scope="col" { "Deciding value" } th scope="col" { "Verdict" } } }
            tbody {
                @for (index, scheme) in page.schemes.iter().enumerate() {
                    @if let Some(answer) = question.of(scheme) {
                        tr.own[index == 0] {
                            th scope="row" { (icon(index)) " " (scheme) }
                            @if answer.verdict == Verdict::Skipped && answer.values.is_empty() {
                                td.strip.reason { (answer.reason.as_deref().unwrap_or("no answer")) }
                            } @else {
                                td.strip { (strip(question, answer, index, limit, scale)) }
                            }
                            td.number title=[answer.reason.as_deref()] { @if answer.worst.is_some() { (deciding_number(question, answer)) } }
                            td.verdict { (sign(answer.verdict)) }
                        }
                    }
                }
                tr.axis aria-hidden="true" { td {} td.strip { (axis(question, limit, scale)) } td.number { @if limit != Limit::Shape { (own_unit(&question.unit)) } } td {} }
            }
        }
    }
}

/// The row of a scheme.
fn strip(question: &Answered, answer: &Answer, scheme: usize, limit: Limit, scale: Scale) -> Markup {
    let percent = |value: f64| 100.0 * scale.at(value);
    let shown = answer.values.iter().filter_map(|value| Some((value, value.value?)));
    let decides = |value: f64| limit == Limit::Shape || answer.worst == Some(value);
    // The filled mark is drawn last, above the others.
    let (filled, hollow): (Vec<_>, Vec<_>) = shown.partition(|(_, value)| decides(*value));
    let label = format!("{}: {}", answer.scheme, deciding(question, answer));
    let text = |at: &Value, value: f64| {
        let place = place(at);
        let value = formatted(value, &question.unit);
        if place.is_empty() { value } else { format!("{place}: {value}") }
    };
    html! {
        svg width="100%" height=(HEIGHT) role="img" aria-label=(label) {
            @for (from, to) in failing(limit, scale) {
                rect.bad x={ (short(from)) "%" } width={ (short(to - from)) "%" } height=(HEIGHT) {}
            }
            line.base x1="0" x2="100%" y1=(MARKS) y2=(MARKS) {}
            @for bound in limit.numbers() {
                line.limit x1={ (short(percent(bound))) "%" } x2={ (short(percent(bound))) "%" } y2=(HEIGHT) {}
            }
            g.(class(scheme)) {
                (seeds(answer, scale))
                g.hollow { @for (at, value) in hollow { (mark(scheme, percent(value), MARKS, &text(at, value))) } }
                @for (at, value) in filled { (mark(scheme, percent(value), MARKS, &text(at, value))) }
            }
        }
    }
}

/// A tick for each seed, as one path that is stretched to the width of the plot.
fn seeds(answer: &Answer, scale: Scale) -> Markup {
    let several = answer.values.iter().filter(|value| value.seeds.len() > 1);
    let mut places: Vec<i64> =
        several.flat_map(|value| &value.seeds).map(|seed| (1000.0 * scale.at(*seed)) as i64).collect();
    places.sort_unstable();
    places.dedup();
    let path = places.iter().map(|place| format!("M{place} 0v1")).collect::<Vec<_>>().concat();
    html! {
        @if !path.is_empty() {
            svg y=(SEEDS) width="100%" height="4" viewBox="0 0 1000 1" preserveAspectRatio="none" { path.seeds d=(path) {} }
        }
    }
}

/// The parts of the axis, in percent, that the bound excludes.
fn failing(limit: Limit, scale: Scale) -> Vec<(f64, f64)> {
    let percent = |value: f64| 100.0 * scale.at(value);
    match limit {
        Limit::Below(bound) => vec![(percent(bound), 100.0)],
        Limit::Above(bound) => vec![(0.0, percent(bound))],
        Limit::Between(low, high) => vec![(0.0, percent(low)), (percent(high), 100.0)],
        Limit::Shape => Vec::new(),
    }
}

fn axis(question: &Answered, limit: Limit, scale: Scale) -> Markup {
    let percent = |value: f64| 100.0 * scale.at(value);
    let bounds: Vec<f64> = limit.numbers().collect();
    // The bound has its own label; a tick near it would be under it.
    let is_free = |tick: &f64| bounds.iter().all(|bound| (percent(*tick) - percent(*bound)).abs() > 13.0);
    html! {
        svg width="100%" height="17" {
            @for value in scale.ticks(5).into_iter().filter(is_free) {
                text.tick x={ (short(percent(value))) "%" } y="12" { (tick(value, &question.unit)) }
            }
            @for bound in bounds {
                text.tick.limit x={ (short(percent(bound))) "%" } y="12" { (tick(bound, &question.unit)) }
            }
        }
    }
}

/// The values of all schemes at all places.
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
    html! {
        @match value.map(|value| value.value) {
            Some(Some(value)) if limit.is_violated_by(value) => {
                span.wrong { (formatted(value, &question.unit)) span.hidden { " fails" } }
            },
            Some(Some(value)) => (formatted(value, &question.unit)),
            Some(None) => span.muted { "none" },
            None => span.muted { "–" },
        }
    }
}
