//! Controllers that return wrong values or panic, in a command of their own: their runs fail with an error of one line
//! and the others go on, in `run`, `claims` and `evaluate`.
//!
//! Without a test harness: this program is that command, too, if it has arguments of it.

mod common;

use std::process::{Command, ExitCode, Output};

use common::{SMALL, Workspace, text};
use rampmeter_control::{Ack, Algorithm, Controller, Departure, Loss, Path, RouterFeedback, Sent};
use rampmeter_scenario::Registries;
use rampmeter_units::{Bytes, Random, Rate, Settings, Time};
use serde::{Deserialize, Serialize};

/// What goes wrong once it has got some acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mistake {
    #[default]
    Window,
    Rate,
    Panic,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    mistake: Mistake,
}

impl Settings for Config {}

#[derive(Debug)]
struct Wrong {
    mistake: Mistake,
    packet: Bytes,
    window: f64,
    rate: f64,
    acks: u32,
}

impl Algorithm for Wrong {
    type Config = Config;

    fn new(config: &Config, _random: Random) -> Self {
        Self { mistake: config.mistake, packet: Bytes::ZERO, window: 0.0, rate: 1e7, acks: 0 }
    }
}

impl Controller for Wrong {
    fn on_path(&mut self, _now: Time, path: &Path) {
        self.packet = path.packet;
        self.window = 10.0 * path.packet.as_f64();
    }

    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}

    fn on_ack(&mut self, _now: Time, _ack: &Ack<'_>) {
        self.acks += 1;
        match self.mistake {
            _ if self.acks < 50 => {}
            Mistake::Window => self.window *= f64::NAN,
            Mistake::Rate => self.rate *= f64::NAN,
            Mistake::Panic => panic!("a window of {} packets", self.acks),
        }
    }

    fn on_loss(&mut self, _now: Time, _loss: &Loss) {}

    fn window(&self) -> Bytes {
        Bytes::new(self.window as u64)
    }

    fn departure(&self) -> Departure {
        Departure { at: Time::ZERO, bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(Rate::from_bps_f64(self.rate))
    }
}

const SCHEMES: &str = r#"
[scheme.nan-window]
controller = "wrong"

[scheme.nan-rate]
controller = "wrong"
settings = { mistake = "rate" }

[scheme.panics]
controller = "wrong"
settings = { mistake = "panic" }
"#;

const CLAIM: &str = r#"
[[claim]]
id = "completion"
where = "here"
text = "Transfers take less than a second."
scenario = "wrong.toml"
metric = { mean = "flows.fct_mean_s", by = ["scheme"] }
expect = { at_most = 1 }
status = "holds"
"#;

fn main() -> ExitCode {
    let is_command =
        std::env::args().nth(1).is_some_and(|first| ["run", "claims", "evaluate"].contains(&first.as_str()));
    if is_command {
        return rampmeter_cli::main_with(Registries::default().controller::<Wrong>("wrong", "returns wrong values"));
    }
    if !std::env::args().any(|argument| argument == "--list") {
        a_failed_run_is_named_and_the_others_have_results();
        no_result_at_all_is_a_failure();
        claims_with_failed_runs_fail();
        evaluations_with_failed_runs_fail();
    }
    ExitCode::SUCCESS
}

fn workspace(name: &str) -> Workspace {
    let workspace = Workspace::new(name);
    let schemes = "scheme = [\"tcp\", \"nan-window\", \"nan-rate\", \"panics\"]";
    let scenario = SMALL.replacen("scheme = [\"tcp\"]", schemes, 1).replacen("[1, 2]", "[7]", 1) + SCHEMES;
    std::fs::write(workspace.0.join("wrong.toml"), scenario).unwrap();
    workspace
}

fn command(workspace: &Workspace, arguments: &[&str]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).current_dir(&workspace.0).env_remove("RUST_BACKTRACE").output().unwrap()
}

/// The lines of failed runs, in the order of the sweep.
fn failed(output: &Output) -> Vec<String> {
    let message = text(&output.stderr);
    message.lines().filter(|line| line.starts_with("rampmeter: failed at ")).map(str::to_owned).collect()
}

