//! A directory in which tests run the command.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter");

/// One 40 Mb/s link, two seeds, a few transfers.
pub(crate) const SMALL: &str = r#"
duration = "3 s"
warmup = "0 s"
drain = "5 s"
packet = "1250 B"
hosts = [
    { name = "source", count = 1, at = "left", rate = "1 Gb/s", delay = "1 ms" },
    { name = "sink", count = 1, at = "right", rate = "1 Gb/s", delay = "1 ms" },
]
[axes]
scheme = ["tcp"]
seed = [1, 2]
[[link]]
name = "bottleneck"
between = ["left", "right"]
rate = "40 Mb/s"
delay = "10 ms"
router = { kind = "drop-tail", packets = 100 }
measure = true
[scheme.tcp]
controller = "newreno"
[[traffic]]
name = "transfers"
scheme = "$scheme"
from = "source"
to = "sink"
size = "100 kB"
arrivals = { per_second = 4 }
"#;

/// One question about that scenario.
const QUESTIONS: &str = r#"
[[section]]
id = "6.1"
title = "Wired paths"
level = "should"
asks = "How long do transfers take?"

[[question]]
id = "completion"
section = "6.1"
asks = "How long does a transfer of 100 kB take?"
scenario = "small.toml"
quick = true
metric = { mean = "flows.fct_mean_s" }
expect = { at_most = 1 }
because = "judgement: ten round trips are 0.24 s"
"#;

/// A directory for one test, with the small scenario in it.
pub(crate) struct Workspace(pub(crate) PathBuf);

impl Workspace {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("small.toml"), SMALL).unwrap();
        Self(path)
    }

    /// The same with that question in the directory `mine`.
    pub(crate) fn asking(name: &str) -> Self {
        let workspace = Self::new(name);
        let mine = workspace.0.join("mine");
        std::fs::create_dir(&mine).unwrap();
        let scenario = SMALL.replacen("duration", "schemes = \"schemes.toml\"\nduration", 1);
        let scenario = scenario.replacen("[scheme.tcp]\ncontroller = \"newreno\"\n", "", 1);
        std::fs::write(mine.join("small.toml"), scenario).unwrap();
        std::fs::write(mine.join("schemes.toml"), "[scheme.tcp]\ncontroller = \"newreno\"\n").unwrap();
        std::fs::write(mine.join("questions.toml"), QUESTIONS).unwrap();
        workspace
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(RAMPMETER);
        command.args(arguments).current_dir(&self.0).env("XDG_CONFIG_HOME", &self.0);
        command
    }

    pub(crate) fn rampmeter(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it writes to standard output; it must succeed.
    pub(crate) fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.rampmeter(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
