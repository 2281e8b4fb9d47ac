//! Tests of the two applications of the Congestion Manager with real packets, over emulated links and with clients that
//! do not use it. Rates are low and bounds are wide: the tests check that all parts work together. A test that the
//! machine cannot run prints why it is skipped.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{RAMPMETER, Workspace, text};
use serde_json::Value;

/// Two emulated networks at the same time would disturb each other.
static REAL: Mutex<()> = Mutex::new(());

/// A workspace with a web site. `None`, with a message, if the machine cannot emulate.
struct Site {
    workspace: Workspace,
    _alone: MutexGuard<'static, ()>,
}

impl Site {
    fn new(name: &str) -> Option<Self> {
        let alone = REAL.lock().unwrap_or_else(PoisonError::into_inner);
        let workspace = Workspace::new(name);
        let probe = text(&workspace.rampmeter(&["probe"]).stdout);
        if !probe.lines().any(|line| line.starts_with("emulated world") && line.ends_with("yes")) {
            eprintln!("skipped {name}: {}", probe.trim());
            return None;
        }
        let has_client = Command::new("curl").arg("--version").output().is_ok();
        if !has_client {
            eprintln!("skipped {name}: there is no curl");
            return None;
        }
        fs::create_dir(workspace.0.join("site")).unwrap();
        for (level, size) in [("low", 10_000), ("medium", 80_000), ("high", 500_000)] {
            fs::write(workspace.0.join(format!("site/photo.{level}.jpg")), vec![7; size]).unwrap();
        }
        fs::write(workspace.0.join("site/page"), (0..60_000).map(|n| n as u8).collect::<Vec<_>>()).unwrap();
        Some(Self { workspace, _alone: alone })
    }

