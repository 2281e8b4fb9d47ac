//! Metrics of a scenario's own: arithmetic of values of a run.
//!
//! ```text
//!   [metrics]
//!   fair_share = "share(bbr) / (1/(1+$cubics))"
//! ```
//!
//! Values have the paths of claims' metrics (`docs/output.md`): `flows.fct_mean_s`, `links.LINK.utilization`,
//! `traffic.KIND.completed`. `share(NAME)` is the part of the goodput that the flows of a traffic or a scheme get, and
//! `$buffer` the value of an axis.

use std::collections::BTreeSet;
use std::iter::Peekable;

use rampmeter_scenario::{MetricText, Plan, Point, Registries, Run, Scenario, ScenarioError, Schema, Summary};
use rampmeter_units::{Bytes, Duration, Known, Rate};
use toml::Value;

use crate::claims::{Paths, measured_names, value_at};

/// The maximum length of a metric.
const MAX_LENGTH: usize = 1000;

/// The metrics of a scenario.
#[derive(Debug, Clone)]
pub(crate) struct Metrics<'a> {
    scenario: &'a Scenario,
    list: Vec<(String, Expression)>,
}

impl<'a> Metrics<'a> {
    /// The metrics of `scenario`, checked: its runs have the values that they name.
    pub(crate) fn of(scenario: &'a Scenario, schema: &Schema, registries: &Registries) -> Result<Self, ScenarioError> {
        let list = parsed(scenario, schema, registries)?.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { scenario, list })
    }

    /// The summary of `run` with their values: none where a value that they name does not apply, or a divisor is zero.
    pub(crate) fn summary(&self, schema: &Schema, run: &Run) -> Summary {
        let summary = Summary::of(schema, run);
        let values = Values {
            summary: &summary,
            share: &|name| share(name, &run.plan, &summary),
            variable: &|name| variable(self.scenario, name, &run.plan.point).ok(),
        };
        let value = |expression: &Expression| expression.value(&values).filter(|value| value.is_finite());
        let metrics = self.list.iter().map(|(name, expression)| (name.clone(), value(expression))).collect();
        Summary { metrics, ..summary }
    }
}

/// What is wrong with the metrics of `scenario`.
pub fn check_metrics(scenario: &Scenario, schema: &Schema, registries: &Registries) -> Vec<ScenarioError> {
    match parsed(scenario, schema, registries) {
        Ok(metrics) => metrics.into_iter().filter_map(Result::err).collect(),
        Err(error) => vec![error],
    }
}

/// The values of a run.
struct Values<'a> {
    summary: &'a Summary,
    share: &'a dyn Fn(&str) -> Option<f64>,
    variable: &'a dyn Fn(&str) -> Option<f64>,
}

/// The goodput of the flows of the traffic or scheme `name`, divided by that of all. `None` without such flows.
fn share(name: &str, plan: &Plan, run: &Summary) -> Option<f64> {
    const GOODPUT: &str = "goodput_sum_bps";
    let is_of = |kind: usize| {
        let is_scheme = || plan.flows.iter().any(|flow| flow.traffic == kind && plan.schemes[flow.scheme].name == name);
        plan.traffic[kind].measured && (plan.traffic[kind].name == name || is_scheme())
    };
    let kinds: Vec<usize> = (0..plan.traffic.len()).filter(|kind| is_of(*kind)).collect();
    let all = run.flows.number(GOODPUT)?;
    let of_kind = |kind: &usize| match run.traffic.iter().find(|(known, _)| *known == plan.traffic[*kind].name) {
        Some((_, flows)) => flows.number(GOODPUT),
        None => Some(all), // the only one
    };
    (!kinds.is_empty()).then(|| kinds.iter().filter_map(of_kind).sum::<f64>() / all)
}

/// The value of an axis as a number: in b/s, seconds or bytes if it has a unit.
fn variable(scenario: &Scenario, name: &str, point: &Point) -> Result<f64, String> {
    let value = scenario.variable(name, point)?;
    let quantity = |text: &str| {
        let rate = text.parse().map(|rate: Rate| rate.as_bps() as f64).ok();
        let time = || text.parse().map(|time: Duration| time.as_secs_f64()).ok();
        rate.or_else(time).or_else(|| text.parse().map(|bytes: Bytes| bytes.as_f64()).ok())
    };
    let number = match &value {
        Some(Value::Integer(whole)) => Some(*whole as f64),
        Some(Value::Float(number)) => Some(*number),
        Some(Value::String(text)) => quantity(text),
        _ => None,
    };
    number.ok_or_else(|| format!("`${name}` is no number: {}", value.map(|it| it.to_string()).unwrap_or_default()))
}

