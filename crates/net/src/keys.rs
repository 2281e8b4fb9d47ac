//! Files of keys: this host's own, those of known servers, those of clients that may connect.
//!
//! ```text
//! key              the secret key, readable by its owner only
//! known_servers    HOST:PORT KEY            one line for each server, appended at first contact
//! authorized_keys  KEY and, if wanted, a comment;   lines that start with `#` are comments
//! ```
//!
//! ```
//! use rampmeter_net::keys::{create_key, read_authorized_keys, read_key};
//!
//! let place = tempfile::tempdir()?;
//! let key = create_key(&place.path().join("key"))?;
//! assert_eq!(read_key(&place.path().join("key"))?.public(), key.public());
//!
//! let list = place.path().join("authorized_keys");
//! std::fs::write(&list, format!("# laptops\n{} of the office\n", key.public()))?;
//! assert_eq!(read_authorized_keys(&list)?[&key.public()], "of the office");
//!
//! std::fs::write(&list, "c2hvcnQ=\n")?;
//! let error = read_authorized_keys(&list).unwrap_err().to_string();
//! assert!(error.contains("authorized_keys:1: "), "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use rampmeter_session::{KeyPair, PublicKey};
use rand::rngs::OsRng;
use rand::{RngCore, TryRngCore};
use thiserror::Error;
use zeroize::Zeroizing;

/// Why a file of keys cannot be used.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("{0}: {1}; give a file that this user may use")]
    File(PathBuf, io::Error),
    /// A line is not what it should be.
    #[error("{path}:{line}: {problem}; {remedy}", path = .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: &'static str,
        /// What to write instead.
        remedy: &'static str,
    },
    /// Others can read the secret key.
    #[error("{0}: other users can read this secret key; run `chmod 600` on it, or make a new key")]
    Exposed(PathBuf),
    /// Somebody else may know the secret key, or change it.
    #[error("{0} {1}: its key may be known to others; make a new one with `rampmeter key`")]
    NotOwn(PathBuf, &'static str),
    /// There is a file already.
    #[error("{0} exists: a new key there would change this host's identity; give another path, or delete it first")]
    Exists(PathBuf),
    /// There is no directory for this file of the user's.
    #[error("no directory is known for `{file}`: set HOME (or XDG_CONFIG_HOME), or give {instead}")]
    NoDirectory {
        /// The name of the file.
        file: &'static str,
        /// What to give instead.
        instead: &'static str,
    },
}

/// The directory of the user's keys: `$XDG_CONFIG_HOME/rampmeter`, or `~/.config/rampmeter`. `get` reads a variable.
fn directory(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // Relative ones are ignored, as the XDG Base Directory Specification demands.
    let set = |name| get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    base.map(|base| base.join("rampmeter"))
}

fn default_file(file: &'static str, instead: &'static str) -> Result<PathBuf, KeyError> {
    let directory = directory(|name| std::env::var_os(name)).ok_or(KeyError::NoDirectory { file, instead })?;
    Ok(directory.join(file))
}

/// The file of the user's secret key.
pub fn default_key() -> Result<PathBuf, KeyError> {
    default_file("key", "the file of the secret key, with --identity FILE or `rampmeter key FILE`")
}

/// The user's file of known servers.
pub fn default_known_servers() -> Result<PathBuf, KeyError> {
    default_file("known_servers", "the server's key, in its address (?key=KEY) or with --key KEY")
}

/// The maximum size of a file with a secret key.
const MAX_KEY_FILE: u64 = 4096;

/// Reads the secret key in `path`.
pub fn read_key(path: &Path) -> Result<KeyPair, KeyError> {
    let failed = |error| KeyError::File(path.to_owned(), error);
    let mut file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    // Of the whole size at once: a vector that grows would leave copies.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEY_FILE as usize));
    (&mut file).take(MAX_KEY_FILE).read_to_end(&mut bytes).map_err(failed)?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let (line, key) = lines(text).next().unwrap_or((1, ""));
    let pair = KeyPair::from_secret_text(key).map_err(|_| KeyError::Line {
        path: path.to_owned(),
        line,
        problem: "this is no secret key",
        remedy: "`rampmeter key` makes one",
    })?;
    let own = nix::unistd::geteuid().as_raw();
    match () {
        // Only of a key: no other file is to get these permissions.
        () if found.mode() & 0o077 != 0 => Err(KeyError::Exposed(path.to_owned())),
        () if ![own, 0].contains(&found.uid()) => Err(KeyError::NotOwn(path.to_owned(), "belongs to another user")),
        () if found.nlink() > 1 => Err(KeyError::NotOwn(path.to_owned(), "has another name, too (a hard link)")),
        () => Ok(pair),
    }
}

