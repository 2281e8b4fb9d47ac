//! Ends what was started in the network of a run, also if the process of the run is killed.
//!
//! A keeper is a shell that waits until a pipe from this process closes: the run has ended, or this process is gone, even
//! by SIGKILL. Then the keeper ends all processes in the run's network namespaces, also those that have left their
//! process groups and parents, and those of `ip netns exec`. With the last of them the namespaces and devices end.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::host::Host;

/// Standard output and error are the files of the namespaces, the arguments their names. A process has half a second to
/// end. It may have started others just before, so the search is repeated until it finds none.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r line
for name; do [ -e "$name" ] || rm -f "$name"; done
rounds=200
found=1
while [ $found = 1 ] && [ $rounds -gt 0 ]; do
  found=0
  rounds=$((rounds - 1))
  for process in /proc/[0-9]*; do
    if [ "$process/ns/net" -ef /proc/self/fd/1 ] || [ "$process/ns/net" -ef /proc/self/fd/2 ]; then
      if [ $rounds -gt 175 ]; then kill "${process#/proc/}"; else kill -9 "${process#/proc/}"; fi
      found=1
    fi
  done
  [ $found = 0 ] || sleep 0.02
done"#;

/// The keeper of a run. Dropping it ends the processes that are left.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    /// Starts to keep the processes in the namespaces of these hosts.
    pub(crate) fn new(hosts: [&Host; 2]) -> io::Result<Self> {
        let [a, b] = hosts.map(|host| host.namespace.file());
        let file = |file: &File| file.try_clone().map(Stdio::from);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "keeper"]).args(hosts.iter().filter_map(|host| host.link()));
        command.stdin(Stdio::piped()).stdout(file(a)?).stderr(file(b)?);
        // Signals to the process group of this process do not reach the keeper.
        command.process_group(0).current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
        command.spawn().map(Self)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.wait(); // closes the pipe
    }
}