type Parsed = Result<(String, Expression), ScenarioError>;

fn parsed(scenario: &Scenario, schema: &Schema, registries: &Registries) -> Result<Vec<Parsed>, ScenarioError> {
    let texts = scenario.metrics()?;
    let Some(point) = scenario.points().into_iter().next().filter(|_| !texts.is_empty()) else {
        return Ok(Vec::new());
    };
    let plan = scenario.plan(&point, registries)?;
    let (links, traffic) = measured_names(&plan);
    let mut flows = scenario.scheme_names()?;
    flows.extend(traffic.iter().map(|&name| name.to_owned()));
    let known = Names {
        paths: Paths::new(schema, &links, &traffic),
        flows,
        check_variable: &|name| variable(scenario, name, &point).map(drop),
    };
    let parse = |metric: &MetricText| {
        if scenario.axes().iter().any(|axis| axis.name == metric.name) {
            return Err(metric.error("an axis has this name; give it another one"));
        }
        let expression = Expression::parse(&metric.text, &known).map_err(|problem| metric.error(problem))?;
        Ok((metric.name.clone(), expression))
    };
    Ok(texts.iter().map(parse).collect())
}

/// What a metric can name.
struct Names<'a> {
    paths: Paths<'a>,
    /// Kinds of traffic, and schemes.
    flows: BTreeSet<String>,
    check_variable: &'a dyn Fn(&str) -> Result<(), String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Expression {
    Number(f64),
    Path(String),
    Share(String),
    Variable(String),
    Of(Box<[Expression; 2]>, Operator),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Expression {
    fn parse(text: &str, names: &Names<'_>) -> Result<Self, String> {
        // Its depth is that of the calls that read it.
        if text.len() > MAX_LENGTH {
            return Err(format!("it has more than {MAX_LENGTH} characters"));
        }
        let spaced = ["(", ")", "*", "/", "+"]
            .iter()
            .fold(text.to_owned(), |text, sign| text.replace(sign, &format!(" {sign} ")));
        let mut words = spaced.split_whitespace().peekable();
        let sum = Self::sum(&mut words, names)?;
        match words.next() {
            None => Ok(sum),
            Some(word) => {
                Err(format!("an operator is missing before `{word}`: write one of + - * / with spaces around it"))
            }
        }
    }

    fn sum<'t>(words: &mut Peekable<impl Iterator<Item = &'t str>>, names: &Names<'_>) -> Result<Self, String> {
        let mut sum = Self::product(words, names)?;
        while let Some(sign) = words.next_if(|word| ["+", "-"].contains(word)) {
            let operator = if sign == "+" { Operator::Add } else { Operator::Subtract };
            sum = Self::Of(Box::new([sum, Self::product(words, names)?]), operator);
        }
        Ok(sum)
    }

    fn product<'t>(words: &mut Peekable<impl Iterator<Item = &'t str>>, names: &Names<'_>) -> Result<Self, String> {
        let mut product = Self::value_or_sum(words, names)?;
        while let Some(sign) = words.next_if(|word| ["*", "/"].contains(word)) {
            let operator = if sign == "*" { Operator::Multiply } else { Operator::Divide };
            product = Self::Of(Box::new([product, Self::value_or_sum(words, names)?]), operator);
        }
        Ok(product)
    }

    fn value_or_sum<'t>(
        words: &mut Peekable<impl Iterator<Item = &'t str>>,
        names: &Names<'_>,
    ) -> Result<Self, String> {
        match words.next() {
            Some("(") => {
                let sum = Self::sum(words, names)?;
                words.next_if_eq(&")").map(|_| sum).ok_or_else(|| "a `)` is missing".to_owned())
            }
            Some(word) if word.parse::<f64>().is_ok_and(f64::is_finite) => {
                Ok(Self::Number(word.parse().unwrap_or_default()))
            }
            Some(word) if ["+", "-", "*", "/", ")"].contains(&word) => {
                Err(format!("a value is missing before `{word}`"))
            }
            Some("share") if words.next_if_eq(&"(").is_some() => {
                let name = words.next().unwrap_or_default();
                if !names.flows.contains(name) {
                    let known = Known::near(name, names.flows.iter().map(String::as_str));
                    return Err(format!("no traffic or scheme is called `{name}`; {known}"));
                }
                words
                    .next_if_eq(&")")
                    .map(|_| Self::Share(name.to_owned()))
                    .ok_or_else(|| "a `)` is missing".to_owned())
            }
            Some(word) if word.starts_with('$') => {
                (names.check_variable)(&word[1..]).map(|()| Self::Variable(word[1..].to_owned()))
            }
            Some(name) if words.peek() == Some(&"(") => {
                Err(format!("no function is called `{name}`; did you mean share(NAME)?"))
            }
            Some(path) => names.paths.check(path).map(|()| Self::Path(path.to_owned())),
            None => Err("a value is missing at the end".to_owned()),
        }
    }

    fn value(&self, run: &Values<'_>) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Path(path) => value_at(run.summary, path),
            Self::Share(name) => (run.share)(name),
            Self::Variable(name) => (run.variable)(name),
            Self::Of(parts, operator) => {
                let (a, b) = (parts[0].value(run)?, parts[1].value(run)?);
                Some(match operator {
                    Operator::Add => a + b,
                    Operator::Subtract => a - b,
                    Operator::Multiply => a * b,
                    Operator::Divide => a / b,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_scenario::{Row, Value};

    use super::*;

    fn value(text: &str) -> Result<Option<f64>, String> {
        let (schema, kinds) = (Schema::default(), ["bbr", "cubic"]);
        let flows = |goodput| Row::from([("goodput_mean_bps", Value::Number(goodput))]);
        let traffic = [("bbr".to_owned(), flows(3e6)), ("cubic".to_owned(), flows(1e6))];
        let run = Summary { traffic: traffic.into(), flows: flows(2e6), ..Summary::default() };
        let names = Names {
            paths: Paths::new(&schema, &["wire"], &kinds),
            flows: kinds.map(str::to_owned).into(),
            check_variable: &|name| if name == "cubics" { Ok(()) } else { Err(format!("no axis is called `{name}`")) },
        };
        let values = Values { summary: &run, share: &|name| Some(name.len() as f64), variable: &|_| Some(3.0) };
        Expression::parse(text, &names).map(|expression| expression.value(&values))
    }

    #[test]
    fn metrics_are_arithmetic_of_values() {
        let share = "traffic.bbr.goodput_mean_bps / (traffic.bbr.goodput_mean_bps + traffic.cubic.goodput_mean_bps)";
        assert_eq!(value(share), Ok(Some(0.75)));
        assert_eq!(value("2 * flows.goodput_mean_bps - 1e6 / 2"), Ok(Some(3.5e6)));
        assert_eq!(value("flows.fct_mean_s"), Ok(None), "the run has no such value");
        assert_eq!(value("share(bbr) / (1/(1+$cubics))"), Ok(Some(12.0)));
    }

    #[test]
    fn an_axis_with_units_is_in_base_units() {
        let network = r#"
            title = "$kind"
            duration = "1 s"
            [axes]
            rtt = ["20 ms"]
            rate = ["8 Mb/s"]
            queue = ["3 kB"]
            path = [{ name = "far", losses = 400 }]
            kind = ["some"]
            [[link]]
            name = "wire"
            between = ["left", "right"]
            rate = "$rate"
            delay = "$rtt * 0.5"
            router = { kind = "drop-tail", bytes = "$queue" }
            loss = { every = "$path.losses" }
        "#;
        let scenario = Scenario::parse_network("x.toml", network).unwrap();
        let value = |name| variable(&scenario, name, &scenario.points()[0]);
        assert_eq!(["rtt", "rate", "queue", "path.losses"].map(value), [Ok(0.02), Ok(8e6), Ok(3000.0), Ok(400.0)]);
        assert_eq!(value("kind"), Err("`$kind` is no number: \"some\"".to_owned()));
        assert!(value("rat").unwrap_err().contains("no axis is called `rat`"));
    }

    #[test]
    fn errors_name_the_word() {
        for (text, problem) in [
            ("flows.goodput_bps", "no value is called `flows.goodput_bps`"),
            ("links.*.utilization", "no value is called `links.`"),
            ("2 3", "an operator is missing before `3`"),
            ("(2 + 3", "a `)` is missing"),
            ("2 +", "a value is missing at the end"),
            ("* 2", "a value is missing before `*`"),
            ("share(cubik)", "no traffic or scheme is called `cubik`; did you mean `cubic`?"),
            ("shares(cubic)", "no function is called `shares`; did you mean share(NAME)?"),
            ("share(cubic", "a `)` is missing"),
            ("2 * $cubes", "no axis is called `cubes`"),
        ] {
            assert!(value(text).unwrap_err().contains(problem), "{text}: {:?}", value(text));
        }
    }
}