/// Makes a secret key in `path`, which must not exist.
pub fn create_key(path: &Path) -> Result<KeyPair, KeyError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
        _ => KeyError::File(path.to_owned(), error),
    };
    let pair = KeyPair::generate(&mut OsRng.unwrap_err());
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    // Complete before it has its name, so that another process never reads a part of it.
    let temporary = path.with_extension(format!("{:016x}.new", OsRng.unwrap_err().next_u64()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            writeln!(file, "# The secret key of this host for Rampmeter. Public key: {}", pair.public())?;
            writeln!(file, "{}", *pair.secret_text())?;
            file.sync_all()
        })
        // Not by a link: another process that starts now would refuse a key with two names.
        .and_then(|()| match renameat2(AT_FDCWD, &temporary, AT_FDCWD, path, RenameFlags::RENAME_NOREPLACE) {
            Err(Errno::EINVAL) => fs::hard_link(&temporary, path).and_then(|()| fs::remove_file(&temporary)), // NFS
            renamed => Ok(renamed?),
        });
    if written.is_err() {
        let _absent = fs::remove_file(&temporary);
    }
    written.map_err(failed)?;
    Ok(pair)
}

/// Reads the secret key in `path`, or makes one there. True if it was made.
pub fn read_or_create_key(path: &Path) -> Result<(KeyPair, bool), KeyError> {
    if path.exists() {
        return Ok((read_key(path)?, false));
    }
    match create_key(path) {
        Err(KeyError::Exists(_)) => Ok((read_key(path)?, false)), // another process was faster
        made => Ok((made?, true)),
    }
}

/// Reads a list of public keys, and their comments.
pub fn read_authorized_keys(path: &Path) -> Result<BTreeMap<PublicKey, String>, KeyError> {
    let text = fs::read_to_string(path).map_err(|error| KeyError::File(path.to_owned(), error))?;
    authorized_keys(path, &text)
}

/// The public keys in the `text` of the file at `path`.
pub(crate) fn authorized_keys(path: &Path, text: &str) -> Result<BTreeMap<PublicKey, String>, KeyError> {
    lines(text)
        .map(|(line, text)| {
            let (key, comment) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            // It is printed to logs.
            let comment = comment.trim().chars().filter(|c| !c.is_control()).collect();
            key.parse().map(|key| (key, comment)).map_err(|_| KeyError::Line {
                path: path.to_owned(),
                line,
                problem: "the line does not start with a public key",
                remedy: "write 43 characters as `rampmeter key` prints them, then a comment if wanted",
            })
        })
        .collect()
}

/// The key of `server` (HOST:PORT) in the file of known servers, which need not exist, and its line.
pub(crate) fn known_server(path: &Path, server: &str) -> Result<Option<(PublicKey, usize)>, KeyError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => known_key(path, &read.map_err(|error| KeyError::File(path.to_owned(), error))?, server),
    }
}

/// The key of `server` in the `text` of the file at `path`, and its line.
pub(crate) fn known_key(path: &Path, text: &str, server: &str) -> Result<Option<(PublicKey, usize)>, KeyError> {
    let mut found = None;
    for (line, text) in lines(text) {
        let (name, key) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if name.eq_ignore_ascii_case(server) {
            let key = key.trim().parse().map_err(|_| KeyError::Line {
                path: path.to_owned(),
                line,
                problem: "no public key follows the name of the server",
                remedy: "correct it, or delete the line to accept the server's key at the next contact",
            })?;
            found = Some((key, line));
        }
    }
    Ok(found)
}

/// Appends a server to the file of known servers. Returns its line.
pub(crate) fn remember_server(path: &Path, server: &str, key: PublicKey) -> Result<usize, KeyError> {
    let append = || -> io::Result<usize> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::create_dir_all(directory)?;
        }
        let mut file: File = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        // One write: two processes do not mix their lines.
        file.write_all(format!("{end}{server} {key}\n").as_bytes())?;
        Ok(fs::read_to_string(path)?.lines().count())
    };
    append().map_err(|error| KeyError::File(path.to_owned(), error))
}

