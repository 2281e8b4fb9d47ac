//! What a session is for: a service, and the server that the client asked for. Both are in the prologue of the
//! handshake, so that nobody between two hosts leads a client to another service, or another server, of the same key.

use ring::digest::{SHA256, digest};

use crate::datagram::TOKEN;

/// The service that a client asks for, and the only one that a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service(pub u8);

/// `HOST:PORT` as a client asked for it, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub(crate) [u8; TOKEN]);

impl Name {
    /// The name `HOST:PORT`. Upper and lower case are the same.
    pub fn new(text: &str) -> Self {
        let hash = digest(&SHA256, text.to_ascii_lowercase().as_bytes());
        Self(std::array::from_fn(|index| hash.as_ref()[index]))
    }
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    /// The service.
    pub service: Service,
    /// The server.
    pub name: Name,
}
