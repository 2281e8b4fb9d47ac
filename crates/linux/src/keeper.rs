//! Ends what a run has started if its process is killed, which then cannot do so itself.
//!
//! A keeper is a shell that waits for a line on a pipe from this process. If the line comes, the run has ended properly.
//! If the pipe closes without one, this process is gone, even by SIGKILL: the keeper kills all processes in the run's
//! network namespaces, also those that have left their process groups and parents. With the last of them the
//! namespaces and devices end.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::namespace::Namespace;

/// Standard output and error are the files of the namespaces. A killed process may have started others just before, so
/// the search is repeated until it finds none.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r line && exit
rounds=200
found=1
while [ $found = 1 ] && [ $rounds -gt 0 ]; do
  found=0
  rounds=$((rounds - 1))
  for process in /proc/[0-9]*; do
    if [ "$process/ns/net" -ef /proc/self/fd/1 ] || [ "$process/ns/net" -ef /proc/self/fd/2 ]; then
      kill -9 "${process#/proc/}"
      found=1
    fi
  done
  [ $found = 0 ] || sleep 0.02
done"#;

/// The keeper of a run. Dropping it says that the run has ended.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    /// Starts to keep the processes in these namespaces.
    pub(crate) fn new(namespaces: [&Namespace; 2]) -> io::Result<Self> {
        let [a, b] = namespaces.map(Namespace::file);
        let file = |file: &File| file.try_clone().map(Stdio::from);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(file(a)?).stderr(file(b)?);
        // Signals to the process group of this process do not reach the keeper.
        command.process_group(0).current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
        command.spawn().map(Self)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(b"ended\n");
        }
        let _ = self.0.wait();
    }
}
