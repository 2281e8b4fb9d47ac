//! A column that is declared once appears in every output.

mod common;

use std::fs::{self, File};
use std::path::Path;

use common::{Made, TEXT};
use parquet::file::reader::{FileReader, SerializedFileReader};
use rampmeter_scenario::{Column, FlowGroup, Registries, Scenario, Schema};
use rampmeter_study::claims::{self, Judge};
use rampmeter_study::{Directory, Program, Sweep, overview};
use tempfile::tempdir;

/// The built-in columns and one more in each table.
fn schema() -> Schema {
    let mut schema = Schema::default();
    let planned = "flows in the plan";
    schema.runs.push(Column::whole("planned", planned, |run, ()| run.plan.flows.len() as u64));
    let sent = Column::<FlowGroup>::number("sent_mean_packets", "packets sent, mean over flows", |run, group| {
        group.mean(run, |flow| Some(flow.sent_packets as f64))
    });
    schema.groups.push(sent.shown("sent", 10.0, 1));
    schema
        .links
        .push(Column::text("label", "its name in angles", |run, link| format!("<{}>", run.plan.queue_name(link.id))));
    schema.flows.push(Column::truth("ended", "whether it ended", |_, flow| flow.fct.is_some()));
    schema.link_series.push(Column::number("time_ms", "when", |_, sample| sample.at.as_secs_f64() * 1e3));
    schema
}

#[test]
fn a_column_declared_once_appears_in_every_output() {
    let (directory, world) = (tempdir().unwrap(), Made::default());
    let scenario = Scenario::parse("six.toml", TEXT).unwrap();
    let (registries, schema, stop) = (Registries::default(), schema(), std::sync::atomic::AtomicBool::new(false));
    let sweep = Sweep { registries: &registries, schema: &schema, jobs: Some(2), stop: &stop, cluster: None };
    let (file, program) = (Path::new("six.toml"), Program::this().unwrap());
    let out = directory.path().join("out");
    let mut run = Directory::open(&out, file, &scenario, &world, program.clone(), false).unwrap();
    let results = run.run(&sweep, &scenario, &world, |_| {}).unwrap();
    let summaries: Vec<_> = results.iter().flatten().collect();

    let json = serde_json::to_value(summaries[0]).unwrap();
    assert!(json["planned"].as_u64().unwrap() > 0 && json["flows"]["sent_mean_packets"] == 40.0, "{json}");
    assert_eq!(json["links"]["wire"]["label"], "<wire>");

    for (table, value) in [
        ("runs", "sent_mean_packets: 40"),
        ("links", "label: \"<wire>\""),
        ("flows", "ended: false"), // the first flow of `Made`
        ("link_series", "time_ms: 1000"),
    ] {
        let file = File::open(out.join(format!("{table}.parquet"))).unwrap();
        let rows = SerializedFileReader::new(file).unwrap();
        let row = rows.get_row_iter(None).unwrap().next().unwrap().unwrap().to_string();
        assert!(row.contains(value), "{row}");
    }

    let (head, rows) = overview(&schema, &scenario, &summaries, true);
    let index = head.iter().position(|heading| heading == "sent").unwrap();
    assert_eq!(rows[0][index], "400.0");

    let documented = schema.document("<!-- columns of runs -->\n<!-- end -->");
    assert!(documented.contains("| `sent_mean_packets` | packets | packets sent, mean over flows |"), "{documented}");

    let claims = directory.path().join("claims.toml");
    fs::write(directory.path().join("six.toml"), TEXT).unwrap();
    let claim = r#"[[claim]]
id = "sent"
where = "here"
text = "Flows send 40 packets"
scenario = "six.toml"
metric = { mean = "flows.sent_mean_packets", over = "planned", where = { scheme = "reno" } }
expect = { at_most = 40 }
status = "holds"
"#;
    fs::write(&claims, claim).unwrap();
    let claims = claims::read(&claims, false, &registries, &schema).unwrap();
    let judge = Judge { sweep, worlds: &[&world], directory: directory.path(), program: &program, fresh: false };
    let verdicts = judge.judge(&claims, |_| {}).unwrap();
    assert_eq!(verdicts[0].holds, Some(true));
}
