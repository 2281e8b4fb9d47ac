//! Metrics of a scenario's own: arithmetic of values of a run.
//!
//! ```text
//!   [metrics]
//!   bbr_share = "traffic.bbr.goodput_sum_bps / (traffic.bbr.goodput_sum_bps + traffic.cubic.goodput_sum_bps)"
//! ```
//!
//! Values have the paths of claims' metrics (`docs/output.md`): `flows.fct_mean_s`, `links.LINK.utilization`,
//! `traffic.KIND.completed`.

use std::iter::Peekable;

use rampmeter_scenario::{MetricText, Registries, Run, Scenario, ScenarioError, Schema, Summary};

use crate::claims::{Paths, measured_names, value_at};

/// The maximum length of a metric.
const MAX_LENGTH: usize = 1000;

/// The metrics of a scenario.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics(Vec<(String, Expression)>);

impl Metrics {
    /// The metrics of `scenario`, checked: its runs have the values that they name.
    pub(crate) fn of(scenario: &Scenario, schema: &Schema, registries: &Registries) -> Result<Self, ScenarioError> {
        parsed(scenario, schema, registries)?.into_iter().collect::<Result<_, _>>().map(Self)
    }

    /// The summary of `run` with their values: none where a value that they name does not apply, or a divisor is zero.
    pub(crate) fn summary(&self, schema: &Schema, run: &Run) -> Summary {
        let summary = Summary::of(schema, run);
        let value = |expression: &Expression| expression.value(&summary).filter(|value| value.is_finite());
        let metrics = self.0.iter().map(|(name, expression)| (name.clone(), value(expression))).collect();
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

type Parsed = Result<(String, Expression), ScenarioError>;

fn parsed(scenario: &Scenario, schema: &Schema, registries: &Registries) -> Result<Vec<Parsed>, ScenarioError> {
    let texts = scenario.metrics()?;
    let Some(point) = scenario.points().into_iter().next().filter(|_| !texts.is_empty()) else {
        return Ok(Vec::new());
    };
    let plan = scenario.plan(&point, registries)?;
    let (links, traffic) = measured_names(&plan);
    let paths = Paths::new(schema, &links, &traffic);
    let parse = |metric: &MetricText| {
        let expression = Expression::parse(&metric.text, &paths).map_err(|problem| metric.error(problem))?;
        Ok((metric.name.clone(), expression))
    };
    Ok(texts.iter().map(parse).collect())
}

#[derive(Debug, Clone, PartialEq)]
enum Expression {
    Number(f64),
    Path(String),
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
    fn parse(text: &str, paths: &Paths<'_>) -> Result<Self, String> {
        // Its depth is that of the calls that read it.
        if text.len() > MAX_LENGTH {
            return Err(format!("it has more than {MAX_LENGTH} characters"));
        }
        let spaced = ["(", ")", "*", "/", "+"]
            .iter()
            .fold(text.to_owned(), |text, sign| text.replace(sign, &format!(" {sign} ")));
        let mut words = spaced.split_whitespace().peekable();
        let sum = Self::sum(&mut words, paths)?;
        match words.next() {
            None => Ok(sum),
            Some(word) => {
                Err(format!("an operator is missing before `{word}`: write one of + - * / with spaces around it"))
            }
        }
    }

    fn sum<'t>(words: &mut Peekable<impl Iterator<Item = &'t str>>, paths: &Paths<'_>) -> Result<Self, String> {
        let mut sum = Self::product(words, paths)?;
        while let Some(sign) = words.next_if(|word| ["+", "-"].contains(word)) {
            let operator = if sign == "+" { Operator::Add } else { Operator::Subtract };
            sum = Self::Of(Box::new([sum, Self::product(words, paths)?]), operator);
        }
        Ok(sum)
    }

    fn product<'t>(words: &mut Peekable<impl Iterator<Item = &'t str>>, paths: &Paths<'_>) -> Result<Self, String> {
        let mut product = Self::value_or_sum(words, paths)?;
        while let Some(sign) = words.next_if(|word| ["*", "/"].contains(word)) {
            let operator = if sign == "*" { Operator::Multiply } else { Operator::Divide };
            product = Self::Of(Box::new([product, Self::value_or_sum(words, paths)?]), operator);
        }
        Ok(product)
    }

    fn value_or_sum<'t>(
        words: &mut Peekable<impl Iterator<Item = &'t str>>,
        paths: &Paths<'_>,
    ) -> Result<Self, String> {
        match words.next() {
            Some("(") => {
                let sum = Self::sum(words, paths)?;
                words.next_if_eq(&")").map(|_| sum).ok_or_else(|| "a `)` is missing".to_owned())
            }
            Some(word) if word.parse::<f64>().is_ok_and(f64::is_finite) => {
                Ok(Self::Number(word.parse().unwrap_or_default()))
            }
            Some(word) if ["+", "-", "*", "/", ")"].contains(&word) => {
                Err(format!("a value is missing before `{word}`"))
            }
            Some(path) => paths.check(path).map(|()| Self::Path(path.to_owned())),
            None => Err("a value is missing at the end".to_owned()),
        }
    }

    fn value(&self, run: &Summary) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Path(path) => value_at(run, path),
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
        Expression::parse(text, &Paths::new(&schema, &["wire"], &kinds)).map(|expression| expression.value(&run))
    }

    #[test]
    fn metrics_are_arithmetic_of_values() {
        let share = "traffic.bbr.goodput_mean_bps / (traffic.bbr.goodput_mean_bps + traffic.cubic.goodput_mean_bps)";
        assert_eq!(value(share), Ok(Some(0.75)));
        assert_eq!(value("2 * flows.goodput_mean_bps - 1e6 / 2"), Ok(Some(3.5e6)));
        assert_eq!(value("flows.fct_mean_s"), Ok(None), "the run has no such value");
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
        ] {
            assert!(value(text).unwrap_err().contains(problem), "{text}: {:?}", value(text));
        }
    }
}
