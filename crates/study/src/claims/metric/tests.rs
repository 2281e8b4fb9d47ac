//! Values of metrics.

use rampmeter_scenario::{Schema, Value};
use toml::Value as Setting;

use super::*;

fn goodput(bps: f64) -> Row {
    [("goodput_mean_bps", Value::Number(bps))].into()
}

#[test]
fn a_path_has_one_value_or_that_of_every_link() {
    let link = |utilization| Row::from([("utilization", Value::Number(utilization))]);
    let run = Summary {
        run: [("data_packets", Value::Whole(3))].into(),
        flows: [("completed", Value::Whole(0)), ("goodput_mean_bps", Value::Null)].into(),
        links: vec![("a.reverse".into(), link(0.5)), ("b".into(), link(0.75))],
        traffic: vec![("web".into(), goodput(7.0))],
        ..Summary::default()
    };
    for (path, values) in [
        ("data_packets", Some(vec![3.0])),
        ("flows.completed", Some(vec![0.0])),
        ("flows.goodput_mean_bps", None),
        ("traffic.web.goodput_mean_bps", Some(vec![7.0])),
        ("traffic.*.goodput_mean_bps", Some(vec![7.0])),
        ("links.a.reverse.utilization", Some(vec![0.5])),
        ("links.*.utilization", Some(vec![0.5, 0.75])),
        ("links.*.queue_mean_share", None),
    ] {
        assert_eq!(values_at(&run, path), values, "{path}");
    }
}

#[test]
fn a_value_is_divided_by_another_of_its_run() {
    let metric = |text: &str| -> Result<Metric, toml::de::Error> { text.parse::<Table>().unwrap().try_into() };
    let run = |near, far| Summary {
        flows: goodput(f64::midpoint(near, far)),
        traffic: vec![("near".into(), goodput(near)), ("far".into(), goodput(far))],
        ..Summary::default()
    };
    // 1.5 and 0.5 times the mean; 1.2 and 0.8.
    let runs = [run(30.0, 10.0), run(24.0, 16.0)];
    let runs: Vec<&Summary> = runs.iter().collect();
    for (text, value) in [
        ("max = 'traffic.*.goodput_mean_bps'\nover = 'flows.goodput_mean_bps'", 1.5),
        ("min = 'traffic.*.goodput_mean_bps'\nover = 'flows.goodput_mean_bps'", 0.5),
        ("mean = 'traffic.near.goodput_mean_bps'\nover = 'traffic.far.goodput_mean_bps'", 2.25),
    ] {
        let metric = metric(text).unwrap();
        assert_eq!(metric.check(&Schema::default(), &[], &[], &["near", "far"]), Ok(()));
        assert_eq!(metric.values(&runs).iter().map(|it| it.value).collect::<Vec<_>>(), [Some(value)], "{text}");
    }
    let several = metric("mean = 'data_packets'\nover = 'traffic.*.goodput_mean_bps'").unwrap();
    assert!(several.check(&Schema::default(), &[], &[], &["near", "far"]).unwrap_err().contains("one value"));
    assert!(several.check(&Schema::default(), &[], &[], &["near"]).unwrap_err().contains("no value is called"));
}

/// One run of each scheme and size, with the given number as its `data_packets`.
fn by_scheme_and_size(runs: &[(&str, i64, i64)]) -> Vec<Summary> {
    let run = |&(scheme, size, data_packets): &(&str, i64, i64)| {
        let values = [("scheme".to_owned(), Setting::from(scheme)), ("size".to_owned(), size.into())];
        Summary {
            point: values.into_iter().collect(),
            run: [("data_packets", Value::Whole(data_packets))].into(),
            ..Summary::default()
        }
    };
    runs.iter().map(run).collect()
}