/// The lines with content, and their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_that_others_may_know_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        create_key(&path).unwrap();
        let other = directory.path().join("other");
        fs::hard_link(&path, &other).unwrap();
        assert!(read_key(&path).unwrap_err().to_string().contains("hard link"));
        fs::remove_file(&other).unwrap();
        read_key(&path).unwrap();
        if nix::unistd::geteuid().is_root() {
            // As what a service of another user would find.
            std::os::unix::fs::chown(&path, Some(1), None).unwrap();
            assert!(read_key(&path).unwrap_err().to_string().contains("another user"));
        }
    }

    /// Another user makes a file of its own where the key is written first.
    #[test]
    fn a_key_is_not_written_to_a_file_that_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let trap = path.with_extension(format!("{}.new", std::process::id()));
        fs::write(&trap, "").unwrap();
        fs::set_permissions(&trap, fs::Permissions::from_mode(0o666)).unwrap();
        let mut reader = File::open(&trap).unwrap();
        create_key(&path).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "", "the secret key");
    }

    #[test]
    fn processes_that_start_together_have_one_key() {
        for _ in 0..50 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("key");
            let keys: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| read_or_create_key(&path).unwrap())).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(keys.iter().filter(|(_, is_new)| *is_new).count(), 1);
            assert!(keys.iter().all(|(key, _)| key.public() == keys[0].0.public()));
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
        }
    }

    #[test]
    fn a_secret_key_is_made_once_and_only_its_owner_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub/key");
        let (made, is_new) = read_or_create_key(&path).unwrap();
        assert!(is_new);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (again, is_new) = read_or_create_key(&path).unwrap();
        assert!(!is_new && again.public() == made.public());
        assert!(matches!(create_key(&path), Err(KeyError::Exists(_))));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read_key(&path), Err(KeyError::Exposed(_))));
    }

    #[test]
    fn keys_have_no_directory_without_a_home() {
        let of = |variables: &[(&str, &str)]| {
            directory(|name| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into()))
        };
        let (home, config) = (("HOME", "/home/a"), ("XDG_CONFIG_HOME", "/config"));
        assert_eq!(of(&[home]), Some("/home/a/.config/rampmeter".into()));
        assert_eq!(of(&[home, config]), Some("/config/rampmeter".into()));
        assert_eq!(of(&[home, ("XDG_CONFIG_HOME", "")]), Some("/home/a/.config/rampmeter".into()));
        for no_home in [&[][..], &[("HOME", "")], &[("HOME", "a"), ("XDG_CONFIG_HOME", "b")]] {
            assert_eq!(of(no_home), None);
        }
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        fs::write(&path, "# comment\n\nnot a key\n").unwrap();
        let error = read_authorized_keys(&path).unwrap_err().to_string();
        assert!(error.contains("keys:3: ") && error.contains("rampmeter key"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = read_key(&path).unwrap_err().to_string();
        assert!(error.contains("keys:3: "), "{error}");
    }

    #[test]
    fn a_known_server_has_its_last_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/known_servers");
        let keys = [1, 2].map(|seed| KeyPair::generate(&mut rampmeter_units::Random::from_seed(seed)).public());
        assert_eq!(known_server(&path, "a:1").unwrap(), None);
        remember_server(&path, "a:1", keys[0]).unwrap();
        remember_server(&path, "b:1", keys[1]).unwrap();
        assert_eq!(known_server(&path, "A:1").unwrap(), Some((keys[0], 1)));
        assert_eq!(known_server(&path, "a:2").unwrap(), None);
        // As an editor may leave it.
        fs::write(&path, format!("a:1 {}", keys[0])).unwrap();
        assert_eq!(remember_server(&path, "b:1", keys[1]).unwrap(), 2);
        assert_eq!(known_server(&path, "a:1").unwrap(), Some((keys[0], 1)));
        assert_eq!(known_server(&path, "b:1").unwrap(), Some((keys[1], 2)));
        fs::write(&path, "a:1 nonsense\n").unwrap();
        assert!(known_server(&path, "a:1").unwrap_err().to_string().contains("known_servers:1: "));
    }

    #[test]
    fn authorized_keys_have_comments() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let key = KeyPair::generate(&mut rampmeter_units::Random::from_seed(1)).public();
        fs::write(&path, format!("# people\n{key} a laptop\n")).unwrap();
        assert_eq!(read_authorized_keys(&path).unwrap(), BTreeMap::from([(key, "a laptop".to_owned())]));
    }
}
