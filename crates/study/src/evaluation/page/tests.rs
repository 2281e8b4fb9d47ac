//! The page is parsed as XML: that fails at any element that is not closed and at any text that is not escaped.

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::json;

use super::*;

const HOSTILE: &str = "<script>alert('&')</script>\"";

fn parsed(text: &str) -> Document<'_> {
    Document::parse_with_options(text, ParsingOptions { allow_dtd: true, ..ParsingOptions::default() }).unwrap()
}

fn evaluation() -> Evaluation {
    let value =
        |at: serde_json::Value, value: f64| json!({ "at": at, "value": value, "seeds": [value * 0.9, value * 1.1] });
    let answer = |scheme: &str, verdict: &str, worst: f64, values: serde_json::Value| json!({ "scheme": scheme, "verdict": verdict, "worst": worst, "values": values });
    let skipped = |scheme: &str| json!({ "scheme": scheme, "verdict": "skipped", "worst": null, "values": [], "reason": HOSTILE });
    let question = |id: &str,
                    expect: &str,
                    bound: Option<f64>,
                    better: Option<&str>,
                    unit: &str,
                    answers: serde_json::Value| {
        json!({
            "id": id, "asks": format!("{id}? {HOSTILE}"), "expect": expect, "bound": bound, "better": better, "unit": unit,
            "range": (id == "range").then_some([0.5, 2.0]),
            "because": "judgement: ours", "scenario": "alone.toml", "answers": answers,
            "evaluate": ["evaluate", "--questions", "scenarios", "--only", id],
            "repeat": ["run", "scenarios/alone.toml", "--set", "scheme=pcp", "--set", "name=it's"],
        })
    };
    let section = |id: &str, title: &str, questions: serde_json::Value| json!({ "id": id, "title": title, "level": "must", "asks": "It asks.", "questions": questions });
    let deep = || json!({ "path": "deep" });
    let fading = || json!({ "path": HOSTILE });
    let beside = |other: &str| json!({ "other": other, "path": "deep" });
    let value_of = serde_json::from_value(json!({
        "format": 1, "version": "0.1.0", "scheme": "pcp", "rivals": ["cubic", HOSTILE], "world": "simulated", "quick": true,
        "runs": 12, "schemes": { "pcp": "controller = \"pcp\"\n", "cubic": HOSTILE },
        "sections": [
            section("5.1.2", "Bufferbloat", json!([
                question("link-utilization", "at least 0.8", Some(0.8), Some("more"), "fraction", json!([
                    answer("pcp", "passes", 0.9, json!([value(deep(), 0.9), value(fading(), 0.95)])),
                    answer("cubic", "fails", 0.7, json!([value(deep(), 0.7), value(fading(), 0.85)])),
                    answer(HOSTILE, "passes", 1.0, json!([value(deep(), 1.0), value(fading(), 1.0)])),
                ])),
                question("link-delay", "at most 0.01", Some(0.01), Some("less"), "s", json!([
                    answer("pcp", "fails", 0.0234, json!([value(deep(), 0.001), value(fading(), 0.0234)])),
                    answer("cubic", "fails", 0.5, json!([value(deep(), 0.5), value(fading(), 0.0)])),
                    skipped(HOSTILE),
                ])),
            ])),
            section("5.2.1", HOSTILE, json!([
                question("harm", "at least 0.67", Some(0.67), Some("more"), "ratio", json!([
                    answer("pcp", "fails", 0.321, json!([value(beside("cubic"), 0.321), value(beside(HOSTILE), 1.0)])),
                    answer("cubic", "passes", 0.8, json!([value(beside(HOSTILE), 0.8)])),
                    answer(HOSTILE, "passes", 0.9, json!([value(beside("cubic"), 0.9)])),
                ])),
            ])),
            section("6.1", "Shapes", json!([
                question("range", "0.5 to 2", None, None, "", json!([answer("pcp", "fails", 2.5, json!([value(deep(), 2.5)])), skipped("cubic"), skipped(HOSTILE)])),
                question("flat", "flat within 1.5", None, None, "s", json!([answer("pcp", "passes", 1.2, json!([value(deep(), 3.0)])), skipped("cubic"), skipped(HOSTILE)])),
            ])),
            { "id": "7.8", "title": "Multipath", "level": "must", "asks": "It asks.", "not_run": HOSTILE, "questions": [] },
        ],
    }));
    value_of.unwrap()
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect()
}

fn with_class<'a, 'i>(node: Node<'a, 'i>, class: &str) -> Vec<Node<'a, 'i>> {
    let has =
        |node: &Node<'_, '_>| node.attribute("class").is_some_and(|classes| classes.split(' ').any(|it| it == class));
    node.descendants().filter(has).collect()
}

fn page_of(evaluation: &Evaluation) -> String {
    page(evaluation, &["rampmeter".to_owned()])
}

#[test]
fn every_question_and_every_scheme_is_on_the_page() {
    let evaluation = evaluation();
    let page = page_of(&evaluation);
    let page = parsed(&page);
    let articles = with_class(page.root(), "question");
    let questions: Vec<_> = evaluation.questions().collect();
    assert_eq!(articles.len(), questions.len());
    for (article, question) in articles.iter().zip(questions) {
        assert!(text(*article).contains(&question.asks));
        let answers = with_class(*article, "answers")[0];
        let names = answers.descendants().filter(|node| node.attribute("scope") == Some("row")).map(text);
        assert_eq!(names.map(|name| name.trim().to_owned()).collect::<Vec<_>>(), ["pcp", "cubic", HOSTILE]);
    }
}