#[test]
fn averages_are_what_their_names_say() {
    let runs: Vec<Summary> = (1..=20).map(|size| by_scheme_and_size(&[("a", size, 1 << size)]).remove(0)).collect();
    let runs: Vec<&Summary> = runs.iter().collect();
    let (sum, squares) = (2_f64.powi(21) - 2.0, (4_f64.powi(21) - 4.0) / 3.0);
    for (average, value) in [
        ("geometric_mean", 2_f64.powf(10.5)),
        ("p90", f64::from(1 << 18)),
        ("max", f64::from(1 << 20)),
        ("min", 2.0),
        ("sd", ((squares - sum * sum / 20.0) / 19.0).sqrt()),
    ] {
        let metric: Metric = format!("{average} = 'data_packets'").parse::<Table>().unwrap().try_into().unwrap();
        let measured = metric.values(&runs)[0].value.unwrap();
        assert!((measured / value - 1.0).abs() < 1e-9, "{average}: {measured}");
    }
}

#[test]
fn a_difference_is_divided_by_the_difference_there() {
    let runs = by_scheme_and_size(&[
        ("none", 1, 100),
        ("a", 1, 70),
        ("b", 1, 80),
        ("none", 2, 100),
        ("a", 2, 50),
        ("b", 2, 40),
    ]);
    let runs: Vec<&Summary> = runs.iter().collect();
    let metric: Metric = "mean = 'data_packets'\nwhere = { scheme = 'a' }\nminus = { scheme = 'none' }\n\
                          relative_to = { scheme = 'b' }\nby = ['size']"
        .parse::<Table>()
        .unwrap()
        .try_into()
        .unwrap();
    assert!(runs.iter().all(|run| metric.needs(&run.point)));
    let values: Vec<f64> = metric.values(&runs).into_iter().filter_map(|measured| measured.value).collect();
    assert_eq!(values, [1.5, 50.0 / 60.0]); // -30 over -20, -50 over -60
}

#[test]
fn a_list_in_where_matches_any_of_its_values() {
    let runs = by_scheme_and_size(&[("a", 1, 10), ("a", 2, 30), ("a", 3, 90)]);
    let runs: Vec<&Summary> = runs.iter().collect();
    let values = |by: &str| {
        let text = format!("mean = 'data_packets'\nwhere = {{ size = [1, 2] }}\nby = {by}");
        let metric: Metric = text.parse::<Table>().unwrap().try_into().unwrap();
        assert!(metric.needs(&runs[0].point) && !metric.needs(&runs[2].point));
        metric.values(&runs).into_iter().filter_map(|measured| measured.value).collect::<Vec<_>>()
    };
    assert_eq!(values("[]"), [20.0]);
    assert_eq!(values("['size']"), [10.0, 30.0]);
}

#[test]
fn a_single_kind_of_traffic_has_no_separate_values() {
    for name in ["near", ALL] {
        let text = format!("mean = 'traffic.{name}.goodput_mean_bps'");
        let metric: Metric = text.parse::<Table>().unwrap().try_into().unwrap();
        assert_eq!(metric.check(&Schema::default(), &[], &[], &["near", "far"]), Ok(()));
        let refused = metric.check(&Schema::default(), &[], &[], &["near"]).unwrap_err();
        assert!(refused.contains(&format!("no value is called `traffic.{name}.goodput_mean_bps`")), "{refused}");
    }
}

#[test]
fn an_unknown_value_of_a_run_names_what_is_near() {
    for (path, advice) in [
        ("data_packet", "did you mean `data_packets`?"),
        ("flow.fct_mean_s", "did you mean `flows.fct_mean_s`?"),
        ("links.wre.drop_rate", "did you mean `links.wire.drop_rate`?"),
        ("links.cable.drop_rate", "no measured link is called `cable`; there is wire"),
        ("links.*.queue_mean_length", "the nearest values of links are queue_mean_bytes, "),
        ("traffic.film.goodput_mean_bps", "no measured kind of traffic is called `film`; there are web, bulk"),
    ] {
        let metric: Metric = format!("mean = '{path}'").parse::<Table>().unwrap().try_into().unwrap();
        let refused = metric.check(&Schema::default(), &[], &["wire"], &["web", "bulk"]).unwrap_err();
        assert!(refused.starts_with(&format!("no value is called `{path}`; {advice}")), "{refused}");
    }
    let metric: Metric = "mean = 'traffic.web.fct_mean_s'".parse::<Table>().unwrap().try_into().unwrap();
    let refused = metric.check(&Schema::default(), &[], &[], &["web"]).unwrap_err();
    assert!(refused.ends_with("one kind of traffic is measured: write `flows.fct_mean_s`"), "{refused}");
}
