//! `docs/output.md` lists the columns that the schema declares. `UPDATE_DOCS=1 cargo test -p rampmeter-scenario`
//! rewrites it.

use rampmeter_scenario::Schema;

#[test]
fn the_documented_columns_are_the_declared_ones() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/output.md");
    let text = std::fs::read_to_string(file).unwrap();
    let schema = Schema::default();
    for (table, _) in schema.tables() {
        assert!(text.contains(&format!("<!-- columns of {table} -->")), "{table} is not in docs/output.md");
    }
    let right = schema.document(&text);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, right).unwrap();
    } else {
        assert!(text == right, "docs/output.md differs from the schema: run `make columns`");
    }
}

#[test]
fn every_model_of_capacity_is_documented() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario.md")).unwrap();
    for (name, _) in rampmeter_router::capacity::models().list() {
        assert!(text.contains(&format!("\n| `{name}` | ")), "{name} has no row in docs/scenario.md");
    }
}