    /// Runs `right` against a web server and the commands `beside` on a link of studies/cm/apps.toml.
    fn emulate(&self, link: &str, beside: &str, right: &str) -> Output {
        let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/cm/apps.toml");
        let wait = "for n in $(seq 100); do test -S cm.sock && break; sleep 0.05; done";
        let left = format!(
            "'{RAMPMETER}' cm daemon --listen 0.0.0.0 > daemon.log & {wait}; {beside} \
             exec '{RAMPMETER}' cm web site --json --listen $RAMPMETER_LEFT:8080 > web.log"
        );
        let right = format!("{wait}; sleep 0.3; {right}");
        let mut command = self.workspace.command(&["emulate"]);
        command.arg(scenario).args(["--set", &format!("link={link}"), "--left", &left, "--right", &right]);
        command.env("RAMPMETER_CM_SOCKET", self.workspace.0.join("cm.sock"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        output
    }

    /// The server's log of its responses.
    fn responses(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.workspace.0.join("web.log")).unwrap();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Jain's index: 1 for equal shares.
fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn four_connections_of_a_client_get_equal_shares() {
    let Some(site) = Site::new("four_connections") else { return };
    let fetch = "for n in 1 2 3 4; do curl -sS -m 20 -o got.$n -w '%{speed_download}\\n' \
                 http://$RAMPMETER_LEFT:8080/page & done; wait; sleep 1"; // for the last acknowledgements
    let output = site.emulate("1Mbps", "", fetch);
    let speeds: Vec<f64> = text(&output.stdout).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(speeds.len(), 4);
    for n in 1..=4 {
        assert!(
            fs::read(site.workspace.0.join(format!("got.{n}"))).unwrap()
                == fs::read(site.workspace.0.join("site/page")).unwrap()
        );
    }
    // 240 kB over 1 Mb/s take 2 s with headers; slow start and one or two losses may take more than that again.
    let goodput = 8.0 * 60_000.0 * 4.0 / (60_000.0 / speeds.iter().copied().fold(f64::MAX, f64::min));
    eprintln!("speeds {speeds:?}, Jain {:.3}, together {:.0} kb/s", jain(&speeds), goodput / 1e3);
    assert!(jain(&speeds) >= 0.9, "{speeds:?}");
    assert!(goodput > 300e3, "{speeds:?}");
    let responses = site.responses();
    let is_fine = |response: &Value| response["whole"] == true && response["status"] == 200;
    assert!(responses.len() == 4 && responses.iter().all(is_fine), "{responses:?}");
}

#[test]
fn a_client_divides_the_rate_by_the_urgency_of_its_requests() {
    let Some(site) = Site::new("urgency") else { return };
    let fetch = "for u in 5 1; do curl -sS -m 40 -o /dev/null -H \"Priority: u=$u\" \
                 http://$RAMPMETER_LEFT:8080/photo.high.jpg & done; wait; sleep 1";
    site.emulate("1Mbps", "", fetch);
    let responses = site.responses();
    let goodput = |urgency: u64| {
        let response = responses.iter().find(|response| response["urgency"] == urgency);
        response.unwrap_or_else(|| panic!("{responses:?}"))["goodput_bps"].as_f64().unwrap()
    };
    // Weights of 4 and 1/4: one object has 16 of 17 parts of the rate, and the other one takes the time of both, 32/17.
    let ratio = goodput(1) / goodput(5);
    eprintln!("ratio {ratio:.2}");
    assert!((1.4..2.2).contains(&ratio), "{ratio}");
}

/// The file that a client gets at the last of several requests.
fn representation(site: &Site, link: &str) -> String {
    let fetch = "curl -sS -m 20 -o /dev/null $(for n in 1 2 3; do echo http://$RAMPMETER_LEFT:8080/photo.jpg; done); \
                 curl -sS -m 20 -o /dev/null -D head http://$RAMPMETER_LEFT:8080/photo.jpg";
    site.emulate(link, "", fetch);
    let head = fs::read_to_string(site.workspace.0.join("head")).unwrap();
    assert!(head.contains("Vary: *\r\n"), "{head}");
    let file = head.lines().find_map(|line| line.strip_prefix("Content-Location: /")).unwrap();
    eprintln!("{link}: {file}");
    let responses = site.responses();
    assert!(responses.last().unwrap()["file"] == file, "{responses:?}");
    file.to_owned()
}

#[test]
fn the_representation_follows_the_path() {
    let Some(site) = Site::new("representation") else { return };
    assert_eq!(representation(&site, "100kbps"), "photo.low.jpg");
    assert_eq!(representation(&site, "10Mbps"), "photo.high.jpg");
}

#[test]
fn audio_beside_a_transfer_uses_the_encoding_of_its_share() {
    let Some(site) = Site::new("audio_beside_a_transfer") else { return };
    let audio =
        format!("(sleep 0.5; '{RAMPMETER}' cm audio --to $RAMPMETER_RIGHT:7000 --duration 4s --json > audio.json) &");
    let right = format!(
        "'{RAMPMETER}' cm listen 7000 > /dev/null & \
         for n in 1 2; do curl -sS -m 6 -o /dev/null http://$RAMPMETER_LEFT:8080/page; done; \
         for n in $(seq 200); do test -s audio.json && break; sleep 0.05; done; kill $!"
    );
    site.emulate("500kbps", &audio, &right);
    let report: Value =
        serde_json::from_str(&fs::read_to_string(site.workspace.0.join("audio.json")).unwrap()).unwrap();
    eprintln!("{report}");
    // Half of 500 kb/s carries 160; its share moves by a factor of two around that.
    let near: f64 = report["encodings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|spent| (80_000..=320_000).contains(&spent["encoding_bps"].as_u64().unwrap()))
        .map(|spent| spent["part"].as_f64().unwrap())
        .sum();
    assert!(near > 0.6, "{report}");
    assert!(report["lost"].as_u64().unwrap() * 5 < report["datagrams"].as_u64().unwrap(), "{report}");
}

#[test]
fn commands_end_together_with_the_right_ones_exit_code() {
    let Some(site) = Site::new("commands") else { return };
    fs::write(site.workspace.0.join("small.toml"), common::SMALL).unwrap();
    let run = |left: &str, right: &str| {
        let output = site.workspace.rampmeter(&["emulate", "small.toml", "--left", left, "--right", right]);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let started_at = std::time::Instant::now();
    let (code, message, _) = run("sleep 600 & sleep 600", "echo $RAMPMETER_LEFT $RAMPMETER_RIGHT; exit 7");
    assert_eq!((code, message.as_str()), (Some(7), "10.64.0.1 10.65.0.1\n"));
    let (code, _, message) = run("exit 3", "sleep 600");
    assert_eq!((code, message.contains("left")), (Some(3), true), "{message}");
    assert!(started_at.elapsed().as_secs() < 20);
    let nothing = site.workspace.rampmeter(&["emulate", "small.toml"]);
    assert_eq!((nothing.status.code(), text(&nothing.stderr).lines().count()), (Some(2), 1));
    let unknown = site.workspace.rampmeter(&["emulate", "small.toml", "--left", "true", "--between", "source,snk"]);
    assert!(text(&unknown.stderr).contains("sink.0"), "{}", text(&unknown.stderr));
}

#[test]
fn applications_without_a_daemon_name_the_command_to_start() {
    let workspace = Workspace::new("no_daemon");
    for words in [&["cm", "web", "."][..], &["cm", "audio", "--to", "127.0.0.1:9"]] {
        let output = workspace.command(words).env("RAMPMETER_CM_SOCKET", workspace.0.join("none")).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let message = text(&output.stderr);
        assert!(message.lines().count() == 1 && message.contains("rampmeter cm daemon"), "{message}");
    }
}