fn assert_lines(lines: &[String]) {
    let [window, rate, panic] = lines else { panic!("{lines:?}") };
    for (line, scheme) in [(window, "nan-window"), (rate, "nan-rate"), (panic, "panics")] {
        assert!(line.starts_with(&format!("rampmeter: failed at scheme = \"{scheme}\", seed = 7: ")), "{line}");
    }
    assert!(window.contains("scheme `nan-window` returned a window of 0 B, and packets have 1.25 kB; "), "{window}");
    assert!(window.contains("; of flow source.0 > sink.0, at ") && window.ends_with('s'), "{window}");
    assert!(rate.contains("scheme `nan-rate` returned a rate of 0 b/s; a rate of NaN becomes 0 b/s; "), "{rate}");
    assert!(panic.contains("failed_runs.rs:") && panic.contains(": a window of 50 packets; at "), "{panic}");
}

fn a_failed_run_is_named_and_the_others_have_results() {
    let workspace = workspace("failed_run");
    let output = command(&workspace, &["run", "wrong.toml", "--json", "--out", "out", "--jobs", "2"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_lines(&failed(&output));
    assert_eq!(text(&output.stderr).lines().count(), 3, "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), 1);
    assert!(json["runs"][0]["flows"]["completed"].as_u64() > Some(0), "{json}");
    assert_eq!(json["failed"][2]["point"], "scheme = \"panics\", seed = 7");
    let about: serde_json::Value =
        serde_json::from_slice(&std::fs::read(workspace.0.join("out/run.json")).unwrap()).unwrap();
    assert_eq!((&about["finished"], &about["failed"][0]["point"]), (&1.into(), &json["failed"][0]["point"]));
    let again = command(&workspace, &["run", "wrong.toml", "--out", "out"]);
    assert!(text(&again.stderr).contains("1 of 4 runs were already finished"), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("tcp") && again.status.code() == Some(3));
}

fn no_result_at_all_is_a_failure() {
    let output = command(&workspace("all_failed"), &["run", "wrong.toml", "--set", "scheme=panics"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.ends_with("no run has a result: 1 of 1 failed, for the reasons above\n"), "{message}");
}

fn claims_with_failed_runs_fail() {
    let workspace = workspace("failed_claims");
    let studies = workspace.0.join("studies/mine");
    std::fs::create_dir_all(&studies).unwrap();
    std::fs::copy(workspace.0.join("wrong.toml"), studies.join("wrong.toml")).unwrap();
    std::fs::write(studies.join("claims.toml"), CLAIM).unwrap();
    let output = command(&workspace, &["claims", "mine", "--json"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_lines(&failed(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let claim = &json["claims"][0];
    assert_eq!(claim["holds"], false, "{claim}");
    assert!(claim["reason"].as_str().unwrap().starts_with("a run failed, at scheme = \"nan-window\""), "{claim}");
    let strict = command(&workspace, &["claims", "mine", "--json", "--strict"]);
    assert_eq!(strict.status.code(), Some(1), "the check decides: {}", text(&strict.stderr));
    assert_lines(&failed(&strict));
}

fn evaluations_with_failed_runs_fail() {
    let workspace = Workspace::asking("failed_evaluation");
    let arguments = ["evaluate", "--controller", "wrong", "--against", "tcp", "--questions", "mine", "--json"];
    let output = command(&workspace, &arguments);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let lines = failed(&output);
    assert!(lines.len() == 2 && lines[0].contains("seed = 1: the controller of scheme `wrong`"), "{lines:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let answers = &json["evaluation"]["sections"][0]["questions"][0]["answers"];
    assert_eq!((&answers[0]["verdict"], &answers[1]["verdict"]), (&"fails".into(), &"passes".into()), "{answers}");
    assert_eq!(json["evaluation"]["failed"].as_array().unwrap().len(), 2);

    // In the baseline the controller did what its rival does.
    let mut baseline = json["evaluation"].clone();
    let answers = &mut baseline["sections"][0]["questions"][0]["answers"];
    let good = answers[1].clone();
    for part in ["verdict", "worst", "values"] {
        answers[0][part] = good[part].clone();
    }
    std::fs::write(workspace.0.join("baseline.json"), baseline.to_string()).unwrap();
    let gate = command(&workspace, &[&arguments[..], &["--baseline", "baseline.json"]].concat());
    assert_eq!(gate.status.code(), Some(1), "the check decides: {}", text(&gate.stderr));
    assert_eq!(failed(&gate).len(), 2);
}
