//! Names of network namespaces, by which `ip netns exec NAME COMMAND` enters them.
//!
//! A name is a link in `/run/netns` to the open file of the namespace in this process. So it keeps no namespace alive,
//! and a process that was killed leaves links that lead nowhere. The [`Keeper`](crate::keeper::Keeper) removes them, or
//! the next run.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::namespace::Namespace;

const DIRECTORY: &str = "/run/netns";

const PREFIX: &str = "rampmeter-";

/// The file by which other processes enter a namespace of this process.
pub(crate) fn place(namespace: &Namespace) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), namespace.file().as_raw_fd()).into()
}

/// A name of a namespace. Dropping it removes the name.
#[derive(Debug)]
pub(crate) struct Name {
    link: PathBuf,
    to: PathBuf,
}

impl Name {
    /// Calls the namespace `rampmeter-SIDE`, or `rampmeter-SIDE-2` and so on while another run has that name.
    pub(crate) fn new(side: &str, namespace: &Namespace) -> io::Result<Self> {
        Self::of_link(Path::new(DIRECTORY), side, place(namespace))
    }

    fn of_link(directory: &Path, side: &str, to: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        // Another run must not replace a link between our look at it and its removal.
        let _alone = Flock::lock(File::open(directory)?, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
        remove_dead(directory)?;
        for link in (1..).map(|n| directory.join(name(side, n))) {
            match symlink(&to, &link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => return result.map(|()| Self { link, to }),
            }
        }
        unreachable!("there are more numbers than names")
    }

    /// The link that `ip netns` looks for.
    pub(crate) fn link(&self) -> &Path {
        &self.link
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if fs::read_link(&self.link).is_ok_and(|to| to == self.to) {
            let _ = fs::remove_file(&self.link);
        }
    }
}

fn name(side: &str, n: u32) -> String {
    if n == 1 { format!("{PREFIX}{side}") } else { format!("{PREFIX}{side}-{n}") }
}

/// Removes the names of runs that were killed.
fn remove_dead(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let link = entry?.path();
        let is_ours = link.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        if is_ours && fs::read_link(&link).is_ok() && !link.exists() {
            fs::remove_file(&link)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_again_after_its_run_also_a_killed_one() {
        let directory = std::env::temp_dir().join(format!("rampmeter-names-{}", std::process::id()));
        let new = || Name::of_link(&directory, "left", "/proc/self/ns/net".into()).unwrap();
        let names = || {
            let entries = fs::read_dir(&directory).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        let (one, two) = (new(), new());
        assert_eq!(names(), ["rampmeter-left", "rampmeter-left-2"]);
        drop(one);
        for name in ["rampmeter-left", "rampmeter-right-3"] {
            symlink("/proc/0/fd/9", directory.join(name)).unwrap(); // as after SIGKILL
        }
        let three = new();
        assert_eq!(three.link(), directory.join("rampmeter-left"));
        assert_eq!(names(), ["rampmeter-left", "rampmeter-left-2"]);
        drop((two, three));
        assert!(names().is_empty());
        fs::remove_dir(&directory).unwrap();
    }
}
