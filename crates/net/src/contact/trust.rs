//! Whether a server is the right one: by its key in the address, in the options, or in a file of known servers.

use std::cell::OnceCell;
use std::path::PathBuf;

use rampmeter_session::{KeyPair, Name, PublicKey, Purpose, Service};

use super::{ContactError, KeyChanged, KeyOrigin, ServerAddress};
use crate::defaults::os_random;
use crate::keys::{self, KeyError};

/// How a client knows that a server is the right one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// By the key in the user's file of known servers ([`keys::default_known_servers`]).
    #[default]
    Default,
    /// By its key.
    Key(PublicKey),
    /// By the key in this file, in which the key of a new server is stored at first contact.
    KnownServers(PathBuf),
}

/// The key of a server and where it is from, and where the key of a new server is stored.
type Known = (Option<(PublicKey, KeyOrigin)>, Option<PathBuf>);

/// Which server is the right one, and who this client is.
#[derive(Debug)]
pub struct Trusted {
    server: ServerAddress,
    expected: OnceCell<(PublicKey, KeyOrigin)>,
    /// Where the key of a new server is stored.
    known_servers: Option<PathBuf>,
    /// The key of this client.
    pub identity: KeyPair,
    /// Whether the identity was made for this contact.
    is_new_identity: bool,
}

impl Trusted {
    /// Without an identity, this client has a new key.
    pub fn new(server: &ServerAddress, trust: &Trust, identity: Option<&KeyPair>) -> Result<Self, ContactError> {
        let (expected, known_servers) = match (server.key, trust) {
            (Some(key), Trust::Key(other)) if key != *other => {
                let problem =
                    format!("{} has the key {key} in its address, and the key {other} was given", server.text);
                return Err(ContactError::BadOption(format!("{problem}: give only one of them")));
            }
            (Some(key), _) => (Some((key, KeyOrigin::Address)), None),
            (None, Trust::Key(key)) => (Some((*key, KeyOrigin::Options)), None),
            (None, Trust::Default) => Self::known(server, keys::default_known_servers()?)?,
            (None, Trust::KnownServers(path)) => Self::known(server, path.clone())?,
        };
        let is_new_identity = identity.is_none();
        let identity = identity.cloned().unwrap_or_else(|| KeyPair::generate(&mut os_random()));
        let expected = expected.map_or_else(OnceCell::new, OnceCell::from);
        Ok(Self { server: server.clone(), expected, known_servers, identity, is_new_identity })
    }

    /// The server, HOST:PORT as written.
    pub fn server(&self) -> &str {
        &self.server.text
    }

    /// What this client asks the server for.
    pub fn purpose(&self, service: Service) -> Purpose {
        Purpose { service, name: Name::new(&self.server.text) }
    }

    /// The key of this client, if it has one that it keeps.
    pub fn own_key(&self) -> Option<PublicKey> {
        (!self.is_new_identity).then(|| self.identity.public())
    }

    /// The key of `server` in the file of known servers, and the file.
    fn known(server: &ServerAddress, path: PathBuf) -> Result<Known, KeyError> {
        let known = keys::known_server(&path, &server.text)?;
        let known = known.map(|(key, line)| (key, KeyOrigin::KnownServers { path: path.clone(), line }));
        Ok((known, Some(path)))
    }

    /// The key that the server should have, if it is known.
    pub fn expected(&self) -> Option<PublicKey> {
        self.expected.get().map(|(key, _)| *key)
    }

    /// The server has shown this key. That of a new server is stored, and expected from then on; true if it was.
    pub fn check(&self, got: PublicKey) -> Result<bool, ContactError> {
        match (self.expected.get(), &self.known_servers) {
            // What said otherwise was damaged or forged.
            (Some((expected, _)), _) if *expected == got => Ok(false),
            (Some((expected, origin)), _) => {
                let (server, origin) = (self.server.text.clone(), origin.clone());
                Err(ContactError::KeyChanged(Box::new(KeyChanged { server, got, expected: *expected, origin })))
            }
            (None, Some(path)) => {
                let line = keys::remember_server(path, &self.server.text, got)?;
                self.expected.get_or_init(|| (got, KeyOrigin::KnownServers { path: path.clone(), line }));
                Ok(true)
            }
            (None, None) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_key_names_the_file_and_the_line() {
        let [old, new] = [1, 2].map(|seed| KeyPair::generate(&mut rampmeter_units::Random::from_seed(seed)).public());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known_servers");
        std::fs::write(&path, format!("# servers\nb:1 {new}\na:1 {old}\n")).unwrap();
        let trust = Trust::KnownServers(path.clone());
        let trusted = Trusted::new(&ServerAddress::read("a:1").unwrap(), &trust, None).unwrap();
        assert!(matches!(trusted.check(old), Ok(false)));
        let Err(ContactError::KeyChanged(changed)) = trusted.check(new) else { panic!() };
        assert_eq!((changed.got, changed.expected), (new, old));
        assert_eq!(changed.origin, KeyOrigin::KnownServers { path, line: 3 });
    }

    #[test]
    fn two_different_keys_of_a_server_are_refused() {
        let [one, two] = [1, 2].map(|seed| KeyPair::generate(&mut rampmeter_units::Random::from_seed(seed)).public());
        let server = ServerAddress::read(&format!("a:1?key={one}")).unwrap();
        assert!(Trusted::new(&server, &Trust::Key(one), None).is_ok());
        let error = Trusted::new(&server, &Trust::Key(two), None).unwrap_err();
        let text = error.to_string();
        assert!(error.is_usage() && text.contains(&one.to_string()) && text.contains(&two.to_string()), "{text}");
    }

    #[test]
    fn a_new_server_cannot_change_its_key_in_a_later_attempt() {
        let [first, second] =
            [1, 2].map(|seed| KeyPair::generate(&mut rampmeter_units::Random::from_seed(seed)).public());
        let directory = tempfile::tempdir().unwrap();
        let trust = Trust::KnownServers(directory.path().join("known_servers"));
        let trusted = Trusted::new(&ServerAddress::read("a:1").unwrap(), &trust, None).unwrap();
        assert!(matches!(trusted.check(first), Ok(true)));
        assert!(matches!(trusted.check(first), Ok(false)), "it is stored once");
        let Err(ContactError::KeyChanged(changed)) = trusted.check(second) else { panic!() };
        assert!(matches!(changed.origin, KeyOrigin::KnownServers { line: 1, .. }));
    }
}
