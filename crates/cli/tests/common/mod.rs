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

[[hosts]]
name = "source"
count = 1
at = "left"
rate = "1 Gb/s"
delay = "1 ms"

[[hosts]]
name = "sink"
count = 1
at = "right"
rate = "1 Gb/s"
delay = "1 ms"

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

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(RAMPMETER);
        command.args(arguments).current_dir(&self.0).env("XDG_CONFIG_HOME", &self.0);
        command
    }

    pub(crate) fn rampmeter(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