#[test]
fn the_deciding_values_are_those_of_the_evaluation() {
    let evaluation = evaluation();
    let page = page_of(&evaluation);
    let page = parsed(&page);
    for (article, question) in with_class(page.root(), "question").into_iter().zip(evaluation.questions()) {
        let rows = article.descendants().filter(|node| node.has_tag_name("tr"));
        let shown =
            rows.filter_map(|row| with_class(row, "number").first().copied().map(text)).map(|it| it.trim().to_owned());
        let wanted = question.answers.iter().map(|answer| match answer.worst {
            Some(_) => limit::deciding_number(question, answer),
            None => String::new(),
        });
        assert_eq!(shown.take(3).collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "{}", question.id);
    }
}

#[test]
fn every_value_is_in_a_table_with_its_seeds() {
    let evaluation = evaluation();
    let page = page_of(&evaluation);
    let page = parsed(&page);
    for (article, question) in with_class(page.root(), "question").into_iter().zip(evaluation.questions()) {
        let values: Vec<&crate::evaluation::Value> =
            question.answers.iter().flat_map(|answer| &answer.values).collect();
        let table = text(with_class(article, "numbers")[0]);
        for value in values {
            for number in value.seeds.iter().copied().chain(value.value) {
                let shown = crate::evaluation::formatted(number, &question.unit);
                assert!(table.contains(&shown), "{}: {shown} is not in the table", question.id);
            }
        }
    }
}

#[test]
fn the_paths_are_below_the_question_or_in_its_table() {
    let mut evaluation = evaluation();
    let questions = evaluation.sections.iter_mut().flat_map(|section| &mut section.questions);
    for value in questions.flat_map(|question| &mut question.answers).flat_map(|answer| &mut answer.values) {
        value.path = format!("{} Mb/s", value.at["path"].as_str().unwrap().len());
    }
    let page = page_of(&evaluation);
    let page = parsed(&page);
    let articles = with_class(page.root(), "question").into_iter().map(text);
    let articles: Vec<String> = articles.collect();
    assert!(articles[2].contains("Path: 4 Mb/s"), "one path: {}", articles[2]);
    assert!(!articles[0].contains("Path: ") && articles[0].contains("path deep (4 Mb/s)"), "two: {}", articles[0]);
}

#[test]
fn the_worst_failure_is_first() {
    let page = page_of(&evaluation());
    let page = parsed(&page);
    let failures = with_class(page.root(), "failures")[0];
    let names = failures.descendants().filter(|node| node.attribute("scope") == Some("row"));
    let names: Vec<String> = names.map(|name| text(name).split('?').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["6.1 range", "5.1.2 link-delay", "5.2.1 harm"]);
}

#[test]
fn names_of_users_are_texts_and_never_elements() {
    let page = page_of(&evaluation());
    let page = parsed(&page);
    assert!(text(page.root()).contains(HOSTILE));
    assert_eq!(page.descendants().filter(|node| node.has_tag_name("script")).count(), 0);
}

#[test]
fn the_page_loads_nothing() {
    let page = page_of(&evaluation());
    assert!(!page.contains("url(") && !page.contains("@import"));
    let page = parsed(&page);
    for node in page.descendants() {
        assert!(!matches!(node.tag_name().name(), "script" | "link" | "img" | "iframe" | "object" | "embed"));
        assert!(node.attribute("src").is_none());
        if let Some(link) = node.attribute("href") {
            let is_own = link.starts_with('#') || link.starts_with("scenarios/") || link == "evaluation.json";
            assert!(is_own && !link.contains(':'), "{link}");
        }
    }
}

#[test]
fn every_link_within_the_page_has_its_anchor() {
    let page = page_of(&evaluation());
    let page = parsed(&page);
    let mut anchors: Vec<&str> = page.descendants().filter_map(|node| node.attribute("id")).collect();
    anchors.sort_unstable();
    assert!(anchors.is_sorted_by(|a, b| a < b), "an anchor is there twice: {anchors:?}");
    for link in page.descendants().filter_map(|node| node.attribute("href")?.strip_prefix('#')) {
        assert!(anchors.contains(&link), "{link} leads nowhere");
    }
}

#[test]
fn the_commands_that_repeat_runs_are_those_of_the_program() {
    let command = ["cargo", "run", "--manifest-path", "/home/me/my controller/Cargo.toml", "--"].map(str::to_owned);
    let page = page(&evaluation(), &command);
    let page = parsed(&page);
    let [details, ..] = with_class(page.root(), "repeat")[..] else { panic!("no command") };
    let shown = details.descendants().filter(|node| node.has_tag_name("pre")).map(text).collect::<Vec<_>>();
    let program = "cargo run --manifest-path '/home/me/my controller/Cargo.toml' --";
    let expected = ["evaluate --questions scenarios --only harm", "run scenarios/alone.toml --set "];
    assert_eq!(shown.len(), expected.len());
    for (shown, arguments) in shown.iter().zip(expected) {
        assert!(shown.starts_with(&format!("{program} {arguments}")), "{shown}");
    }
}

#[test]
fn an_evaluation_without_rivals_and_questions_is_a_page() {
    let mut evaluation = evaluation();
    evaluation.rivals.clear();
    parsed(&page_of(&evaluation));
    evaluation.sections.clear();
    parsed(&page_of(&evaluation));
}

#[test]
fn a_command_is_quoted_for_the_shell() {
    assert_eq!(quoted("scheme=pcp"), "scheme=pcp");
    assert_eq!(quoted("name=it's"), r"'name=it'\''s'");
    assert_eq!(quoted("size=30 kB"), "'size=30 kB'");
}
